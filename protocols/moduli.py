"""Paillier moduli that others published: which of them a party may work with.

Whoever gets a modulus verifies its proof (`crypto.key_proof`), in the job that it is charged for.
"""

from collections.abc import Mapping

from parties.party import Party
from protocols.crypto import key_proof
from sim.streams import derive

__all__ = ["examined", "proof_context"]


def proof_context(run_id: bytes, name: str) -> bytes:
    """What a proof of `name` in this run is bound to."""
    return derive(run_id, "key proof", name)


async def examined(me: Party, published: Mapping[str, bytes], bits: int) -> tuple[dict[str, bytes], dict[str, str]]:
    """The modulus, of `bits` bits, of each whose proof holds; and of every other one what is wrong.

    With `bits` = 0 nobody is to publish a modulus, and b"" stands for it.
    """
    if bits:
        contexts = [proof_context(me.world.run_id, name) for name in published]
        work = key_proof.check_work(bits, len(published))
        found = await me.compute(work, key_proof.problems, list(published.values()), bits, contexts)
    else:
        found = ["no modulus was due" if data else "" for data in published.values()]
    problems = dict(zip(published, found, strict=True))
    size = bits // 8
    return (
        {name: data[:size] for name, data in published.items() if not problems[name]},
        {name: problem for name, problem in problems.items() if problem},
    )
