"""The inputs of fuzz tests, made from seeds so that each can be made again, in the numbers given here."""

import linecache
import random
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]

INPUTS = {
    "test_random_bodies_decode_or_are_refused_with_their_sender": (600, 60_000),
    "test_random_frames_decode_or_are_refused_with_a_reason": (600, 25_000),
    "test_random_contents_are_decoded_or_refused": (500, 12_000),
    "test_mutated_files_are_read_or_refused": (100, 500),
    "test_wrong_values_name_file_and_key": (150, 800),
    "test_changes_are_read_or_refused": (80, 400),
    "test_axes_are_read_or_refused": (80, 400),
    "test_tables_are_read_or_refused": (250, 800),
    "test_archives_are_read_or_refused": (100, 500),
    "test_cost_tables_are_read_or_refused": (150, 500),
    "test_latencies_are_read_or_refused": (150, 500),
    "test_availability_is_read_or_refused": (150, 500),
    "test_records_are_read_or_refused": (20, 75),
}
"""The number of inputs that each test tries by default and with ``-m long``."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "inputs" in metafunc.fixturenames:
        short, long = INPUTS[metafunc.function.__name__]
        counts = [pytest.param(short, id="short"), pytest.param(long, id="long", marks=pytest.mark.long)]
        metafunc.parametrize("inputs", counts, indirect=True)


class Inputs:
    """`count` inputs, number i made from the seed ``TEST:i``."""

    def __init__(self, test: str, count: int) -> None:
        self.count = count
        self._test = test

    def __iter__(self) -> Iterator["Input"]:
        for number in range(self.count):
            yield Input(number, f"{self._test}:{number}")


class Input:
    """One input: draw its bytes from `random`, and use them inside `trying`."""

    def __init__(self, number: int, seed: str) -> None:
        self.number, self.seed = number, seed
        self.random = random.Random(seed)

    @contextmanager
    def trying(self, what: str, *data: bytes) -> Iterator[None]:
        """Report a failure inside this context with the seed and the bytes, in hexadecimal."""
        try:
            yield
        except BaseException as error:
            shown = " and ".join(each.hex() if len(each) < 5000 else f"{each[:5000].hex()}..." for each in data)
            raise AssertionError(
                f"{what}, seed {self.seed!r}, bytes {shown}: {type(error).__name__}: {error}"
            ) from error


@pytest.fixture
def inputs(request: pytest.FixtureRequest) -> Inputs:
    return Inputs(request.function.__name__, request.param)


# Mutations


HUGE = (
    *(
        bytes([kind]) + struct.pack(">I", size)
        for kind in (0xC6, 0xC9, 0xDB, 0xDD, 0xDF)
        for size in (2**32 - 1, 2**31)
    ),
    *(bytes([kind]) + struct.pack(">H", 65535) for kind in (0xC5, 0xC8, 0xDA, 0xDC, 0xDE)),
    *(bytes([kind, 255]) for kind in (0xC4, 0xC7, 0xD9)),
)
"""MessagePack's headers of byte strings, extensions, texts, arrays and maps that claim far more content than there
is."""

WRONG = (
    b"\xc0", b"\xc1", b"\xc2", b"\xc3", b"\x00", b"\xff", b"\xcf" + b"\xff" * 8, b"\xd3\x80" + bytes(7),
    b"\xcb" + struct.pack(">d", float("nan")), b"\xca" + struct.pack(">f", 1e30), b"\xa3abc", b"\xa2\xff\xfe",
    b"\xa3\xed\xa0\x80", b"\xc4\x02ab", b"\x90", b"\x80", b"\x81\xa1a\x01", b"\xd4\x01\x00",
    b"\xd6\xff\x00\x00\x00\x01",
)  # fmt: skip
"""One value of each MessagePack type, including invalid UTF-8 and extreme numbers."""


Pieces = tuple[bytes, ...]


def _flip(random: random.Random, data: bytes, other: bytes, pieces: Pieces) -> bytes:
    changed = bytearray(data or b"\0")
    for _ in range(random.choice((1, 1, 1, 2, 8))):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _cut(random: random.Random, data: bytes, other: bytes, pieces: Pieces) -> bytes:
    return data[: random.randrange(len(data) + 1)]


def _extend(random: random.Random, data: bytes, other: bytes, pieces: Pieces) -> bytes:
    return data + random.randbytes(random.choice((1, 1, 8, 100)))


def _noise(random: random.Random, data: bytes, other: bytes, pieces: Pieces) -> bytes:
    return random.randbytes(random.choice((0, 1, 2, len(data), len(data) + 1)))


def _one_byte(random: random.Random, data: bytes, other: bytes, pieces: Pieces) -> bytes:
    return random.choice((b"\0", b"\xff", b"\x80")) * len(data)


def _overwrite(random: random.Random, data: bytes, other: bytes, pieces: Pieces) -> bytes:
    at, piece = random.randrange(len(data) + 1), random.choice(pieces)
    return data[:at] + piece + data[at + random.choice((0, 1, len(piece))) :]


def _splice(random: random.Random, data: bytes, other: bytes, pieces: Pieces) -> bytes:
    return data[: random.randrange(len(data) + 1)] + other[random.randrange(len(other) + 1) :]


CHANGES = (_flip, _flip, _cut, _cut, _extend, _noise, _one_byte, _splice, _overwrite, _overwrite)


def mutated(random: random.Random, data: bytes, other: bytes, pieces: Pieces) -> bytes:
    """`data` changed in one or two ways; parts of `other` are spliced in, and `pieces` are written at some places."""
    for _ in range(random.choice((1, 1, 1, 2))):
        data = random.choice(CHANGES)(random, data, other, pieces)
    return data


def nested(random: random.Random, data: bytes) -> bytes:
    """`data` with lists or maps nested up to 50,000 deep at some place."""
    at, depth = random.randrange(len(data) + 1), random.choice((10, 1000, 50_000))
    return data[:at] + random.choice((b"\x91", b"\x81", b"\xdd\0\0\0\1")) * depth + data[at:]


@pytest.fixture(scope="session")
def mutate() -> Callable[..., bytes]:
    """The function ``mutate(random, data, other, pieces)``."""
    return mutated


@pytest.fixture(scope="session")
def mutate_packed() -> Callable[[random.Random, bytes, bytes], bytes]:
    """The function ``mutate_packed(random, data, other)`` for MessagePack, with huge lengths, wrong types and deep
    nesting."""

    def mutate(random: random.Random, data: bytes, other: bytes) -> bytes:
        if random.random() < 0.05:
            return nested(random, data)
        return mutated(random, data, other, HUGE if random.random() < 0.5 else WRONG)

    return mutate


# Judging


def assert_stated_clearly(error: BaseException) -> None:
    """Assert that `error` is one line for the user, raised by Tacit's own `raise`, not inside Python or numpy."""
    text = str(error)
    assert text.strip() and len(text.splitlines()) == 1, f"not one line: {text!r}"
    trace = error.__traceback__
    assert trace is not None
    while trace.tb_next is not None:
        trace = trace.tb_next
    file = Path(trace.tb_frame.f_code.co_filename)
    line = linecache.getline(str(file), trace.tb_lineno).strip()
    assert file.is_relative_to(REPOSITORY) and line.startswith("raise "), f"raised by {file.name}, {line!r}: {text}"


@pytest.fixture(scope="session")
def clear() -> Callable[[BaseException], None]:
    return assert_stated_clearly


class Memory:
    """Measures the memory that Python and numpy allocate, for every n-th input, as tracing takes several times as
    long."""

    def __init__(self) -> None:
        self.every = 1
        self._asked = 0

    def outcome(self, most: int, expected: type[Exception], make: Callable[[], object]) -> object:
        """Return the value of `make`, or the `expected` error that it raises.

        Assert that it needs at most `most` bytes at any moment. Another thread of this process may allocate memory
        meanwhile, which is counted too: a value that takes more is made again, and the smallest of five peaks counts.
        """
        self._asked += 1
        if self._asked % self.every:
            return _returned_or_raised(expected, make)
        peaks: list[int] = []
        for _ in range(5):
            tracemalloc.start()
            try:
                found = _returned_or_raised(expected, make)
                peaks.append(tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()
            if peaks[-1] <= most:
                return found
        raise AssertionError(f"{min(peaks)} bytes of memory at the peak; {most} are allowed")


def _returned_or_raised(expected: type[Exception], make: Callable[[], object]) -> object:
    try:
        return make()
    except expected as error:
        return error


@pytest.fixture
def memory() -> Memory:
    return Memory()
