"""Prio3 of draft-irtf-cfrg-vdaf-20: sums of measurements that clients prove valid and that no aggregator sees."""

from tacit.protocols.crypto.vdaf.prime_field import FIELD64, FIELD128
from tacit.protocols.crypto.vdaf.prio3 import INVALID_PROOF, InvalidReport, PrepareState, Prio3

__all__ = ["FIELD64", "FIELD128", "INVALID_PROOF", "InvalidReport", "PrepareState", "Prio3"]
