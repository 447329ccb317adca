"""What `benchmarks.scale` measures: scenarios, the key that grows in each, and its sizes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["CURVES", "Curve"]


@dataclass(frozen=True)
class Curve:
    """A scenario, run once for each of its sizes, which count `unit`.

    `changes(size)`: the keys that are set, as for ``tacit run --set``. `quick`: the sizes of a quick look. `rounds`:
    how many rounds a run has; the time of one is stated, too.
    """

    topic: str
    name: str
    unit: str
    scenario: str
    changes: Callable[[int], Sequence[str]]
    sizes: tuple[int, ...]
    quick: tuple[int, ...]
    rounds: int = 1


_CALM = ("fault=[]", "expect={}")


def _points(size: int) -> list[str]:
    """XCLP by plaintext distances over ten clients with `size` images."""
    return [*_CALM, 'data.name="mnist"', f"data.limit={size}", "data.clients=10", 'protocol.hamming="plaintext"']


def _parties(size: int) -> list[str]:
    """XCLP by plaintext distances of 1,000 points over `size` clients."""
    return [*_CALM, "data.limit=1000", f"data.clients={size}", "data.labeled=0.2", 'protocol.hamming="plaintext"']


CURVES = (
    Curve("points", "XCLP", "points", "xclp-digits", _points, (1_000, 2_500, 5_000, 10_000, 20_000), (500, 1_000)),
    Curve("clients of XCLP", "1,000 points", "clients", "xclp-digits", _parties, (25, 50, 100, 200), (10, 20)),
)
