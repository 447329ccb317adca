"""What is wrong with data, in one line."""

__all__ = ["DataError", "MissingDataError"]


class DataError(ValueError):
    """The data, or what was asked of it, is wrong; one line that names the place and what is allowed."""


class MissingDataError(DataError):
    """A known data set is not on this machine; the line gives the command that gets it."""
