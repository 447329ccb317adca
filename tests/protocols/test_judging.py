"""An aggregate is compared with the exact one over its survivors, and a mistake is named by its effect on the
numbers."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.protocols.auditing.judging import fitting, judge
from tacit.protocols.auditing.sums import RULES, Input, Quantiser, RoundSum, Vector

WEIGHTED, MEAN = RULES[0], RULES[1]
SIZE = 40
LAYERS = {"first": slice(0, 30), "second": slice(30, SIZE)}
NAMES = tuple(f"client/{number}" for number in range(6))


def inputs(seed: int = 1, spread: float = 1.0) -> dict[str, Input]:
    random = np.random.default_rng(seed)
    return {name: Input(spread * random.normal(size=SIZE), 100.0 * place) for place, name in enumerate(NAMES, 1)}


def round_sum(found: Vector | None = None, **changes: object) -> RoundSum:
    """A round that lost the last client, whose aggregate is exact or `found`."""
    before = np.random.default_rng(9).normal(size=SIZE)
    one = RoundSum(np.zeros(SIZE), inputs(), NAMES[:5], WEIGHTED, before, {1: before[::-1].copy()}, LAYERS)
    one = replace(one, **changes)  # type: ignore[arg-type]
    return replace(one, found=one.expected if found is None else found)


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.sampled_from(RULES), st.integers(1, 6))
def test_aggregates_in_float32_are_judged_right_by_every_rule(seed: int, rule: object, survivors: int) -> None:
    one = round_sum(inputs=inputs(seed), rule=rule, survivors=NAMES[:survivors])
    assert judge(replace(one, found=one.expected.astype(np.float32).astype(np.float64))).status == "ok"


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(0, SIZE - 1), st.floats(1e-3, 10))
def test_a_single_wrong_number_is_found(seed: int, place: int, by: float) -> None:
    one = round_sum(inputs=inputs(seed))
    found = one.expected.copy()
    found[place] += by
    verdict = judge(replace(one, found=found))
    assert verdict.status == "wrong" and verdict.error == pytest.approx(by)


@pytest.mark.parametrize(("times", "status"), [(0.99, "ok"), (1.01, "wrong")])
@pytest.mark.parametrize("survivors", [2, 5])
def test_an_error_of_a_few_roundings_of_float32_is_allowed_and_no_more(
    times: float, status: str, survivors: int
) -> None:
    """Each of n products and sums rounds once, and eight more are left to the rest of an app."""
    names = NAMES[:survivors]
    one = round_sum(survivors=names)
    total = sum(one.inputs[name].weight for name in names)
    size = sum(one.inputs[name].weight / total * abs(one.inputs[name].vector[7]) for name in names)
    found = one.expected.copy()
    found[7] += times * (survivors + 8) * float(np.finfo(np.float32).eps) * size
    assert judge(replace(one, found=found)).status == status


def mean_of(one: RoundSum, names: tuple[str, ...], by_all: bool = False) -> Vector:
    """The weighted mean of the inputs of `names`, or their sum divided by the weights of all."""
    total = sum(each.weight for name, each in one.inputs.items() if by_all or name in names)
    return np.sum([one.inputs[name].weight * one.inputs[name].vector for name in names], axis=0) / total


def layer_of(one: RoundSum, values: Vector) -> Vector:
    found = one.expected.copy()
    found[LAYERS["second"]] = values[LAYERS["second"]]
    return found


PREVIOUS = {name: each.vector for name, each in inputs(seed=2).items()}
ONE = round_sum(previous=PREVIOUS)
BEFORE = ONE.before if ONE.before is not None else np.zeros(SIZE)
MISTAKES = {
    "lost weights": np.mean([ONE.inputs[name].vector for name in NAMES[:5]], axis=0),
    "inputs are not multiplied": np.sum([ONE.inputs[name].vector for name in NAMES[:5]], axis=0) / 1500,
    "client/2 not counted, though its input arrived": mean_of(ONE, (*NAMES[:2], *NAMES[3:5])),
    "client/0, client/3 not counted": mean_of(ONE, (NAMES[1], NAMES[2], NAMES[4])),
    "client/5 counted, though its input did not arrive": mean_of(ONE, NAMES),
    "divided by the weights of all 6 called": mean_of(ONE, NAMES[:5], by_all=True),
    "the sign of the aggregate": -ONE.expected,
    "the sign of client/1's input": ONE.expected - 2 * 200 / 1500 * ONE.inputs["client/1"].vector,
    "not divided by the weights": 1500 * ONE.expected,
    "stale: it is the aggregate of round 1": ONE.earlier[1],
    "stale: it is the model": BEFORE,
    "only client/4 counted": ONE.inputs["client/4"].vector,
    "client/3 counted twice": mean_of(ONE, NAMES[:5]) + 400 / 1500 * ONE.inputs["client/3"].vector,
    "1 of 2 layers is wrong: second is 0": layer_of(ONE, np.zeros(SIZE)),
    "second is left out": layer_of(ONE, BEFORE),
    "second: lost weights": layer_of(ONE, np.mean([ONE.inputs[name].vector for name in NAMES[:5]], axis=0)),
    "the aggregate is rounded to float16": ONE.expected.astype(np.float16).astype(np.float64),
    "inputs are cut": np.average(
        [np.clip(ONE.inputs[name].vector, -0.5, 0.5) for name in NAMES[:5]], axis=0, weights=[1, 2, 3, 4, 5]
    ),
    "0.25 too large": ONE.expected + 0.25,
    "0.7 times": 0.7 * ONE.expected,
    "wrap-around: 20 of 40": ONE.expected + 8 * np.where(np.arange(SIZE) % 2, 0, 1 + np.arange(SIZE) // 20),
    "divided as if all 6 called clients counted": ONE.expected * 5 / 6,
    "3 of 40 numbers are 0": np.where(np.isin(np.arange(SIZE), (3, 8, 32)), 0, ONE.expected),
    "1 of 2 layers is wrong: second: 10 of 10 numbers are in another order": layer_of(
        ONE, np.concatenate([ONE.expected[:30], np.roll(ONE.expected[30:], 3)])
    ),
    "stale: client/1's input is that of an earlier round": ONE.expected
    + 200 / 1500 * (PREVIOUS["client/1"] - ONE.inputs["client/1"].vector),
    "infinite": np.full(SIZE, np.inf),
    "has 3 numbers": np.zeros(3),
    "other shares: client/0 0.5": mean_of(ONE, NAMES[:5])
    + (0.5 - 1 / 15) * ONE.inputs["client/0"].vector
    + 0.2 * ONE.inputs["client/2"].vector,
    "no known mistake": ONE.expected + np.random.default_rng(3).normal(size=SIZE),
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_wrong_aggregate_is_explained_by_its_mistake(words: str) -> None:
    verdict = judge(replace(ONE, found=MISTAKES[words]))
    assert verdict.status == "wrong" and words in verdict.reason, verdict.reason


def quantised(one: RoundSum, quantiser: Quantiser) -> Vector:
    """SecAgg+'s aggregate, without its masks."""
    random = np.random.default_rng(5)
    total, weights = np.zeros(SIZE, np.int64), 0
    for name in one.survivors:
        weight = quantiser.weight(one.inputs[name].weight)
        value = np.clip(one.inputs[name].vector * weight / quantiser.levels, -quantiser.clip, quantiser.clip)
        total += np.floor((value + quantiser.clip) / quantiser.step + random.random(SIZE)).astype(np.int64)
        weights += weight
    whole = weights % quantiser.modulus
    values = (total % quantiser.modulus) * quantiser.step - len(one.survivors) * quantiser.clip
    return values * quantiser.levels / whole


@pytest.mark.parametrize(
    ("quantiser", "words"),
    [
        (Quantiser(8.0, 2**22, 2**32, 1000.0), ""),
        (Quantiser(8.0, 2**10, 2**32, 1000.0), "coarse"),
        (Quantiser(0.25, 2**22, 2**32, 1000.0), "exceed the clipping range 0.25"),
        (Quantiser(8.0, 2**22, 2**32, 20.0), "examples exceed max_weight 20"),
        (Quantiser(8.0, 2**22, 2**23, 1000.0), "of 40 numbers of the sum exceed the modulus"),
        (Quantiser(16.0, 2**22, 2**24, 300.0), "the sum of the weights, 5 max_weights, exceed"),
    ],
)
def test_errors_by_quantisation_are_named(quantiser: Quantiser, words: str) -> None:
    one = round_sum(quantiser=quantiser)
    verdict = judge(replace(one, found=quantised(one, quantiser)))
    assert words in verdict.reason
    assert verdict.status == ("wrong" if words not in ("", "coarse") else "ok")
    if verdict.status == "ok":
        assert verdict.error is not None and verdict.bound is not None and verdict.error <= verdict.bound


def test_the_rule_of_an_app_is_inferred_from_its_rounds() -> None:
    for rule in RULES:
        rounds = [round_sum(inputs=inputs(seed), rule=rule) for seed in (1, 2)]
        assert fitting([replace(one, rule=WEIGHTED) for one in rounds]) == rule
    assert fitting([round_sum(), round_sum(rule=MEAN)]) is None
    assert fitting([]) is None
