"""Finds the reason for a wrong aggregate: the mistake whose result fits the aggregate.

Each mistake predicts an aggregate; the one whose prediction is nearest is the reason, if it explains nearly all of the
difference. If no mistake does, least squares gives each client's share in the aggregate, provided that clients' inputs
are linearly independent.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.auditing.sums import Input, RoundSum, Vector

__all__ = ["reason_of"]

Flags = NDArray[np.bool_]

_LEFT = 0.02
"""The share of the largest difference that a mistake may leave unexplained."""

_PAIRS = 12
"""The largest number of clients for which pairs of clients are tried."""

_SHOWN = 4
"""The most clients or layers that a reason names."""


@dataclass(frozen=True, eq=False)
class _Mistake:
    """A mistake in words, and the aggregate `found` that it would give.

    `exact`: the mistake adds no rounding errors. `fitted`: the mistake has a parameter that was chosen to fit; mistakes
    without a parameter are preferred.
    """

    words: str
    found: Vector = field(repr=False)
    exact: bool = False
    fitted: bool = False


def reason_of(one: RoundSum) -> str:
    """The reason why the aggregate is not the expected one, in a line."""
    difference = one.found - one.expected
    wrong = np.abs(difference) > one.allowed()
    largest, slack = float(np.abs(difference).max()), _slack(one)
    best, words = (True, np.inf), ""
    for mistake in _mistakes(one):
        left = float(np.abs(one.found - mistake.found).max())
        enough = left <= (1e-9 * (1 + np.abs(one.found).max()) if mistake.exact else slack + _LEFT * largest)
        if enough and (mistake.fitted, left) < best:
            best, words = (mistake.fitted, left * (1 - 1e-9)), mistake.words
    if one.quantiser is not None and not words:
        words = _clipped(one)
    if words:
        return words
    if layers := _layers(one, wrong):
        return layers
    found = _saturated(one, wrong) or _wrapped(one, difference, wrong) or _shares(one, slack + _LEFT * largest)
    return found or _unexplained(one, largest, wrong)


def _slack(one: RoundSum) -> float:
    """The largest rounding error that is allowed, but at most half of the largest difference."""
    allowed = float(one.allowed().max())
    return min(allowed, float(np.abs(one.found - one.expected).max()) / 2)


def _unexplained(one: RoundSum, largest: float, wrong: Flags) -> str:
    if not one.found[wrong].any():
        return f"{int(wrong.sum())} of {len(wrong)} numbers are 0, as if left out"
    if np.abs(np.sort(one.found) - np.sort(one.expected)).max() <= float(one.allowed().max()):
        return f"{int(wrong.sum())} of {len(wrong)} numbers are in another order"
    return f"{int(wrong.sum())} of {len(wrong)} numbers are wrong, by up to {largest:.3g}; no known mistake gives that"


# Mistakes that predict an aggregate


def _mistakes(one: RoundSum) -> Iterator[_Mistake]:
    yield from _stale(one)
    yield from _of_quantiser(one)
    yield from _miscounted_clients(one)
    yield from _other_rules(one)
    yield from _signs(one)
    yield from _clipped_inputs(one)
    yield from _offset(one)
    yield from _coarse_floats(one)


def _stale(one: RoundSum) -> Iterator[_Mistake]:
    for number, vector in one.earlier.items():
        if vector.shape == one.found.shape:
            yield _Mistake(f"stale: it is the aggregate of round {number}", vector)
    if one.before is not None and one.before.shape == one.found.shape:
        yield _Mistake("stale: it is the model that the round began with", one.before, exact=True)
    shares = one.rule.coefficients(one.weights)
    old = {name: vector for name, vector in one.previous.items() if name in shares and vector.shape == one.found.shape}
    for name, vector in old.items():
        moved = shares[name] * (vector - one.inputs[name].vector)
        yield _Mistake(f"stale: {name}'s input is that of an earlier round", one.expected + moved)
    if old:
        change = [shares[name] * (vector - one.inputs[name].vector) for name, vector in old.items()]
        yield _Mistake("stale: inputs are those of an earlier round", one.expected + np.sum(change, axis=0))
    yield _Mistake("all numbers are 0", np.zeros_like(one.found), exact=True)


def _of_quantiser(one: RoundSum) -> Iterator[_Mistake]:
    quantiser, weights = one.quantiser, one.weights
    if quantiser is None:
        return
    steps = {name: quantiser.weight(weight) for name, weight in weights.items()}
    levels, total = quantiser.levels, sum(steps.values())
    if not total:
        return
    products = {name: one.inputs[name].vector * step / levels for name, step in steps.items()}
    clipped = sum((np.clip(v, -quantiser.clip, quantiser.clip) for v in products.values()), np.zeros_like(one.found))
    if remark := _clipped(one):
        yield _Mistake(remark, clipped * levels / total)
    whole = total % quantiser.modulus
    if not whole:
        return
    turn = quantiser.modulus * quantiser.step
    sums = clipped + len(steps) * quantiser.clip  # each client adds `clip`, so that its numbers are not negative
    turns = np.floor(sums / turn)
    near = np.round((clipped - one.found * whole / levels) / turn)  # near a multiple of the modulus, rounding decides
    turns = np.where(np.abs(near - turns) <= 1, near, turns)
    exceeding = []
    if whole != total:
        exceeding.append(f"the sum of the weights, {total / levels:.4g} max_weights,")
    if turns.any():
        exceeding.append(f"{int(np.count_nonzero(turns))} of {len(turns)} numbers of the sum")
    if exceeding:
        words = f"wrap-around: {' and '.join(exceeding)} exceed the modulus; raise modulus_range"
        yield _Mistake(f"{words} or lower quantization_range", (clipped - turns * turn) * levels / whole)


def _clipped(one: RoundSum) -> str:
    """The clients whose values exceed the clipping range of the quantiser, in words; "" if none does."""
    quantiser = one.quantiser
    assert quantiser is not None
    found: list[str] = []
    over, most, heaviest = 0, 0.0, 0.0
    for name, weight in one.weights.items():
        products = np.abs(one.inputs[name].vector) * quantiser.weight(weight) / quantiser.levels
        if (products > quantiser.clip).any():
            found.append(name)
            over += int((products > quantiser.clip).sum())
            most, heaviest = max(most, float(products.max())), max(heaviest, weight)
    if not found:
        return ""
    words = (
        f"saturation: {over} values, of {_listed(found)}, exceed the clipping range {quantiser.clip:g} once weighted"
    )
    why = f", as {heaviest:g} examples exceed max_weight {quantiser.most_weight:g}"
    return f"{words} (up to {most:.3g}{why if heaviest > quantiser.most_weight else ''}); raise max_weight"


def _miscounted_clients(one: RoundSum) -> Iterator[_Mistake]:
    """Yield mistakes in which clients other than exactly the survivors are counted, or are counted differently."""
    weights = {name: each.weight for name, each in one.inputs.items()}
    survivors, lost = list(one.survivors), [name for name in one.inputs if name not in one.survivors]
    most = 2 if len(weights) <= _PAIRS else 1

    def over(names: Sequence[str]) -> dict[str, float]:
        return one.rule.coefficients({name: weights[name] for name in names})

    for count in range(1, most + 1):
        for out in itertools.combinations(survivors, count):
            if left := [name for name in survivors if name not in out]:
                missing = "its input" if count == 1 else "their inputs"
                yield _Mistake(f"{_listed(out)} not counted, though {missing} arrived", one.combined(over(left)))
                if one.rule.divided:
                    shares = one.rule.coefficients(one.weights)
                    kept = {name: share for name, share in shares.items() if name not in out}
                    words = f"{_listed(out)} not counted, though {missing} arrived and the weight is counted"
                    yield _Mistake(words, one.combined(kept))
        for more in itertools.combinations(lost, count):
            arrived = "its input" if count == 1 else "their inputs"
            words = f"{_listed(more)} counted, though {arrived} did not arrive"
            yield _Mistake(words, one.combined(over([*survivors, *more])))
    for name in survivors:
        twice = dict(over(survivors))
        twice[name] *= 2
        yield _Mistake(f"{name} counted twice", one.combined(twice))
        alone = f"only {name} counted, of {len(survivors)} survivors"
        yield _Mistake(alone, one.combined(over([name])))
    if (lost or one.absent) and one.rule.divided:
        shares = one.rule.coefficients(weights | dict(one.absent))
        kept = {name: shares[name] for name in survivors}
        called = len(weights) + len(one.absent)
        by_number = {name: share * len(survivors) / called for name, share in over(survivors).items()}
        words = f"the mean over {len(survivors)} survivors is divided as if all {called} called clients counted"
        yield _Mistake(words, one.combined(by_number))
        words = f"the sum over {len(survivors)} survivors is divided by the weights of all {called} called clients"
        yield _Mistake(words, one.combined(kept))


def _other_rules(one: RoundSum) -> Iterator[_Mistake]:
    weights, rule = one.weights, one.rule
    shares = rule.coefficients(weights)
    count, total = len(weights), sum(weights.values())
    if rule.weighted and len(set(weights.values())) > 1:
        alike = dict.fromkeys(weights, 1 / count if rule.divided else 1.0)
        yield _Mistake("lost weights: each client counts alike, not by its number of examples", one.combined(alike))
        if rule.divided and total:
            words = "lost weights: inputs are not multiplied by them, but the sum is divided by all"
            yield _Mistake(words, one.combined(dict.fromkeys(weights, 1 / total)))
        inverse = {name: 1 / weight for name, weight in weights.items() if weight}
        of_inverse = sum(inverse.values())
        if len(inverse) == count and rule.divided:
            turned = {name: each / of_inverse for name, each in inverse.items()}
            yield _Mistake("clients with fewer examples count more", one.combined(turned))
        for name in weights:
            rotated = _rotated(weights, name)
            if rotated is not None:
                words = "weights are exchanged between clients"
                yield _Mistake(words, one.combined(rule.coefficients(rotated)))
    if not rule.weighted and len(set(weights.values())) > 1 and total and rule.divided:
        by_weight = {name: weight / total for name, weight in weights.items()}
        yield _Mistake("clients count by their number of examples, which they should not", one.combined(by_weight))
    if rule.divided:
        for words, factor in (("the sum is not divided by the weights", total), ("it is not divided", float(count))):
            yield _Mistake(words, one.combined({name: share * factor for name, share in shares.items()}))
            if factor:
                twice = {name: share / factor for name, share in shares.items()}
                yield _Mistake("the sum is divided twice", one.combined(twice))
    if rule.added:
        yield _Mistake("the model before is not added", one.expected - (0.0 if one.before is None else one.before))
    elif one.before is not None and one.before.shape == one.found.shape and one.before.any():
        yield _Mistake("the model before is added", one.expected + one.before)
    if factor := _factor(one):
        scaled = {name: share * factor for name, share in shares.items()}
        yield _Mistake(f"the aggregate is {factor:.4g} times the exact one", one.combined(scaled), fitted=True)


def _rotated(weights: Mapping[str, float], name: str) -> dict[str, float] | None:
    """The `weights`, each moved from one client to another by a rotation that starts at `name`; None if no weight
    changes."""
    names = list(weights)
    start = names.index(name)
    shifted = [weights[names[(place + 1 + start) % len(names)]] for place in range(len(names))]
    return dict(zip(names, shifted, strict=True)) if shifted != list(weights.values()) else None


def _factor(one: RoundSum) -> float:
    """The factor by which the exact aggregate is nearest to the one found, by least squares."""
    start = one.before if one.rule.added and one.before is not None else np.zeros_like(one.found)
    exact, found = one.expected - start, one.found - start
    size = float(exact @ exact)
    return float(exact @ found) / size if size else 0.0


def _signs(one: RoundSum) -> Iterator[_Mistake]:
    shares = one.rule.coefficients(one.weights)
    flipped = one.combined({name: -share for name, share in shares.items()})
    yield _Mistake("the sign of the aggregate is flipped", flipped)
    for name in shares:
        turned = {other: -share if other == name else share for other, share in shares.items()}
        yield _Mistake(f"the sign of {name}'s input is flipped", one.combined(turned))


def _clipped_inputs(one: RoundSum) -> Iterator[_Mistake]:
    """Yield the mistake that inputs are clipped, at the limit between 0 and the largest number that fits best."""
    shares = one.rule.coefficients(one.weights)
    largest = max(float(np.abs(one.inputs[name].vector).max(initial=0.0)) for name in shares)

    def cut(limit: float) -> Vector:
        start = one.before if one.rule.added and one.before is not None else np.zeros_like(one.found)
        cut_inputs = [c * np.clip(one.inputs[name].vector, -limit, limit) for name, c in shares.items()]
        return start + np.sum(cut_inputs, axis=0)

    low, high = 0.0, largest
    for _ in range(_NARROWED):
        tried = np.linspace(low, high, _TRIED)
        left = [float(np.abs(cut(limit) - one.found).sum()) for limit in tried.tolist()]
        best = int(np.argmin(left))
        low, high = float(tried[max(0, best - 1)]), float(tried[min(_TRIED - 1, best + 1)])
    limit = (low + high) / 2
    if 0 < limit < largest * (1 - 1e-6):
        over = sum(int((np.abs(one.inputs[name].vector) > limit).sum()) for name in shares)
        yield _Mistake(
            f"saturation: {over} values exceed {limit:.4g}, at which inputs are cut", cut(limit), fitted=True
        )


_TRIED, _NARROWED = 33, 6
"""The number of limits tried at a time, and the number of repetitions between the neighbours of the best."""


def _offset(one: RoundSum) -> Iterator[_Mistake]:
    offset = float(np.median(one.found - one.expected))
    words = f"offset: all numbers are {abs(offset):.4g} too {'large' if offset > 0 else 'small'}"
    yield _Mistake(words, one.expected + offset, fitted=True)


def _coarse_floats(one: RoundSum) -> Iterator[_Mistake]:
    shares = one.rule.coefficients(one.weights)
    with np.errstate(over="ignore"):
        for words, narrow in (("float16", _float16), ("bfloat16", _bfloat16), ("whole numbers", np.rint)):
            inputs = {name: Input(narrow(each.vector), each.weight) for name, each in one.inputs.items()}
            rounded = sum((share * inputs[name].vector for name, share in shares.items()), np.zeros_like(one.found))
            start = one.before if one.rule.added and one.before is not None else np.zeros_like(one.found)
            yield _Mistake(f"precision: inputs are rounded to {words}", start + rounded)
            yield _Mistake(f"precision: the aggregate is rounded to {words}", narrow(one.expected))
        narrowed = {name: float(np.float16(weight)) for name, weight in one.weights.items()}
        if all(map(np.isfinite, narrowed.values())):
            words = "precision: weights are rounded to float16"
            yield _Mistake(words, one.combined(one.rule.coefficients(narrowed)))
            rounded_shares = {name: float(np.float16(share)) for name, share in shares.items()}
            yield _Mistake("precision: clients' shares are rounded to float16", one.combined(rounded_shares))
        for name in one.survivors:
            vector = one.expected + shares[name] * (_float16(one.inputs[name].vector) - one.inputs[name].vector)
            yield _Mistake(f"precision: {name}'s input is rounded to float16", vector)


def _float16(values: Vector) -> Vector:
    return values.astype(np.float16).astype(np.float64)


def _bfloat16(values: Vector) -> Vector:
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x8000) & 0xFFFF0000).astype(np.uint32).view(np.float32).astype(np.float64)


# Reasons read from the difference itself


def _layers(one: RoundSum, wrong: Flags) -> str:
    """The wrong layers, if others are right, and their contents, in words."""
    bad = [name for name, part in one.layers.items() if wrong[part].any()]
    if not bad or len(bad) == len(one.layers):
        return ""
    held = {_layer_contents(one, one.layers[name]) for name in bad}
    said = held.pop() if len(held) == 1 else ""
    several = "are" if len(bad) > 1 else "is"
    return f"{len(bad)} of {len(one.layers)} layers {several} wrong: {_listed(bad)}{said}"


def _layer_contents(one: RoundSum, part: slice) -> str:
    """The contents of a wrong layer, in words."""
    found = one.found[part]
    if not found.any():
        return " is 0, as if left out"
    if one.before is not None and len(one.before) == len(one.found) and np.array_equal(found, one.before[part]):
        return " is left out: it holds the model that the round began with"
    for number, vector in one.earlier.items():
        if len(vector) == len(one.found) and np.array_equal(found, vector[part]):
            return f" is stale: it holds that of round {number}"
    for name in one.survivors:
        if np.allclose(found, one.inputs[name].vector[part], rtol=1e-5, atol=1e-9):
            return f" holds {name}'s own values"
    smaller = RoundSum(
        found,
        {name: Input(each.vector[part], each.weight, each.sent) for name, each in one.inputs.items()},
        one.survivors,
        one.rule,
        None if one.before is None else one.before[part],
        quantiser=one.quantiser,
        bound=one.bound,
    )
    return f": {reason_of(smaller)}"


def _saturated(one: RoundSum, wrong: Flags) -> str:
    """A description of the limit at which inputs are clipped, if exactly the numbers with larger inputs are wrong; else
    ""."""
    largest = np.max([np.abs(one.inputs[name].vector) for name in one.survivors], axis=0)
    if not wrong.any() or wrong.all():
        return ""
    above, below = float(largest[wrong].min()), float(largest[~wrong].max())
    towards_0 = (np.abs(one.found[wrong]) <= np.abs(one.expected[wrong])).mean()
    if above > below and towards_0 > 0.9:
        words = f"saturation: the {int(wrong.sum())} numbers for which an input exceeds {(above + below) / 2:.4g}"
        return f"{words} are too small, the others right"
    return ""


def _wrapped(one: RoundSum, difference: Vector, wrong: Flags) -> str:
    """A description of the step of which all errors are multiples, if several numbers are wrong by such multiples; else
    ""."""
    sizes = np.abs(difference[wrong])
    if len(sizes) < _SEVERAL:
        return ""
    for part in range(1, _PARTS + 1):
        step = float(sizes.min()) / part
        multiples = sizes / step
        if step > _CLEAR * float(one.allowed().max()) and np.abs(multiples - np.round(multiples)).max() < _LEFT:
            return f"wrap-around: {len(sizes)} of {len(wrong)} numbers are wrong by multiples of {step:.6g}"
    return ""


_SEVERAL, _PARTS, _CLEAR = 4, 3, 100
"""The least number of errors that show a common step, the number of parts tried for the smallest error, and the least
ratio of a step to the bound."""


def _shares(one: RoundSum, slack: float) -> str:
    """Each client's share in the aggregate, by least squares, if inputs are linearly independent."""
    names = list(one.inputs)
    columns = np.stack([one.inputs[name].vector for name in names], axis=1)
    start = one.before if one.rule.added and one.before is not None else np.zeros_like(one.found)
    if len(one.found) <= len(names) or np.linalg.matrix_rank(columns) < len(names):
        return ""
    found, *_ = np.linalg.lstsq(columns, one.found - start, rcond=None)
    if np.abs(columns @ found + start - one.found).max() > slack:
        return ""
    due = one.rule.coefficients(one.weights)
    odd = [(abs(share - due.get(name, 0.0)), name, share) for name, share in zip(names, found.tolist(), strict=True)]
    worst = sorted((one for one in odd if one[0] > 1e-3), reverse=True)[:_SHOWN]
    if not worst:
        return ""
    shown = [f"{name} {share:.4g} instead of {due.get(name, 0.0):.4g}" for _, name, share in worst]
    return f"clients have other shares: {', '.join(shown)}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"
