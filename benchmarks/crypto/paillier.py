"""Paillier's operations in Tacit and in other libraries.

Encryption in five ways: the owner's, by tables of fixed bases (`Tacit`); under the public key alone, by tables (`Tacit,
public key only`: `paillier.Encryptor`, made before the measurement, since a peer keeps it with a key) and by r^2N of a
fresh r for each (`Tacit, public key, r^2N`); the owner's by CRT without tables, a baseline written here on gmpy2; and
the way of each peer. Peers are called below their encodings of numbers if they have such an interface.

`Tacit` encrypts, decrypts and multiplies many numbers in a call, as its protocols do; `Tacit, one by one` one number in
a call, like the peers.
"""

import math
import warnings
from collections.abc import Callable, Mapping
from types import ModuleType

import gmpy2
from gmpy2 import mpz

from tacit.benchmarks.measure import Action, Standing, race
from tacit.protocols.crypto import paillier
from tacit.sim.streams import Entropy

__all__ = ["PEERS", "measure_paillier_race"]

Actions = dict[str, tuple[Action, int]]

_TASKS = ("generate", "encrypt", "decrypt", "add", "multiply")


def measure_paillier_race(bits: int, peers: Mapping[str, ModuleType], turns: int) -> list[Standing]:
    """The rates of key generation, encryption, decryption, addition, and multiplication by a 62-bit number.

    `peers` are modules by name, among those that `PEERS` lists.
    """
    entropy = Entropy.seeded(1, "benchmark", bits)
    ours = _ours(bits, entropy)
    theirs = {
        name: prepare(bits, peers[module], entropy) for name, (module, prepare) in PEERS.items() if module in peers
    }
    rows = []
    for task in _TASKS:
        contenders = {"Tacit": ours[task]} | {name: actions[task] for name, actions in theirs.items()}
        if task == "encrypt":
            contenders["Tacit, public key only"] = ours["encrypt, public"]
            contenders["Tacit, public key, r^2N"] = ours["encrypt, r^2N"]
            contenders["gmpy2, CRT without tables"] = ours["encrypt, CRT"]
        elif f"{task}, one" in ours:
            contenders["Tacit, one by one"] = ours[f"{task}, one"]
        rows += race(f"Paillier-{bits} {task}", contenders, turns)
    return rows


def _repeat(action: Callable[..., object], count: int, *arguments: object) -> tuple[Action, int]:
    def run() -> None:
        for _ in range(count):
            action(*arguments)

    return run, count


def _ours(bits: int, entropy: Entropy) -> Actions:
    key = paillier.generate(bits, entropy)
    public = key.public
    messages = [entropy.below(int(public.n)) for _ in range(256)]
    ciphertexts = key.encrypt_all(messages, entropy)
    a, b, *_ = ciphertexts
    factors = [entropy.bits(62) for _ in messages]
    encryptor = paillier.Encryptor(public, entropy)
    assert key.decrypt_all(encryptor.encrypt_all(messages)) == messages
    encrypt_by_crt = _crt_encryption(key, entropy)
    assert key.decrypt(encrypt_by_crt(messages[0])) == messages[0]
    return {
        "generate": _repeat(paillier.generate, 3, bits, entropy),
        "encrypt": (lambda: key.encrypt_all(messages, entropy), len(messages)),
        "encrypt, public": (lambda: encryptor.encrypt_all(messages), len(messages)),
        "encrypt, r^2N": (lambda: public.encrypt_all(messages[:16], entropy), 16),
        "encrypt, CRT": _repeat(encrypt_by_crt, 16, messages[0]),
        "decrypt": (lambda: key.decrypt_all(ciphertexts), len(messages)),
        "decrypt, one": _repeat(key.decrypt, 25, a),
        "add": _repeat(public.add, 5000, a, b),
        "multiply": (lambda: public.multiply_plain_all(ciphertexts, factors), len(messages)),
        "multiply, one": _repeat(public.multiply_plain, 100, a, factors[0]),
    }


def _crt_encryption(key: paillier.PrivateKey, entropy: Entropy) -> Callable[[int], mpz]:
    """(1 + N m) r^N mod N^2 from r^N mod p^2 and mod q^2, whose exponents are N mod p (p - 1) and mod q (q - 1)."""
    p, q = (mpz(factor) for factor in key.factors)
    n, p_square, q_square = p * q, p * p, q * q
    p_exponent, q_exponent = n % (p_square - p), n % (q_square - q)
    inverse = gmpy2.invert(q_square, p_square)

    def encrypt(message: int) -> mpz:
        r = entropy.below(int(n))
        while math.gcd(r, int(n)) != 1:
            r = entropy.below(int(n))
        x, y = gmpy2.powmod(r, p_exponent, p_square), gmpy2.powmod(r, q_exponent, q_square)
        return (1 + n * message) * (y + q_square * ((x - y) * inverse % p_square)) % (n * n)

    return encrypt


def _python_paillier(bits: int, phe: ModuleType, entropy: Entropy) -> Actions:
    public, private = phe.generate_paillier_keypair(n_length=bits)
    message = entropy.below(public.n // 4)
    a, b = public.raw_encrypt(message), public.raw_encrypt(1)
    number = phe.EncryptedNumber(public, a)
    return {
        "generate": _repeat(lambda: phe.generate_paillier_keypair(n_length=bits), 1),
        "encrypt": _repeat(public.raw_encrypt, 8, message),
        "decrypt": _repeat(private.raw_decrypt, 25, a),
        "add": _repeat(number._raw_add, 5000, a, b),
        "multiply": _repeat(number._raw_mul, 100, entropy.bits(62)),
    }


def _heu(bits: int, heu: ModuleType, entropy: Entropy) -> Actions:
    schema = heu.SchemaType.ZPaillier
    kit = heu.setup(schema, bits)
    encryptor, evaluator = kit.encryptor(), kit.evaluator()
    message = heu.Plaintext(schema, entropy.bits(bits - 3))
    a, b = encryptor.encrypt(message), encryptor.encrypt(message)
    return {
        "generate": _repeat(heu.setup, 1, schema, bits),
        "encrypt": _repeat(encryptor.encrypt, 128, message),
        "decrypt": _repeat(kit.decryptor().decrypt, 25, a),
        "add": _repeat(evaluator.add, 5000, a, b),
        "multiply": _repeat(evaluator.mul, 100, a, entropy.bits(62)),
    }


def _tno(bits: int, tno: ModuleType, entropy: Entropy) -> Actions:
    scheme = tno.Paillier.from_security_parameter(key_length=bits, precision=0)
    message = entropy.bits(bits - 3)
    a, b = scheme.encrypt(message), scheme.encrypt(message)
    # This marks the results as sent, which avoids a warning that they need re-randomising.
    a.get_value(), b.get_value()
    assert scheme.decrypt(scheme.add(a, b)) == 2 * message

    def encrypt() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns that randomness should be precomputed, at the same cost
            for _ in range(8):
                scheme.encrypt(message)

    return {
        "generate": _repeat(tno.Paillier.generate_key_material, 1, bits),
        "encrypt": (encrypt, 8),
        "decrypt": _repeat(scheme.decrypt, 8, a),
        "add": _repeat(scheme.add, 5000, a, b),
        "multiply": _repeat(scheme.mul, 100, a, entropy.bits(62)),
    }


def _lightphe(bits: int, lightphe: ModuleType, entropy: Entropy) -> Actions:
    scheme = lightphe.Paillier(key_size=bits)
    # The library draws primes below 2^(bits/2) without a useful lower bound, so the modulus is often too short.
    while scheme.plaintext_modulo.bit_length() != bits:
        scheme = lightphe.Paillier(key_size=bits)
    message = entropy.bits(bits - 3)
    a, b = scheme.encrypt(message), scheme.encrypt(message)
    assert scheme.decrypt(scheme.add(a, b)) == 2 * message
    return {
        "generate": _repeat(lightphe.Paillier, 1, None, bits),
        "encrypt": _repeat(scheme.encrypt, 2, message),
        "decrypt": _repeat(scheme.decrypt, 2, a),
        "add": _repeat(scheme.add, 1000, a, b),
        "multiply": _repeat(scheme.multiply_by_constant, 10, a, entropy.bits(62)),
    }


PEERS: dict[str, tuple[str, Callable[[int, ModuleType, Entropy], Actions]]] = {
    "python-paillier": ("phe.paillier", _python_paillier),
    "HEU ZPaillier": ("heu.phe", _heu),
    "TNO MPC": ("tno.mpc.encryption_schemes.paillier", _tno),
    "LightPHE": ("lightphe.cryptosystems.Paillier", _lightphe),
}
"""The peers by name: the module that each needs, and the function that prepares its actions."""
