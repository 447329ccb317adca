"""Errors about settings and keys, as data, to which callers can add the place of the key."""

from typing import Any, Self

__all__ = ["Problem", "SettingError"]


class Problem(ValueError):
    """The value of a `key` does not fit the rest of a scenario. The text says what is wrong and what is allowed."""

    def __init__(self, key: str, problem: str) -> None:
        self.key, self.problem = key, problem
        super().__init__(f"{key}: {problem}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.key, self.problem)


class SettingError(ValueError):
    """The setting `key` must not have its `value`; `problem` gives the reason or the allowed values.

    The message is ``key(=value) problem`` after the text `before`; `shown` is the value as written there.
    """

    def __init__(self, key: str, value: object, problem: str, before: str = "") -> None:
        self.key, self.value, self.problem, self.before = key, value, problem, before
        super().__init__(f"{before}{key}(={self.shown}) {problem}")

    @property
    def shown(self) -> str:
        """The value as text; strings are quoted."""
        return repr(self.value) if isinstance(self.value, str) else str(self.value)

    def within(self, where: str) -> Self:
        """The same error with the place `where` in front."""
        return type(self)(self.key, self.value, self.problem, f"{where}: {self.before}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.key, self.value, self.problem, self.before)
