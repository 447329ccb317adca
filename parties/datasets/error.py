"""The error for invalid or missing data."""

from tacit.sim.setting_error import SettingError

__all__ = ["DataError", "DataSettingError", "MissingDataError"]


class DataError(ValueError):
    """The data, or a request for them, is invalid; the message names the place and what is allowed, in one line."""


class DataSettingError(SettingError, DataError):
    """A setting of the data has an invalid value, or one that does not suit these data."""


class MissingDataError(DataError):
    """A known data set is not on this machine; the message names the command that fetches it."""
