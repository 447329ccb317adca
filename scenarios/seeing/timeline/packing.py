"""Whole numbers in few characters: each in base 32, the lowest digits first, as maps of minified programs have them.

A digit is a character of base64; 32 is added to it if more digits follow. The first bit is the sign. Numbers close to
0 take one character, and so columns are packed as differences where that makes them small.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache

__all__ = ["differences", "packed", "unpacked"]

_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def packed(numbers: Iterable[int]) -> str:
    """The numbers as text; data.js reads it."""
    return "".join(map(_written, numbers))


@lru_cache(4096)
def _written(number: int) -> str:
    rest = -number * 2 + 1 if number < 0 else number * 2
    found = ""
    while rest > 31:
        found += _DIGITS[rest % 32 + 32]
        rest //= 32
    return found + _DIGITS[rest]


def unpacked(text: str) -> Iterator[int]:
    """The numbers that were packed."""
    number, factor = 0, 1
    for character in text:
        digit = _DIGITS.index(character)
        number, factor = number + digit % 32 * factor, factor * 32
        if digit < 32:
            yield -(number // 2) if number % 2 else number // 2
            number, factor = 0, 1


def differences(numbers: Iterable[int]) -> Iterator[int]:
    """The first number, and then how much each one is more than the one before."""
    last = 0
    for number in numbers:
        yield number - last
        last = number
