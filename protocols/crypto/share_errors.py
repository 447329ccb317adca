"""Error detection among more shares of a secret than needed, and the parties to blame for wrong shares.

Correct shares lie on one polynomial of degree t - 1 (`shamir`). If some do not, the smallest possible number is left
out so that all others do. Any t shares lie on some polynomial: without another share, or a test for the secret (a
private key by its public half), the wrong ones are unknown. Errors among exactly t shares are noticed only if the
result is no string of 32 bytes: for random shares with probability 1 - 2^-23, for a slightly wrong one not always.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import numpy as np

from tacit.protocols.crypto import shamir

__all__ = ["blamed", "corrected"]

_MOST_TRIALS = 2000
"""The most sets of shares that are left out, one after another."""


def corrected(
    shares: Mapping[int, bytes], threshold: int, size: int, right: Callable[[bytes], bool] | None = None
) -> tuple[bytes, tuple[int, ...]]:
    """The secret of `size` bytes in `shares` (by their x), and the places of the wrong shares.

    `right` tests a secret. Raises ValueError if it is unknown which shares are wrong.
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
    """The secret if the shares at all `places` lie on one polynomial of degree t - 1, otherwise None."""
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
    """The parties to blame for the `wrong` shares, each given by its holder and its dealer, in words.

    A holder is to blame if its shares from several dealers are wrong, a dealer if its shares at several holders are.
    For a single share it is unknown.
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
