"""The error for invalid or missing data."""

__all__ = ["DataError", "MissingDataError"]


class DataError(ValueError):
    """The data, or a request for them, is invalid; one line that names the place and what is allowed."""


class MissingDataError(DataError):
    """A known data set is not on this machine; the line gives the command that gets it."""
