"""The registry of protocols that a scenario can name: built-in ones, and those of plugins."""

from functools import lru_cache

from tacit.protocols.declaration import Declaration
from tacit.sim import plugged
from tacit.sim.registry import Registry, listed_in

__all__ = ["APPS", "PROTOCOLS", "add", "using"]

_PLACES = (
    ("xclp.declaration", ("xclp",)),
    ("federated.labelled_declaration", ("fedavg-then-xclp",)),
    ("federated.declaration", ("fedavg",)),
    (
        "federated.labelled_declaration",
        ("fedavg+xclp", "fedprop", "fedprop+mt", "fedavg+perclient-lp", "fedavg+network", "fedsem+"),
    ),
    ("federated.declaration", ("fedmatch", "fedsiam", "fedavg+mt", "fedprox", "scaffold", "dp-fedavg")),
    ("federated.fedbuff_declaration", ("fedbuff",)),
    ("cotraining.declaration", ("fedct", "dp-fedct", "dd", "fedmd", "pate", "dp-pate", "local", "centralised")),
    ("flower.declaration", ("flower",)),
    ("cells.declaration", ("private-cells",)),
)
"""The protocols in order, with the modules of their declarations, of which a run imports that of its protocol."""


PROTOCOLS: Registry[Declaration] = Registry(
    "protocol",
    later={
        name: entry
        for module, names in _PLACES
        for name, entry in listed_in(f"tacit.protocols.{module}", "DECLARATIONS", names).items()
    },
)


APPS = "flower"
"""The name of the protocol that runs apps of users as they are (`Declaration.opened`)."""


def using(*keys: str) -> tuple[str, ...]:
    """The names of the protocols that use any of `keys`: names, or ``TABLE.*`` for a whole table."""
    used = _used(plugged.active(), tuple(PROTOCOLS))
    return tuple(name for name, own in used.items() if not own.isdisjoint(keys))


@lru_cache(maxsize=8)
def _used(plugins: tuple[str, ...], protocols: tuple[str, ...]) -> dict[str, frozenset[str]]:
    """The keys that each of the `protocols` uses with the active `plugins`."""
    return {name: frozenset(PROTOCOLS[name].uses) for name in protocols}


def add(declaration: Declaration) -> None:
    """Register the protocol of `declaration`, an instance of a class derived from `Declaration`, for scenario files.

    Raises ValueError for a name that is taken or invalid, and for wrong declarations.
    """
    if not isinstance(declaration, Declaration):
        raise ValueError(f"{declaration!r} is not an instance of a class derived from OneShot or Protocol.")
    declaration.check_declared()
    PROTOCOLS.add(declaration.name, declaration)
