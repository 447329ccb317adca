"""What is wrong with a setting, as data: whoever asked for it may know under which key it stands."""

from typing import Any

__all__ = ["SettingError"]


class SettingError(ValueError):
    """The setting `key` may not have its `value`; `problem` says why, or what is allowed.

    It reads ``key(=value) problem``; `shown` is the value as it is written there.
    """

    def __init__(self, key: str, value: object, problem: str) -> None:
        self.key, self.value, self.problem = key, value, problem
        super().__init__(f"{key}(={self.shown}) {problem}")

    @property
    def shown(self) -> str:
        """The value; text in quotes."""
        return repr(self.value) if isinstance(self.value, str) else str(self.value)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.key, self.value, self.problem)
