"""The registry of protocols that a scenario can name: built-in ones, and those of plugins."""

from functools import lru_cache

from tacit.protocols.cells import declaration as cells
from tacit.protocols.cotraining import declaration as cotraining
from tacit.protocols.declaration import Declaration
from tacit.protocols.federated import declaration as federated
from tacit.protocols.federated import fedbuff_declaration as fedbuff
from tacit.protocols.flower import declaration as flower
from tacit.protocols.xclp import declaration as xclp
from tacit.sim import plugged
from tacit.sim.registry import Registry

__all__ = ["PROTOCOLS", "add", "using"]

PROTOCOLS: Registry[Declaration] = Registry(
    "protocol",
    {
        one.name: one
        for declarations in (xclp, federated, fedbuff, cotraining, flower, cells)
        for one in declarations.DECLARATIONS
    },
)


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
