"""Compares aggregates with the exact ones, within error bounds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tacit.protocols.auditing.reasons import reason_of
from tacit.protocols.auditing.sums import RULES, RoundSum, Rule

__all__ = ["Verdict", "fitting", "judge"]


@dataclass(frozen=True)
class Verdict:
    """A verdict.

    `status`: "ok", "wrong", "no sum" or "unknown", with the `reason`. `error`: the largest error, `bound`: the largest
    allowed one, None if nothing was compared.
    """

    status: str
    reason: str = ""
    error: float | None = None
    bound: float | None = None


_COARSE = 0.01
"""The ratio of the error bound to a round's largest change from which on a verdict calls the comparison coarse."""


def judge(one: RoundSum) -> Verdict:
    """Compare the aggregate found with the exact one."""
    if not one.survivors:
        return Verdict("wrong", "there is an aggregate, and no client's input arrived")
    if len(one.found) != len(one.inputs[one.survivors[0]].vector):
        sizes = f"{len(one.found)} numbers, and each input {len(one.inputs[one.survivors[0]].vector)}"
        return Verdict("wrong", f"the aggregate has {sizes}")
    if bad := int((~np.isfinite(one.found)).sum()):
        return Verdict("wrong", f"{bad} of {len(one.found)} numbers of the aggregate are infinite or not a number")
    error, allowed = np.abs(one.found - one.expected), one.allowed()
    largest, bound = float(error.max(initial=0.0)), float(allowed.max(initial=0.0))
    if (error <= allowed).all():
        return Verdict("ok", _remark(one, bound), largest, bound)
    return Verdict("wrong", reason_of(one), largest, bound)


def _remark(one: RoundSum, bound: float) -> str:
    if one.quantiser is None:
        return ""
    start = one.before if one.before is not None and len(one.before) == len(one.found) else np.zeros(len(one.found))
    change = float(np.abs(one.expected - start).max(initial=0.0))
    if not np.isfinite(bound):
        return "all weights are rounded to 0"
    if bound > change:
        return "coarse: the bound is larger than the change of the round"
    if bound > _COARSE * change:
        return f"coarse: the bound is {bound / change:.0%} of the largest change of the round"
    return ""


def fitting(rounds: Sequence[RoundSum]) -> Rule | None:
    """The first of `RULES` by which the aggregates of all `rounds` are within their bounds, or None. The `rule` of each
    round is ignored."""
    for rule in RULES if rounds else ():
        tried = [replace(one, rule=rule) for one in rounds if not (rule.added and one.before is None)]
        if tried and len(tried) == len(rounds) and all(judge(one).status == "ok" for one in tried):
            return rule
    return None
