"""The reason of an early end: a sentence, and the facts that it states."""

import json
import math
import pickle
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.protocols.outcome import TOO_FEW, UNSAID, Abort, Reason, require
from tacit.sim.plain import Reader, Writer

VALUES = st.one_of(
    st.integers(), st.floats(allow_nan=False), st.text(), st.lists(st.text(min_size=1), max_size=3).map(tuple)
)
LEAVES = st.one_of(
    st.builds(Reason, st.text()),
    st.builds(lambda value: Reason("at {place}, early", place=value), VALUES),
)
REASONS = st.recursive(LEAVES, lambda inner: st.builds(lambda one: Reason("lost: {why}", why=one), inner), max_leaves=4)


def facts(reason: Reason) -> tuple[object, ...]:
    return str(reason), reason.record(), reason.lost


@given(REASONS, st.lists(st.sampled_from(["client/0", "client/7"]), unique=True))
def test_facts_of_a_reason_survive_processes_and_files(reason: Reason, lost: list[str]) -> None:
    reason = reason.with_lost(lost)
    assert facts(pickle.loads(pickle.dumps(reason))) == facts(reason)
    kinds = {"outcome:Reason": Reason}
    writer = Writer({}, kinds)
    stored = writer.write([reason])
    assert facts(Reader({}, kinds, writer.objects, {}).read(stored)[0]) == facts(reason)
    assert type(Writer({}, {}).write(reason)) is str  # where reasons may not be stored, their sentence is


@given(st.text())
def test_a_reason_of_a_plain_text_has_no_values(text: str) -> None:
    reason = Reason.of(text)
    assert (str(reason), reason.kind, reason.values, bool(reason)) == (text, text, {}, bool(text))
    assert facts(Abort(text).reason) == facts(reason if text else Reason(UNSAID))
    assert str(Abort(text)) == (text or UNSAID)


def test_the_sentence_of_a_reason_is_made_of_its_facts() -> None:
    why = Reason("{left} of {of}", left=np.int64(3), of=4)
    reason = Reason("after {time:g} s: {why}", time=np.float64(2.50), why=why)
    assert reason == "after 2.5 s: 3 of 4"
    inner = {"kind": "{left} of {of}", "values": {"left": 3, "of": 4}}
    assert [type(one) for one in reason.values.values()] == [float, Reason]
    assert reason.record() == {"kind": "after {time:g} s: {why}", "values": {"time": 2.5, "why": inner}}
    assert [one.kind for one in reason.all()] == ["after {time:g} s: {why}", "{left} of {of}"]
    named = Reason("without {clients}", clients=["client/1", "client/2"]).with_lost(["client/3"])
    assert named == "without client/1, client/2; lost: client/3"
    assert named.with_lost([]) == "without client/1, client/2"


def test_different_reasons_are_joined() -> None:
    one, other = Reason("{count} left", count=1), Reason("{count} left", count=2)
    assert facts(Reason.joined([one, one])) == facts(one)
    both = Reason.joined([one, other, one])
    assert both == "1 left; 2 left" and [*both.values.values()] == [one, other]


def test_the_reason_of_too_few_clients_states_the_requirement() -> None:
    with pytest.raises(Abort) as caught:
        require(2, "clients", 3, "protocol.threshold")
    assert str(caught.value) == "2 clients are left; protocol.threshold is 3"
    expected = {"count": 2, "what": "clients", "limit": "protocol.threshold", "least": 3}
    assert (caught.value.reason.kind, caught.value.reason.values) == (TOO_FEW, expected)


class Colour(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "recorded"),
    [
        (None, "None"),
        (True, True),
        (np.bool_(True), True),
        (np.array(3), 3),
        (np.float32(0.5), 0.5),
        (np.str_("some"), "some"),
        (Colour.RED, "red"),
        (Decimal("0.1"), "0.1"),
        (Path("a/b"), "a/b"),
        (ValueError("no"), "no"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (1 << 80, float(1 << 80)),
        (-(1 << 4000), "-inf"),
        ({"b", "a"}, ["a", "b"]),
        (np.arange(2), ["0", "1"]),
        ("a\udc80b", "a\\udc80b"),
        (["a\udc80b"], ["a\\udc80b"]),
    ],
)
def test_values_of_a_plugins_reason_are_recorded_as_json(value: object, recorded: object) -> None:
    record = Abort("it is {value}", value=value).reason.record()
    assert record == {"kind": "it is {value}", "values": {"value": recorded}}
    assert msgspec.json.decode(msgspec.json.encode(record)) == json.loads(json.dumps(record, allow_nan=False)) == record


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("{count} of {total}", r"\{count\} of \{total\}.*no value for \{total\}; allowed: \{count\}"),
        ("a {set} of {count}", r"no value for \{set\}.*a brace in the text is \{\{"),
        ("{} left", r"no value for \{\}"),
        ("{count.real}", r"no value for \{count.real\}"),
        ("{count:{width}}", r"no value for"),
        ("{count left", r"the reason '\{count left': expected"),
        ("{count:s}", r"the reason '\{count:s\}': Unknown format code"),
    ],
)
def test_a_sentence_that_does_not_fit_its_values_is_named(kind: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Abort(kind, count=2)


@pytest.mark.parametrize(
    ("value", "problem"), [(b"secret", "key of a reason is bytes"), (object(), "which has no text")]
)
def test_a_value_without_a_text_is_refused_and_not_shown(value: object, problem: str) -> None:
    with pytest.raises(TypeError, match=problem) as caught:
        Abort("{key}", key=value)
    assert "secret" not in str(caught.value) and "0x" not in str(caught.value)


def test_texts_of_reasons_are_stored_as_str(tmp_path: Path) -> None:
    class Own(Abort):
        def __init__(self, count: int) -> None:
            super().__init__("{count} of its own", count=count)

    inner: Any = Reason("{count} left", count=1)
    assert type(Reason(inner).kind) is type(Reason(np.str_("a")).kind) is str
    assert facts(Own(3).reason) == facts(Reason("{count} of its own", count=3))
    assert facts(Abort().reason) == facts(Abort("", count=3).reason.made(UNSAID, {})) and Abort().reason == UNSAID
