"""The algorithms of co-training by the names that scenarios give them."""

from collections.abc import Callable

from protocols.cotraining.centralised import centralised
from protocols.cotraining.dd import dd
from protocols.cotraining.dp_fedct import dp_fedct
from protocols.cotraining.dp_pate import dp_pate
from protocols.cotraining.fedct import fedct
from protocols.cotraining.fedmd import fedmd
from protocols.cotraining.local import local
from protocols.cotraining.local_training import CotrainingMethod
from protocols.cotraining.options import Options
from protocols.cotraining.pate import pate

__all__ = ["ALGORITHMS"]

ALGORITHMS: dict[str, Callable[[Options], CotrainingMethod]] = {
    "fedct": fedct,
    "dp-fedct": dp_fedct,
    "dd": dd,
    "fedmd": fedmd,
    "pate": pate,
    "dp-pate": dp_pate,
    "local": local,
    "centralised": centralised,
}
