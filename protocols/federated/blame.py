"""The key of a scenario that caused an error of models, learners or training."""

from collections.abc import Mapping

from msgspec import Struct

from tacit.parties.learning.learners import LearnerError
from tacit.parties.learning.spec import ModelError
from tacit.sim.setting_error import SettingError

__all__ = ["key_of"]


def key_of(error: ValueError, tables: Mapping[str, type[Struct]]) -> str:
    """The key of the first of `tables` that has the setting, or that of the model's or learner's name; otherwise ""."""
    if isinstance(error, SettingError):
        return next(
            (f"{name}.{error.key}" for name, table in tables.items() if error.key in table.__struct_fields__), ""
        )
    return {ModelError: "model.name", LearnerError: "learner.name"}.get(type(error), "")
