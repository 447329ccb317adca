"""A lying leader or helper of reports of Prio3, in a world of two aggregators (`scenarios.chaos.report_world`)."""

from dataclasses import replace

from tacit.protocols.sums.lying.base import Lying
from tacit.protocols.sums.sum import SumSettings

__all__ = ["LyingAggregator"]


class LyingAggregator(Lying):
    """Parties of the sum in a miniature, for requests that are made twice."""

    tolerance = 0.0, 0.0
    with_clients = False

    @property
    def settings(self) -> SumSettings:
        own = super().settings
        assert self.quantised is not None
        return replace(own, task=self.sum.integers(own.dimension, self.quantised.largest))
