"""The error for invalid or missing data."""

from sim.setting_error import SettingError

__all__ = ["DataError", "DataSettingError", "MissingDataError"]


class DataError(ValueError):
    """The data, or a request for them, is invalid; one line that names the place and what is allowed."""


class DataSettingError(SettingError, DataError):
    """A setting of the data has a value that it may not have, or not with these data."""


class MissingDataError(DataError):
    """A known data set is not on this machine; the line gives the command that gets it."""
