"""Tests of message contents: every function by which a receiver reads byte strings, on invalid bytes.

Each function either reads them or raises Tacit's own ValueError in one line. No error of numpy, gmpy2 or Python passes
through, and memory is bounded by the bytes received and by the agreed sizes.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tacit.protocols.crypto import fields, masking, ot_hamming, packed_hamming, paillier, prg, shamir
from tacit.protocols.crypto.agreement import KeyPair, SharedSecret
from tacit.protocols.crypto.groups import find_group
from tacit.protocols.crypto.ot_pair import Pair, sums
from tacit.protocols.crypto.sealing import PairChannel
from tacit.protocols.setup import Group
from tacit.protocols.xclp.hamming import SecureHamming
from tacit.protocols.xclp.hamming_iknp import IknpHamming
from tacit.protocols.xclp.hamming_naor_pinkas import NaorPinkasHamming
from tacit.protocols.xclp.hamming_paillier import PaillierHamming
from tacit.protocols.xclp.hamming_plaintext import PlaintextHamming
from tacit.protocols.xclp.lsh import packed_rows
from tacit.sim.streams import Entropy

PER_BYTE = 200  # fields of one bit become numbers of eight bytes, stored twice
AT_LEAST = 512 << 10  # the constant memory of the small sizes below, with tables of powers
N_J, N_K, LENGTH = 3, 2, 16
EDGES = (
    b"\0",
    b"\xff",
    b"\xff" * 32,
    bytes(32),
    b"\x01" + bytes(31),
    b"\x04",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\x7f",
)
P256 = find_group("p256")
MODP = find_group("modp-2048")


@dataclass
class Decoder:
    """A function `read` that takes as many byte strings as `valid` has."""

    read: Callable[..., object]
    valid: tuple[bytes, ...]


def entropy(*names: str | int) -> Entropy:
    return Entropy.seeded(1, "fuzz", *names)


class Here:
    """A server that computes immediately, for `combine`."""

    name, round, attempt = "server", 1, 1
    world = SimpleNamespace(run_id=bytes(16))

    async def compute(self, work: object, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)


def finished(coroutine: Coroutine[Any, Any, Any]) -> Any:
    with pytest.raises(StopIteration) as done:
        coroutine.send(None)
    return done.value.value


def combined(variant: SecureHamming, modulus: bytes, masked: bytes, masks: bytes) -> np.ndarray:
    """The result of the server's `combine`, whose distances must be possible ones."""
    group = Group(("j", "k"), {"j": N_J, "k": N_K}, {"j": modulus, "k": modulus})
    try:
        variant.combine(Here(), group, ("j", "k"), masked, masks).send(None)  # type: ignore[arg-type]
    except StopIteration as done:
        found = done.value
    assert found.shape == (N_K, N_J)
    assert found.min() >= 0
    assert found.max() <= LENGTH
    return found


def of_fields() -> dict[str, Decoder]:
    coins = np.random.default_rng(1)
    found = {
        f"fields of {width} bits": Decoder(
            lambda data, width=width: fields.unpack_fields(data, width, 37),
            (fields.pack_fields(coins.integers(0, 2**width, 37), width),),
        )
        for width in (1, 5, 11, 32)
    }
    found["words of a masked sum"] = Decoder(lambda data: masking.read(data, [3, 0, 5]), (bytes(range(64)),))
    return found


def of_keys() -> dict[str, Decoder]:
    one, two = KeyPair.generate(entropy("one")), KeyPair.generate(entropy("two"))
    secret = SharedSecret(one.agree(two.public), bytes(16), 1, ("a#1", "b#1"))
    sealed = PairChannel(secret, True).seal(b"a seed, perhaps", b"bound")
    shares = shamir.split([bytes(range(32)), bytes(32)], 2, 3, entropy("shares"))

    def combine(data: bytes) -> object:
        table = np.frombuffer(data, np.uint8)
        size = shamir.share_bytes(32)
        return shamir.combine([1, 3], table[: len(table) // (2 * size) * 2 * size].reshape(2, -1, size), 2, 32)

    return {
        "X25519 public key": Decoder(one.agree, (two.public,)),
        "X25519 private key": Decoder(KeyPair, (bytes(range(32)),)),
        "key of the generator": Decoder(lambda key: prg.words(key, 1, 7), (bytes(32),)),
        "sealed body": Decoder(lambda data: PairChannel(secret, False).open(data, b"bound"), (sealed,)),
        "shares": Decoder(combine, (shares[[0, 2]].tobytes(),)),
    }


def of_paillier() -> dict[str, Decoder]:
    key = paillier.generate(512, entropy("paillier"), insecure=True)
    coins = np.random.default_rng(2)
    bits_j, bits_k = coins.integers(0, 2, (N_J, LENGTH)), coins.integers(0, 2, (N_K, LENGTH))
    encoded = packed_hamming.encode(key, bits_j, entropy("encode"))
    masked, masks = packed_hamming.evaluate(key.public, encoded, N_J, bits_k, entropy("evaluate"))
    results = packed_hamming.decrypt(key, masked)
    modulus = key.public.to_bytes()
    ciphertext = encoded[: key.public.ciphertext_bytes]
    variant = PaillierHamming(LENGTH, 512, insecure=True)

    def evaluate(data: bytes) -> object:
        return packed_hamming.evaluate(key.public, data, N_J, bits_k, entropy("again"))

    return {
        "Paillier modulus": Decoder(paillier.PublicKey.from_bytes, (modulus,)),
        "Paillier ciphertext": Decoder(
            lambda data: key.decrypt(*key.public.ciphertexts_from_bytes(data, 1)), (ciphertext,)
        ),
        "EncryptedBits": Decoder(evaluate, (encoded,)),
        "EncryptedDistances": Decoder(lambda data: packed_hamming.decrypt(key, data), (masked,)),
        "combine, paillier": Decoder(lambda *data: combined(variant, *data), (modulus, results, masks)),
    }


def of_groups() -> dict[str, Decoder]:
    return {
        f"element of {group.name}": Decoder(group.decode, (group.encode(group.random_element(entropy(group.name))),))
        for group in (P256, MODP)
    }


def of_transfers() -> dict[str, Decoder]:
    pair, chunk = Pair(N_J, N_K, LENGTH, b"context"), range(N_K)
    coins = np.random.default_rng(3)
    bits_j, bits_k = coins.integers(0, 2, (N_J, LENGTH)), coins.integers(0, 2, (N_K, LENGTH))
    kept, base_setup = ot_hamming.IknpReceiver.setup(pair, P256, entropy("k"))
    sender, base_request = ot_hamming.IknpSender.start(pair, P256, bits_j, base_setup, entropy("j"))
    receiver = ot_hamming.IknpReceiver.start(pair, kept, bits_k, base_request)
    extension = receiver.extend(chunk)
    corrections, part = sender.correct(chunk, extension)
    masks, masked = sums(pair, [part]), sums(pair, [receiver.finish(chunk, corrections)])

    small = Pair(1, 1, 8, b"small")
    one = range(1)
    paper_j, setup = ot_hamming.NaorPinkasSender.start(small, P256, bits_j[:1, :8], entropy("sender"))

    def paper_k(setup: bytes) -> ot_hamming.NaorPinkasReceiver:
        return ot_hamming.NaorPinkasReceiver.start(small, P256, bits_k[:1, :8], setup, entropy("receiver"))

    request = paper_k(setup).request(one)
    reply, _ = paper_j.reply(one, request)
    return {
        "BaseSetup": Decoder(
            lambda data: ot_hamming.IknpSender.start(pair, P256, bits_j, data, entropy("j")), (base_setup,)
        ),
        "BaseRequest": Decoder(
            lambda data: ot_hamming.IknpReceiver.start(pair, kept, bits_k, data), (base_request,)
        ),
        "Extension": Decoder(lambda data: sender.correct(chunk, data), (extension,)),
        "Corrections": Decoder(lambda data: receiver.finish(chunk, data), (corrections,)),
        "TransferSetup": Decoder(lambda data: paper_k(data).request(one), (setup,)),
        "TransferRequest": Decoder(lambda data: paper_j.reply(one, data), (request,)),
        "TransferReply": Decoder(lambda data: paper_k(setup).finish(one, data), (reply,)),
        "combine, iknp": Decoder(
            lambda *data: combined(IknpHamming(LENGTH, P256), b"", *data), (masked, masks)
        ),
        "combine, naor-pinkas": Decoder(
            lambda *data: combined(NaorPinkasHamming(LENGTH, P256), b"", *data), (masked, masks)
        ),
    }  # fmt: skip


def of_plaintext() -> dict[str, Decoder]:
    h = fields.pack_fields(np.arange(N_J * N_K), LENGTH.bit_length())
    variant = PlaintextHamming(LENGTH)
    return {
        "combine, plaintext": Decoder(lambda *data: combined(variant, b"", *data), (h, bytes(len(h)))),
        "Hashes": Decoder(lambda data: packed_rows(data, 3, LENGTH), (bytes(-(-3 * LENGTH // 8)),)),
    }


@pytest.fixture(scope="module")
def decoders() -> dict[str, Decoder]:
    found: dict[str, Decoder] = {}
    for made in (of_fields, of_keys, of_paillier, of_groups, of_transfers, of_plaintext):
        found |= made()
    return found


SLOW = ("BaseRequest", "BaseSetup", "TransferRequest", "TransferSetup", "TransferReply", "EncryptedBits")
"""The message types that take milliseconds each, and are tried less often."""


def test_every_decoder_reads_its_valid_contents(decoders: dict[str, Decoder]) -> None:
    for name, decoder in decoders.items():
        try:
            decoder.read(*decoder.valid)
        except ValueError as error:
            raise AssertionError(f"{name}: {error}") from error


def test_random_contents_are_decoded_or_refused(inputs, decoders: dict[str, Decoder], mutate, memory, clear) -> None:
    quick = [name for name in decoders if name not in SLOW]
    refused: dict[str, int] = dict.fromkeys(decoders, 0)
    for one in inputs:
        name = one.random.choice(SLOW if one.number % 20 == 0 else quick)
        decoder = decoders[name]
        data = list(decoder.valid)
        for place in one.random.sample(range(len(data)), one.random.randint(1, len(data))):
            other = one.random.choice(decoders[one.random.choice(list(decoders))].valid)
            data[place] = mutate(one.random, data[place], other, EDGES)
        with one.trying(name, *data):
            found = attempt(memory, sum(map(len, data)), lambda: decoder.read(*data))  # noqa: B023 (called at once)
            if isinstance(found, ValueError):
                clear(found)
                refused[name] += 1
    assert inputs.count < 1000 or all(refused.values()), refused


def attempt(memory: Any, size: int, read: Callable[[], object]) -> object:
    return memory.outcome(AT_LEAST + PER_BYTE * size, ValueError, read)
