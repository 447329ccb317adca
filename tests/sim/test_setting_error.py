"""Errors that name a setting: as data, as text, and passed from a worker process."""

import pickle

from tacit.sim.setting_error import SettingError


def test_the_text_of_a_setting_error_has_key_value_and_problem() -> None:
    assert str(SettingError("amount", -1, "must be > 0")) == "amount(=-1) must be > 0"
    assert str(SettingError("name", "x", "is not known", "model: ")) == "model: name(='x') is not known"


def test_a_setting_error_can_be_placed_within_an_owner() -> None:
    error = SettingError("trees", 0, "must be >= 1").within("learner 'xgboost'")
    assert str(error) == "learner 'xgboost': trees(=0) must be >= 1"
    assert (error.key, error.value, error.problem) == ("trees", 0, "must be >= 1")


def test_a_setting_error_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(SettingError("l2", 2.0, "must be below 1", "FedMatch: ")))
    assert isinstance(error, SettingError)
    assert str(error) == "FedMatch: l2(=2.0) must be below 1"
