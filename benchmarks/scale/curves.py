"""The scenarios of `tacit.benchmarks.scale.growth`, the key that grows in each, and its sizes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

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


def _points(size: int, data: str = "mnist", beside: bool = False) -> list[str]:
    """XCLP by plaintext distances over ten clients with `size` images, and, if `beside`, its oracle and baselines."""
    kept = [f"protocol.{name}={str(beside).lower()}" for name in ("oracle", "baselines")]
    return [*_CALM, f'data.name="{data}"', f"data.limit={size}", 'protocol.hamming="plaintext"', *kept,
            'protocol.deadline="6000s"']  # fmt: skip


def _parties(size: int) -> list[str]:
    """XCLP by plaintext distances of 1,000 points over `size` clients."""
    return [*_CALM, "data.limit=1000", f"data.clients={size}", "data.labeled=0.2", 'protocol.hamming="plaintext"']


def _summed(size: int, averaging: str) -> list[str]:
    """A round of federated averaging of 650 numbers among `size` clients."""
    return [
        *_CALM, 'protocol.name="fedavg"', 'data.partition="iid"', "data.limit=1797", "data.labeled=1.0",
        f"data.clients={size}", "training.rounds=1", "training.epochs=1", "training.validation=0.0",
        "training.min_clients=3", f'training.averaging="{averaging}"',
    ]  # fmt: skip


def _registered(size: int, cohort: int) -> list[str]:
    """Plain FedAvg among `size` clients, of which a `cohort` is called in each of 20 rounds."""
    return [f"data.clients={size}", f"training.share={cohort / size}", "training.rounds=20"]


CURVES = (
    Curve("points", "XCLP alone", "points", "xclp-digits", _points,
          (2_500, 5_000, 10_000, 20_000), (1_000, 2_000)),
    Curve("points", "with oracle and baselines", "points", "xclp-digits", partial(_points, beside=True),
          (2_500, 5_000, 10_000, 20_000), (1_000, 2_000)),
    Curve("clients of XCLP", "1,000 points", "clients", "xclp-digits", _parties, (50, 100, 200), (10, 20)),
    Curve("secure sums", "all with all (Bonawitz)", "clients", "training-secure-average",
          partial(_summed, averaging="secure"), (50, 100, 200), (10, 20)),
    Curve("secure sums", "SecAgg+", "clients", "training-secure-average", partial(_summed, averaging="secagg+"),
          (100, 500, 1_000), (10, 50)),
    Curve("registered clients", "100 called in a round", "clients", "many-clients", partial(_registered, cohort=100),
          (1_000, 10_000, 100_000), (300, 600), rounds=20),
    Curve("registered clients", "1,000 called in a round", "clients", "many-clients",
          partial(_registered, cohort=1_000), (10_000, 100_000), (2_000,), rounds=20),
)  # fmt: skip
