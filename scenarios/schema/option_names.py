"""The names by which errors call what a user has given: options in the command line, arguments in Python."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["called", "either", "on_command_line"]

_is_command = ContextVar("_is_command", default=False)

_ARGUMENTS = {"--set": "changes"}
"""The arguments of `tacit.run` and the others that have another name than the option."""


@contextmanager
def on_command_line() -> Iterator[None]:
    """Within it, errors are read by a user of the command line."""
    token = _is_command.set(True)
    try:
        yield
    finally:
        _is_command.reset(token)


def either(command: str, python: str) -> str:
    """The text `command` in the command line, `python` anywhere else."""
    return command if _is_command.get() else python


def called(option: str, text: str = "") -> str:
    """The `option`, such as ``--over``, or the argument of that name, with the `text` that was given to it.

    What is given to ``--over`` is named by its key in Python, where it is a dict of lists.
    """
    argument = _ARGUMENTS.get(option, option.removeprefix("--").replace("-", "_"))
    if not text:
        return either(option, argument)
    key = text.partition("=")[0].strip()
    return either(f"{option} {text}", f'{argument}["{key}"]' if argument == "over" else f'{argument} "{text}"')
