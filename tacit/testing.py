"""Tests for what you write yourself: `check_sum` checks a secure sum of your own.

>>> from tacit.testing import check_sum
>>> print(check_sum("secure", only=["bytes by formula"]).cases[0].status)
passed
"""

from tacit.scenarios.testing.conformance import CASES, Case, SumReport, check_sum

__all__ = ["CASES", "Case", "SumReport", "check_sum"]
