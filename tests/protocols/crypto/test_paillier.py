import math
import pickle

import gmpy2
import phe
import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.protocols.crypto import fermat, paillier
from tacit.protocols.crypto.fixed_base import join
from tacit.protocols.crypto.paillier import Encryptor, FreshRerandomiser, PublicKey, Rerandomiser, generate
from tacit.sim.streams import Entropy

KEY = generate(512, Entropy.seeded(1, "test key"), insecure=True)
PUBLIC = KEY.public
N = int(PUBLIC.n)
PLAINTEXTS = st.integers(0, N - 1) | st.sampled_from([0, 1, N - 1, N // 2, N // 2 + 1])
ENTROPIES = st.binary(min_size=32, max_size=32).map(Entropy)


@pytest.fixture(scope="module")
def full_key():
    return generate(2048, Entropy.seeded(2, "test key"))


def textbook_decrypt(ciphertext, p, q):
    """Paillier 1999, scheme 1, with g = 1 + N and lambda = lcm(p - 1, q - 1), on Python integers."""
    n, carmichael = p * q, math.lcm(p - 1, q - 1)
    return (pow(int(ciphertext), carmichael, n * n) - 1) // n * pow(carmichael, -1, n) % n


# Keys


@pytest.mark.parametrize("bits", [512, 1024, 2048])
def test_a_key_has_the_stated_form(bits):
    p, q = generate(bits, Entropy.seeded(3, bits), insecure=True).factors
    assert (p * q).bit_length() == bits
    assert p != q
    assert math.gcd(p - 1, q - 1) == 2
    for prime in (p, q):
        assert gmpy2.is_prime(prime)
        assert 3 << (bits // 2 - 2) <= prime < 1 << (bits // 2)
        assert prime % 4 == 3


@pytest.mark.parametrize("bits", [512, 1024])
def test_short_keys_need_to_be_allowed(bits):
    with pytest.raises(ValueError, match=f"{bits}-bit modulus can be factored: insecure=True"):
        generate(bits, Entropy.system())


@pytest.mark.parametrize("bits", [0, 256, 2047, 4096])
def test_keys_of_other_lengths_are_refused(bits):
    with pytest.raises(ValueError, match=f"not {bits}"):
        generate(bits, Entropy.system(), insecure=True)


def test_the_same_entropy_gives_the_same_key_and_ciphertexts():
    again = generate(512, Entropy.seeded(1, "test key"), insecure=True)
    assert again.factors == KEY.factors
    assert again.encrypt(5, Entropy.seeded(4)) == KEY.encrypt(5, Entropy.seeded(4))
    assert PUBLIC.encrypt(5, Entropy.seeded(4)) == PUBLIC.encrypt(5, Entropy.seeded(4))
    assert KEY.encrypt(5, Entropy.seeded(4)) != KEY.encrypt(5, Entropy.seeded(5))
    assert generate(512, Entropy.seeded(6), insecure=True).factors != KEY.factors


def test_a_key_travels_by_pickling():
    KEY.encrypt(1, Entropy.seeded(1))  # builds the tables, which are not pickled
    data = pickle.dumps(KEY)
    assert len(data) < 2000
    copy = pickle.loads(data)
    assert copy.public == PUBLIC
    assert hash(copy.public) == hash(PUBLIC)
    assert copy.encrypt(7, Entropy.seeded(1)) == KEY.encrypt(7, Entropy.seeded(1))
    assert pickle.loads(pickle.dumps(PUBLIC)) == PUBLIC


def test_no_representation_has_a_secret():
    p, q = KEY.factors
    hide, encryptor = Rerandomiser(PUBLIC, Entropy.seeded(1), 1), Encryptor(PUBLIC, Entropy.seeded(1))
    shown = "".join(f"{thing!r}{thing!s}" for thing in (KEY, PUBLIC, hide, encryptor, KEY._p, KEY._tables))
    secrets = [p, q, *KEY._p.parts, *KEY._q.parts]
    assert not any(str(int(secret)) in shown or f"{int(secret):x}" in shown for secret in secrets)
    assert f"512 bits, {PUBLIC.fingerprint}" in repr(KEY)
    assert "512 bits" in repr(PUBLIC)


def test_a_public_key_survives_bytes():
    data = PUBLIC.to_bytes()
    assert len(data) == 64
    assert PublicKey.from_bytes(data) == PUBLIC
    for bad in (data[1:], b"\0" + data, b""):
        with pytest.raises(ValueError, match=r"bits|bytes"):
            PublicKey.from_bytes(bad)
    with pytest.raises(ValueError, match="odd"):
        PublicKey(PUBLIC.n - 1)


# Encrypting and decrypting


@given(PLAINTEXTS, ENTROPIES)
def test_both_encryptions_decrypt_to_the_plaintext(plaintext, entropy):
    for ciphertext in (KEY.encrypt(plaintext, entropy), PUBLIC.encrypt(plaintext, entropy)):
        assert KEY.decrypt(ciphertext) == plaintext
        assert textbook_decrypt(ciphertext, *KEY.factors) == plaintext


@settings(max_examples=40)
@given(st.lists(PLAINTEXTS, max_size=10), ENTROPIES)
def test_many_plaintexts_are_encrypted_at_once(plaintexts, entropy):
    encryptor = Encryptor(PUBLIC, entropy, len(plaintexts))
    for ciphertexts in (PUBLIC.encrypt_all(plaintexts, entropy), encryptor.encrypt_all(plaintexts)):
        assert KEY.decrypt_all(ciphertexts) == plaintexts
        assert [textbook_decrypt(ciphertext, *KEY.factors) for ciphertext in ciphertexts] == plaintexts
        assert len(set(ciphertexts)) == len(plaintexts)


def test_batches_equal_single_operations():
    entropies = [Entropy.seeded(1, "many") for _ in range(2)]
    assert PUBLIC.encrypt_all([5, 6, 7], entropies[0]) == [PUBLIC.encrypt(value, entropies[1]) for value in (5, 6, 7)]


@given(st.lists(st.tuples(PLAINTEXTS, PLAINTEXTS | st.integers(0, 99)), max_size=10), ENTROPIES)
def test_products_of_many_ciphertexts_at_once_are_right(pairs, entropy):
    ciphertexts, factors = KEY.encrypt_all([a for a, _ in pairs], entropy), [b for _, b in pairs]
    found = PUBLIC.multiply_plain_all(ciphertexts, factors)
    assert found == [PUBLIC.multiply_plain(*pair) for pair in zip(ciphertexts, factors, strict=True)]
    assert KEY.decrypt_all(found) == [a * b % N for a, b in pairs]


@given(PLAINTEXTS, st.integers(2, N - 1).filter(lambda r: math.gcd(r, N) == 1))
def test_textbook_ciphertexts_decrypt(plaintext, r):
    ciphertext = pow(1 + N, plaintext, N * N) * pow(r, N, N * N) % (N * N)
    assert KEY.decrypt(ciphertext) == plaintext


def test_the_randomness_is_a_square_of_the_right_order():
    p, q = KEY.factors
    order = (p - 1) // 2 * ((q - 1) // 2)
    for plaintext in (0, 12345):
        for ciphertext in (
            KEY.encrypt(plaintext, Entropy.seeded(1)),
            PUBLIC.encrypt(plaintext, Entropy.seeded(1)),
            *Encryptor(PUBLIC, Entropy.seeded(1)).encrypt_all([plaintext] * 3),
        ):
            residue = int(ciphertext) * pow(1 + N, -plaintext, N * N) % (N * N)
            assert pow(residue, order, N * N) == 1


def test_a_ciphertext_equals_one_computed_by_hand():
    # N-th power and message multiplied by hand, with r drawn like the key draws it.
    r = Entropy.seeded(9).below(N)
    assert PUBLIC.encrypt(42, Entropy.seeded(9)) == (1 + 42 * N) * pow(r, 2 * N, N * N) % (N * N)


def hide(rerandomiser, public, ciphertexts):
    """Ciphertexts of the same plaintexts with fresh randomness."""
    residues = rerandomiser.residues(len(ciphertexts))
    return [
        join(ciphertext * product % public.square, slope, public.n, public.square)
        for ciphertext, (product, slope) in zip(ciphertexts, residues, strict=True)
    ]


def test_keys_of_2048_bits_encrypt_and_decrypt(full_key):
    public, entropy = full_key.public, Entropy.seeded(1)
    n = int(public.n)
    assert n.bit_length() == 2048
    plaintexts = [0, 1, n - 1, n // 3]
    ciphertexts = [*full_key.encrypt_all(plaintexts, entropy), public.encrypt(n // 3, entropy)]
    assert [full_key.decrypt(ciphertext) for ciphertext in ciphertexts] == [*plaintexts, n // 3]
    assert textbook_decrypt(ciphertexts[3], *full_key.factors) == n // 3
    assert len({int(ciphertext) for ciphertext in ciphertexts}) == 5
    hidden = hide(Rerandomiser(public, entropy, 2), public, ciphertexts[:2])
    assert [full_key.decrypt(ciphertext) for ciphertext in hidden] == [0, 1]


def test_decryption_does_not_need_libcrypto(full_key, monkeypatch):
    ciphertext = full_key.encrypt(12345, Entropy.seeded(1))
    monkeypatch.setattr(fermat, "libcrypto", lambda: None)
    copy = pickle.loads(pickle.dumps(full_key))
    assert isinstance(copy._p.quotient, fermat.SplitQuotient)
    assert copy.decrypt(ciphertext) == full_key.decrypt(ciphertext) == 12345


# Arithmetic


@given(PLAINTEXTS, PLAINTEXTS, ENTROPIES)
def test_sums_and_products_under_encryption_are_exact(a, b, entropy):
    x, y = KEY.encrypt(a, entropy), KEY.encrypt(b, entropy)
    assert KEY.decrypt(PUBLIC.add(x, y)) == (a + b) % N
    assert KEY.decrypt(PUBLIC.add_plain(x, b)) == (a + b) % N
    assert KEY.decrypt(PUBLIC.multiply_plain(x, b)) == a * b % N
    assert PUBLIC.multiply_plain(x, N - 1) == pow(int(x), -1, N * N)


@given(PLAINTEXTS, ENTROPIES)
def test_rerandomising_changes_the_ciphertext_only(plaintext, entropy):
    ciphertext = KEY.encrypt(plaintext, entropy)
    rerandomiser = Rerandomiser(PUBLIC, entropy, 3)
    hidden = [*hide(rerandomiser, PUBLIC, [ciphertext] * 2), PUBLIC.rerandomise(ciphertext, entropy)]
    assert [KEY.decrypt(item) for item in hidden] == [plaintext] * 3
    assert len({int(item) for item in [ciphertext, *hidden]}) == 4


def test_fresh_powers_hide_by_nth_powers_that_are_not_all_squares():
    """A product with squares only keeps its Jacobi symbol; these have both symbols, and are encryptions of 0."""
    residues = [product for product, slope in FreshRerandomiser(PUBLIC, Entropy.seeded(1)).residues(40) if slope == 0]
    assert len(set(residues)) == 40
    assert {KEY.decrypt(residue) for residue in residues} == {0}
    assert {gmpy2.jacobi(residue, N) for residue in residues} == {1, -1}


def test_hiding_exponents_are_longer_than_the_modulus():
    for bits in (512, 1024, 2048, 3072):
        for uses in (1, 30, 3000):
            assert paillier.rerandomising_comb(bits, uses).bits >= bits + 128


# Errors


@pytest.mark.parametrize("plaintext", [-1, N])
def test_plaintexts_out_of_range_are_refused(plaintext):
    actions = (
        lambda: KEY.encrypt(plaintext, Entropy.system()),
        lambda: PUBLIC.encrypt(plaintext, Entropy.system()),
        lambda: PUBLIC.add_plain(1, plaintext),
        lambda: PUBLIC.multiply_plain(1, plaintext),
        lambda: PUBLIC.multiply_plain_all([1, 1, 1], [1, plaintext, 1]),
        lambda: PUBLIC.encrypt_all([1, plaintext, 1], Entropy.system()),
        lambda: Encryptor(PUBLIC, Entropy.system(), 1).encrypt_all([1, plaintext, 1]),
    )
    for action in actions:
        with pytest.raises(ValueError, match=r"must be in \[0, N\), N of 512 bits"):
            action()


@pytest.mark.parametrize("ciphertext", [0, -1, N * N])
def test_ciphertexts_out_of_range_are_refused(ciphertext):
    actions = (
        lambda: KEY.decrypt(ciphertext),
        lambda: PUBLIC.add(1, ciphertext),
        lambda: PUBLIC.add_plain(ciphertext, 1),
        lambda: PUBLIC.multiply_plain(ciphertext, 1),
        lambda: PUBLIC.multiply_plain_all([1, ciphertext, 1], [1, 1, 1]),
        lambda: KEY.decrypt_all([1, ciphertext, 1]),
        lambda: PUBLIC.rerandomise(ciphertext, Entropy.system()),
        lambda: PUBLIC.check([1, ciphertext]),
        lambda: PUBLIC.ciphertext_to_bytes(ciphertext),
    )
    for action in actions:
        with pytest.raises(ValueError, match=r"must be in \(0, N\^2\), N of 512 bits"):
            action()


@pytest.mark.parametrize("factor", [0, 1])
def test_ciphertexts_that_share_a_factor_with_the_modulus_are_refused(factor):
    ciphertext = 3 * KEY.factors[factor]
    actions = (
        lambda: KEY.decrypt(ciphertext),
        lambda: PUBLIC.check([1, ciphertext, 2]),
        lambda: PUBLIC.multiply_plain(ciphertext, N - 1),
        lambda: PUBLIC.multiply_plain_all([1, ciphertext], [1, N - 1]),
        lambda: KEY.decrypt_all([1, ciphertext]),
    )
    with pytest.raises(ValueError, match="2 ciphertexts have 3 factors"):
        PUBLIC.multiply_plain_all([1, 2], [1, 2, 3])
    for action in actions:
        with pytest.raises(ValueError, match="shares a factor") as caught:
            action()
        assert str(ciphertext) not in str(caught.value)


@given(PLAINTEXTS, ENTROPIES)
def test_ciphertexts_are_encoded_and_decoded_in_fixed_length(plaintext, entropy):
    ciphertext = KEY.encrypt(plaintext, entropy)
    data = PUBLIC.ciphertext_to_bytes(ciphertext)
    assert len(data) == 128
    assert PUBLIC.ciphertexts_from_bytes(data, 1) == [ciphertext]
    with pytest.raises(ValueError, match="1 ciphertexts take 128 bytes, not 127"):
        PUBLIC.ciphertexts_from_bytes(data[1:], 1)


# Packing


@given(st.integers(1, 14), st.data())
def test_packed_values_are_unpacked_unchanged(slot_bits, data):
    count = data.draw(st.integers(0, paillier.slots(512, slot_bits)))
    values = data.draw(st.lists(st.integers(0, 2**slot_bits - 1), min_size=count, max_size=count))
    packed = paillier.pack(values, slot_bits)
    assert packed == sum(value << slot_bits * i for i, value in enumerate(values))
    assert packed < N
    assert paillier.unpack(packed, slot_bits, count) == values


def test_the_number_of_slots_follows_from_key_and_slot_size():
    assert paillier.slots(2048, 13) == 157
    assert paillier.slots(2048, 11) == 186
    with pytest.raises(ValueError, match="slot_bits"):
        paillier.slots(2048, 0)


def test_values_that_do_not_fit_their_slots_are_refused():
    with pytest.raises(ValueError, match="slot 1 does not hold 3 bits"):
        paillier.pack([1, 8, 2], 3)
    with pytest.raises(ValueError, match="does not fit 2 slots of 3 bits"):
        paillier.unpack(64, 3, 2)


# Another library


@given(PLAINTEXTS, PLAINTEXTS, ENTROPIES)
def test_ciphertexts_are_interchangeable_with_python_paillier(a, b, entropy):
    theirs = phe.PaillierPublicKey(N)
    their_private = phe.PaillierPrivateKey(theirs, *KEY.factors)
    ours, foreign = KEY.encrypt(a, entropy), theirs.raw_encrypt(b)
    assert their_private.raw_decrypt(int(ours)) == a
    assert their_private.raw_decrypt(int(PUBLIC.encrypt(a, entropy))) == a
    assert KEY.decrypt(foreign) == b
    assert KEY.decrypt(PUBLIC.add(ours, foreign)) == (a + b) % N
    assert their_private.raw_decrypt(int(PUBLIC.add(ours, mpz(foreign)))) == (a + b) % N
