"""SecureHamming by Paillier encryption, many distances a ciphertext.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| setup.keys | (Join) | j -> server -> all | 9 N / 8 | j's modulus and its proof |
| hamming.encode | EncryptedBits | j -> k, sealed | ceil(n_j / slots) L ciphertexts | E_j(sum_i b_{i,l} 2^(w i)) |
| hamming.evaluate | EncryptedDistances | k -> j, sealed | n_k ceil(n_j / slots) ciphertexts | E_j(h + R) |
| hamming.evaluate | Masks | k -> server | n_k ceil(n_j / slots) plaintexts, name of j | R, uniform in Z_N |
| hamming.report | MaskedDistances | j -> server | n_k ceil(n_j / slots) plaintexts, name of k | T = h + R mod N |

With packing = "none" slots = 1, the paper's one bit a ciphertext. A ciphertext is |N|/4 bytes, a plaintext |N|/8, w =
bitlength(L), slots = floor((|N| - 1) / w). Every j encrypts once a round and sends the same ciphertexts to every k >
j. The server reads h = T - R mod N.

h(x, y) = |x| + sum_l y_l - 2 sum_{x_l = 1} y_l. (XCLP, Section 3.2 states x y + (1 - x)(1 - y), which counts the bits
that agree; draws the mask from [0, L - 1] over the integers, which leaks h at the borders; and lets j send R.)

Security: semi-honest, decisional composite residuosity for the moduli of `crypto.paillier`. k sees ciphertexts only.
j sees T, uniform in Z_N without R, in a ciphertext that is re-randomised: without that, j, who knows its own
randomness, would read k's bits from the product. The server sees T and R, hence h, and no ciphertext. Server and
client together would learn more: no collusion.

A crafted key: the server and every peer refuse a modulus without a proof that y -> y^N is a bijection of Z_N*
(`crypto.key_proof`), or of another length than the run's. That proof does not say that the key has the form of
`crypto.paillier`, and `rerandomise = "powers"` assumes that it has: each result is multiplied by a power of one h that
k draws for the pair, and under a modulus of many primes 2 f e + 1 with a common f these powers leave k's bits readable.
With `rerandomise = "fresh"`, y^N for each result, the proof is enough: E_j(h + R) then says h + R and no more, whatever
j's key and ciphertexts are. (What j encrypts is not proved: j may encrypt other numbers than bits.)

Outside the semi-honest model, whatever the key: a k that does not follow the protocol. Nothing binds what k returns to
the distances, and ciphertexts are malleable: with L c_l in place of a distance, for one l in each of its rows, H holds
L b_l, so the server reads n_k bits of every vector of j, in values that a distance may have (`python -m
tacit.benchmarks attacks` does so). Proofs that k computed what it should would prevent it; there are none here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.party import Party
from tacit.parties.server import Server
from tacit.protocols.crypto import key_proof
from tacit.protocols.crypto import packed_hamming as packed
from tacit.protocols.crypto.paillier import PrivateKey, PublicKey, generate
from tacit.protocols.setup import Group, Keys
from tacit.protocols.xclp.hamming import (
    Bits,
    MaskedDistances,
    Masks,
    Pair,
    for_each,
    masked_payloads,
    pairs_after,
    pairs_before,
)
from tacit.sim.compute import preloaded, total_work
from tacit.sim.hollow import hollow
from tacit.sim.streams import Entropy, derive
from tacit.sim.wire import Message

__all__ = ["PaillierHamming", "generate_key", "payloads", "proof_context"]


class EncryptedBits(Message):
    ciphertexts: bytes


class EncryptedDistances(Message):
    ciphertexts: bytes


class PaillierHamming:
    """The variant for vectors of `bits` bits and moduli of `key_bits`, which may be below 2048 only with `insecure`.

    `slots`: vectors in one ciphertext, by default as many as fit; 1 is the paper's one bit a ciphertext. `fresh`: hide
    each result by a separate random power, not by powers of one h, which is safe under honestly made keys only.
    """

    name = "paillier"
    published = "Paillier key"
    answer: type[Message] = EncryptedDistances

    def __init__(
        self, bits: int, key_bits: int, insecure: bool = False, slots: int | None = None, fresh: bool = False
    ) -> None:
        self.bits, self.key_bits, self.insecure, self.slots, self.fresh = bits, key_bits, insecure, slots, fresh
        preloaded.add(__name__)

    async def generate_keys(self, me: Client) -> Keys:
        work = packed.keygen_work(self.key_bits)
        private = await me.compute(work, generate_key, self.key_bits, me.entropy("paillier"), self.insecure)
        context = proof_context(me.world.run_id, me.name)
        proved = await me.compute(key_proof.prove_work(self.key_bits), key_proof.prove, private, context)
        return Keys(proved, private)

    async def examine(self, me: Party, published: Mapping[str, bytes]) -> tuple[dict[str, bytes], dict[str, str]]:
        """Check the proofs of moduli.

        Returns each valid modulus without its proof, and the problems with the others.
        """
        contexts = [proof_context(me.world.run_id, name) for name in published]
        work = key_proof.check_work(self.key_bits, len(published))
        found = await me.compute(work, key_proof.problems, list(published.values()), self.key_bits, contexts)
        problems = dict(zip(published, found, strict=True))
        size = self.key_bits // 8
        return (
            {name: data[:size] for name, data in published.items() if not problems[name]},
            {name: problem for name, problem in problems.items() if problem},
        )

    def plan(self, me: Client, group: Group) -> Mapping[str, float]:
        after, before = pairs_after(me.name, group), pairs_before(me.name, group)
        mine = group.points[me.name]
        parts = [
            packed.keygen_work(self.key_bits),
            key_proof.prove_work(self.key_bits),
            key_proof.check_work(self.key_bits, len(group.names)),
        ]
        parts += [self._evaluate_work(group.points[j], mine) for j in before]
        parts += [packed.decrypt_work(self.key_bits, mine, group.points[k], self.bits, slots=self.slots) for k in after]
        if after:
            parts.append(packed.encode_work(self.key_bits, mine, self.bits, slots=self.slots))
        return total_work(*parts)

    async def encode(self, me: Client, group: Group, keys: Keys, bits: Bits) -> None:
        later = pairs_after(me.name, group)
        if later:
            work = packed.encode_work(self.key_bits, *bits.shape, slots=self.slots)
            ciphertexts = await me.compute(
                work, partial(packed.encode, slots=self.slots), keys.private, bits, me.entropy("encrypt")
            )
            for k in later:
                me.send(k, EncryptedBits(ciphertexts))

    async def evaluate(self, me: Client, group: Group, keys: Keys, bits: Bits, deadline: float) -> None:
        async def answer(j: str, message: EncryptedBits) -> None:
            n_j = group.points[j]
            masked, masks = await me.compute(
                self._evaluate_work(n_j, len(bits)),
                partial(packed.evaluate, slots=self.slots, fresh=self.fresh),
                PublicKey.from_bytes(group.contributions[j]),
                message.ciphertexts,
                n_j,
                bits,
                me.entropy("evaluate", j),
            )
            me.send(j, EncryptedDistances(masked))
            me.send(me.server, Masks(j, masks))

        await for_each(me, EncryptedBits, pairs_before(me.name, group), deadline, answer)

    def _evaluate_work(self, n_j: int, n_k: int) -> dict[str, int]:
        return packed.evaluate_work(self.key_bits, n_j, n_k, self.bits, slots=self.slots, fresh=self.fresh)

    async def report(self, me: Client, group: Group, keys: Keys, bits: Bits, deadline: float) -> None:
        async def decode(k: str, message: EncryptedDistances) -> None:
            work = packed.decrypt_work(
                self.key_bits, group.points[me.name], group.points[k], self.bits, slots=self.slots
            )
            masked = await me.compute(work, packed.decrypt, keys.private, message.ciphertexts)
            me.send(me.server, MaskedDistances(k, masked))

        await for_each(me, EncryptedDistances, pairs_after(me.name, group), deadline, decode)

    async def combine(self, me: Server, group: Group, pair: Pair, masked: bytes, masks: bytes) -> NDArray[np.int64]:
        j, k = pair
        n_j, n_k = group.points[j], group.points[k]
        work = packed.unmask_work(self.key_bits, n_j, n_k, self.bits, slots=self.slots)
        modulus = int.from_bytes(group.contributions[j], "big")
        return await me.compute(
            work, partial(packed.unmask, slots=self.slots), modulus, masked, masks, n_j, n_k, self.bits
        )


@dataclass(frozen=True)
class HollowKey:
    """A modulus of the right length that nobody can factor."""

    public: PublicKey


def proof_context(run_id: bytes, name: str) -> bytes:
    """The context of the proof of the key of `name` in this run."""
    return derive(run_id, "key proof", name)


def hollow_key(bits: int, entropy: Entropy, insecure: bool) -> HollowKey:
    """The result of `generate_key` in a hollow or sized run."""
    return HollowKey(PublicKey(mpz(entropy.bits(bits)) | (mpz(1) << (bits - 1)) | 1))


@hollow(hollow_key)
def generate_key(bits: int, entropy: Entropy, insecure: bool) -> PrivateKey:
    """Generate a client's key for this round; a job."""
    return generate(bits, entropy, insecure=insecure)


def payloads(points: Mapping[str, int], bits: int, key_bits: int, packed: bool = True) -> dict[str, int]:
    """The bytes of payload by message type, all pairs; `points`: n_j.

    A ciphertext is |N|/4 bytes, a plaintext |N|/8.
    """
    slots = (key_bits - 1) // bits.bit_length() if packed else 1
    ciphertext, plaintext = key_bits // 4, key_bits // 8
    pairs = [(-(-n_j // slots), n_k) for n_j, n_k in combinations(points.values(), 2)]  # groups of j's vectors, n_k
    results = sum(groups * n_k for groups, n_k in pairs)
    return {
        "EncryptedBits": sum(groups for groups, _ in pairs) * bits * ciphertext,
        "EncryptedDistances": results * ciphertext,
        **masked_payloads(points, results * plaintext, masks_by_earlier=True),
    }
