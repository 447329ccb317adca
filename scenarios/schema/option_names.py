"""The names of inputs in error messages: options on the command line, arguments in Python."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["called", "either", "on_command_line"]

_is_command = ContextVar("_is_command", default=False)

_ARGUMENTS = {"--set": "changes"}
"""The arguments of `tacit.run` and other functions whose names differ from those of the options."""


@contextmanager
def on_command_line() -> Iterator[None]:
    """Within this context, errors name options of the command line."""
    token = _is_command.set(True)
    try:
        yield
    finally:
        _is_command.reset(token)


def either(command: str, python: str) -> str:
    """Return `command` on the command line, otherwise `python`."""
    return command if _is_command.get() else python


def called(option: str, text: str = "") -> str:
    """Return the name of the `option`, such as ``--over``, or of the corresponding argument, with the `text` given to
    it.

    In Python, ``over`` is a dict of lists, so the key in the `text` is named instead.
    """
    argument = _ARGUMENTS.get(option, option.removeprefix("--").replace("-", "_"))
    if not text:
        return either(option, argument)
    key = text.partition("=")[0].strip()
    return either(f"{option} {text}", f'{argument}["{key}"]' if argument == "over" else f'{argument} "{text}"')
