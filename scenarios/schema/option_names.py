"""The names by which errors call what a user has given: options in the command line, arguments in Python."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["called", "either", "on_command_line"]

_is_command = ContextVar("_is_command", default=False)

_ARGUMENTS = {"--set": "changes"}
"""The arguments of `tacit.run` and other functions whose names differ from the option's."""


@contextmanager
def on_command_line() -> Iterator[None]:
    """Word errors for a user of the command line within this context."""
    token = _is_command.set(True)
    try:
        yield
    finally:
        _is_command.reset(token)


def either(command: str, python: str) -> str:
    """Return the text `command` on the command line, `python` anywhere else."""
    return command if _is_command.get() else python


def called(option: str, text: str = "") -> str:
    """Return the name of the `option`, such as ``--over``, or of its argument, with the `text` that was given to it.

    In Python, ``over`` is a dict of lists, so the key of the `text` is named instead.
    """
    argument = _ARGUMENTS.get(option, option.removeprefix("--").replace("-", "_"))
    if not text:
        return either(option, argument)
    key = text.partition("=")[0].strip()
    return either(f"{option} {text}", f'{argument}["{key}"]' if argument == "over" else f'{argument} "{text}"')
