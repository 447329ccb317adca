"""The choice of the engine that runs jobs, by its name."""

from tacit.sim.compute import Engine, Inline, cores

__all__ = ["ON_RAY", "make_engine", "prepare_engine"]

ON_RAY = r"ray(:auto|:([\w.-]+|\[[0-9a-fA-F:.]+\]):[1-9][0-9]{0,4})?"
"""A regular expression of the texts that select Ray.

``ray``: on this machine; ``ray:HOST:PORT``: on the cluster with that head; ``ray:auto``: on the cluster that this
machine is a node of.
"""


def prepare_engine(text: str) -> None:
    """Start, for an engine that `make_engine` will soon be asked for, what takes time to start."""
    if text.startswith("pool:") or (text == "auto" and cores() > 1):
        from tacit.sim.pool_server import start_early

        start_early()


def make_engine(text: str) -> Engine:
    """The engine that `text` names: ``inline``, ``pool:N``, ``ray[:ADDRESS]``, or ``auto`` (a pool on several cores).

    Raises ValueError for another text, and ClusterError where a Ray cluster cannot be used.
    """
    if text == "auto":
        text = f"pool:{cores()}" if cores() > 1 else "inline"
    kind, _, rest = text.partition(":")
    if text == "inline":
        return Inline()
    if kind == "pool" and rest.isdecimal() and int(rest) >= 1:
        from tacit.sim.pool import Pool

        return Pool(int(rest))
    if kind == "ray" and (rest or text == "ray"):
        from tacit.sim.compute_ray import Ray

        return Ray(rest)
    raise ValueError(f"{text!r} is no engine; allowed: auto, inline, pool:N with N >= 1, ray, ray:ADDRESS")
