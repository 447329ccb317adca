"""The cohort of a round: a share of the clients, with a fixed share of those that have labels.

Scott, Yeo, Lampert (XCLP), Algorithm 2 line 3: tau m clients. When only m_L of them have labels, tau m_L of those are
drawn, rounded up, and the rest of the others, so that every round has labels to spread.

With a generator of the world, the cohort follows from the run's seed. If privacy depends on a secret cohort, it is
drawn from the server's entropy, without bias.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from tacit.sim.setting_error import SettingError
from tacit.sim.shares import rounded_up
from tacit.sim.streams import Entropy

__all__ = ["draw", "enlarged", "some"]


def draw(
    clients: Sequence[str],
    labeled: Mapping[str, int],
    share: float,
    source: np.random.Generator | Entropy,
    *,
    only_labeled: bool = False,
    present: Sequence[str] | None = None,
) -> tuple[str, ...]:
    """Draw a cohort, in the order of `clients`.

    `labeled`: the number of labels of each client; a missing one is not known to have any. `share`: tau in (0, 1].
    `only_labeled` excludes clients without labels, for rounds that train on labels alone. The numbers are shares of all
    `clients`; only those `present`, by default all, are drawn.
    """
    if not 0 < share <= 1:
        raise SettingError("share", share, "must lie in (0, 1].")
    having = [name for name in clients if labeled.get(name)]
    others = [name for name in clients if not labeled.get(name)]
    first = rounded_up(share, len(having))
    rest = 0 if only_labeled else max(0, rounded_up(share, len(clients)) - first)
    if present is not None and len(present) < len(clients):
        here = {*present}
        having, others = ([name for name in names if name in here] for names in (having, others))
    chosen = {*some(having, first, source), *some(others, rest, source)}
    return tuple(name for name in clients if name in chosen)


def enlarged(
    members: Sequence[str],
    clients: Sequence[str],
    labeled: Mapping[str, int],
    extra: int,
    source: np.random.Generator | Entropy,
    *,
    only_labeled: bool = False,
) -> tuple[str, ...]:
    """The cohort `members` with up to `extra` others; the other arguments are those of `draw`."""
    if not extra:
        return tuple(members)
    drawn = frozenset(members)
    others = [name for name in clients if name not in drawn and (labeled.get(name) or not only_labeled)]
    chosen = {*members, *some(others, extra, source)}
    return tuple(name for name in clients if name in chosen)


def some(names: Sequence[str], count: int, source: np.random.Generator | Entropy) -> list[str]:
    """Draw `count` of `names`, or all if there are fewer; each set of them is equally likely."""
    count = min(count, len(names))
    if isinstance(source, Entropy):
        left = list(names)
        return [left.pop(source.below(len(left))) for _ in range(count)]
    return [names[i] for i in source.choice(len(names), count, replace=False)]
