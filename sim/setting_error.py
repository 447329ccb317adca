"""Problems with settings and keys, as data: the caller may know where the key stands."""

from typing import Any, Self

__all__ = ["Problem", "SettingError"]


class Problem(ValueError):
    """A key whose value does not fit the rest of a scenario: `key`, and in words what is wrong and what is allowed."""

    def __init__(self, key: str, problem: str) -> None:
        self.key, self.problem = key, problem
        super().__init__(f"{key}: {problem}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.key, self.problem)


class SettingError(ValueError):
    """The setting `key` may not have its `value`; `problem` says why, or what is allowed.

    It reads ``key(=value) problem`` after what stands `before`; `shown` is the value as it is written there.
    """

    def __init__(self, key: str, value: object, problem: str, before: str = "") -> None:
        self.key, self.value, self.problem, self.before = key, value, problem, before
        super().__init__(f"{before}{key}(={self.shown}) {problem}")

    @property
    def shown(self) -> str:
        """The value; text in quotes."""
        return repr(self.value) if isinstance(self.value, str) else str(self.value)

    def within(self, where: str) -> Self:
        """The same, with `where` it is."""
        return type(self)(self.key, self.value, self.problem, f"{where}: {self.before}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.key, self.value, self.problem, self.before)
