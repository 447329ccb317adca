"""Finds the wrong ones among more shares of a secret than are needed, and who is to blame for them.

Correct shares lie on one polynomial of degree t - 1 (`shamir`). Where some do not, as few as possible are left out, so
that all others lie on one. Any t shares lie on some polynomial: without one more, or another way to recognise the
secret (a private key by its public half), it is unknown which are wrong. That t shares are wrong is noticed only where
they give no 32 bytes: for random ones all but 2^-23, for one that is slightly wrong not always.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import numpy as np

from tacit.protocols.crypto import shamir

__all__ = ["blamed", "corrected"]

_MOST_TRIALS = 2000
"""The most sets of shares that are left out in turn."""


def corrected(
    shares: Mapping[int, bytes], threshold: int, size: int, right: Callable[[bytes], bool] | None = None
) -> tuple[bytes, tuple[int, ...]]:
    """The secret of `size` bytes in `shares` (by their x), and the places of those that are wrong.

    `right` recognises the secret. Raises ValueError where nobody knows which are wrong.
    """
    places, tried = sorted(shares), 0
    fewest = threshold + (right is None)
    for count in range(max(1, len(places) - fewest + 1)):
        for wrong in combinations(places, count):
            if tried == _MOST_TRIALS:
                raise ValueError(f"its shares do not fit together, nor did those of {_MOST_TRIALS} sets of holders")
            tried += 1
            secret = _on_one_polynomial(shares, [x for x in places if x not in wrong], threshold, size)
            if secret is not None and (right is None or right(secret)):
                return secret, wrong
    raise ValueError(f"its {len(places)} shares do not fit together, {fewest} right ones are needed to know whose are")


def _on_one_polynomial(shares: Mapping[int, bytes], places: Sequence[int], threshold: int, size: int) -> bytes | None:
    """The secret where the shares at all `places` lie on one polynomial of degree t - 1."""
    kept, others = places[: threshold - 1], places[threshold - 1 :]
    try:
        secrets = {_combined(shares, [*kept, x], threshold, size) for x in others}
    except ValueError:
        return None
    return secrets.pop() if len(secrets) == 1 else None


def _combined(shares: Mapping[int, bytes], places: Sequence[int], threshold: int, size: int) -> bytes:
    table = np.frombuffer(b"".join(shares[x] for x in places), np.uint8).reshape(threshold, 1, -1)
    return shamir.combine(places, table, threshold, size)[0]


def blamed(wrong: Sequence[tuple[str, str]]) -> list[str]:
    """The parties to blame for the shares that are `wrong`, each given by its holder and its dealer, in words.

    The holder is to blame where several dealers' shares of it are wrong, the dealer where several holders' are. For a
    single share it is unknown.
    """
    holders, dealers = Counter(holder for holder, _ in wrong), Counter(dealer for _, dealer in wrong)
    found: dict[str, None] = {}
    for holder, dealer in wrong:
        if holders[holder] > dealers[dealer]:
            found[f"Revealed from {holder}: its shares do not fit those of the others"] = None
        elif holders[holder] < dealers[dealer]:
            found[f"DealtShares from {dealer}: they do not fit together"] = None
        else:
            found[f"the share that {dealer} dealt to {holder} is wrong, or wrongly revealed: nobody knows which"] = None
    return list(found)
