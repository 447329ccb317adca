"""FedAvg, then XCLP once: clients train a model on their labels, and in its features label new points by XCLP.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| train.* | those of `round` | | | rounds of federated averaging on labels alone |
| train.open | TrainingRound | server -> every client | P | after the last round: the model |
| predict.embed | | | | each client computes the features of all its points |
| setup.*, lsh.*, hamming.*, ... | those of `xclp` | | | XCLP among all clients, on these features |

P: the bytes of the model, each number in its own width. Points that are new or have no label take no part in the
training.

Paper: Scott, Yeo, Lampert (XCLP), Section 4.1, "finetuned": the preprocessing function h is the feature extractor of a
network after federated averaging; Appendix B.1, "linear": that of two linear layers.

Lost clients: in the rounds as `round` says; after them as `xclp` says. A client that comes back before the last
TrainingRound is sent takes part in all that follows, one that comes back later gets no labels. Where XCLP has too few
clients left it is aborted, and the model is all that the run has come to.

Security: what `round` and then `xclp` reveal.
"""

from dataclasses import dataclass, field

import numpy as np

from tacit.parties.learning import jobs
from tacit.protocols.federated import round as training
from tacit.protocols.federated.averaging import Record
from tacit.protocols.federated.fedavg import TrainingRound
from tacit.protocols.federated.round import TrainingClient, TrainingServer
from tacit.protocols.parts import Step
from tacit.protocols.rounds.rounds import NOT_AGAIN
from tacit.protocols.xclp import xclp

__all__ = ["EMBED", "PredictingClient", "PredictingServer", "PredictingSettings"]

EMBED = Step("client", "predict.embed", "compute the features of its points with the trained model")


@dataclass(frozen=True)
class PredictingSettings(training.TrainingSettings):
    """The settings of both stages. `prediction` are XCLP's; `rounds` is the number of training rounds."""

    prediction: xclp.Parameters = field(kw_only=True)

    @property
    def patience(self) -> float:
        return super().patience + (1 + self.prediction.waits) * self.prediction.deadline


class PredictingClient(xclp.LabeledClient, TrainingClient):
    """A client of both stages. `labels` is its result, None if it got none."""

    settings: PredictingSettings
    further = 1

    @classmethod
    def resting(cls, settings: training.TrainingSettings) -> None:
        return None

    def is_allowed(self, call: TrainingRound) -> bool:
        # The last round averages no models: it may begin with the model of a round that has.
        return self.round > self.settings.rounds or super().is_allowed(call)

    async def take_part(self, call: TrainingRound) -> None:
        settings, points = self.settings, self.shard.points
        if self.round <= settings.rounds:
            await super().take_part(call)
            return
        with self.step("predict.embed"):
            work = jobs.embed_work(settings.spec, len(points))
            features = await self.compute(
                work, jobs.embed_all, settings.spec, call.model, points, settings.update.device
            )
        await self.run_xclp(features.astype(np.float64), settings.prediction)


class PredictingServer(xclp.Recording, TrainingServer):
    """The server of both stages. Its last round, after training, is that of XCLP."""

    settings: PredictingSettings
    further = 1

    @property
    def parameters(self) -> xclp.Parameters:
        """The parameters of XCLP."""
        return self.settings.prediction

    def select_clients(self, number: int) -> tuple[str, ...]:
        if number <= self.settings.rounds:
            return super().select_clients(number)
        self.begin_record(number)
        self.broadcast(self.clients, TrainingRound(self.model, []))
        return self.clients

    def lost_in(self, number: int, began: float, called: tuple[str, ...]) -> Record:
        if number > self.settings.rounds:
            self.record, self.aborted = xclp.RoundRecord(number, began), NOT_AGAIN
        return super().lost_in(number, began, called)

    async def run_round(self, number: int, began: float, members: tuple[str, ...]) -> Record:
        if number <= self.settings.rounds:
            return await super().run_round(number, began, members)
        await self.hold_xclp(members, self.parameters)
        return Record(number, began, members)
