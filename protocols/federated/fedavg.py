"""FedAvg: clients train on their own points, the server averages the models.

McMahan et al., Communication-efficient learning of deep networks from decentralized data, AISTATS 2017. Algorithm 1,
FederatedAveraging: the K clients are indexed by k; B is the local minibatch size, E is the number of local epochs, and
eta is the learning rate.

    Server executes:                                        ClientUpdate(k, w):    // run on client k
      initialize w_0                                          B <- (split P_k into batches of size B)
      for each round t = 1, 2, ... do                         for each local epoch i from 1 to E do
        m <- max(C K, 1)                                        for batch b in B do
        S_t <- (random set of m clients)                          w <- w - eta grad l(w; b)
        for each client k in S_t in parallel do               return w to server
          w_{t+1}^k <- ClientUpdate(k, w_t)
        w_{t+1} <- sum_k n_k/n w_{t+1}^k

| symbol | here |
| --- | --- |
| K, C | `TrainingSettings.clients`, `TrainingSettings.share` |
| B, E | `LocalUpdate.labeled_batch`, `LocalUpdate.epochs` |
| eta | `LocalUpdate.rate`, which may fall with the rounds |
| P_k | the client's points that have labels, or pseudo-labels where the method makes some |
| n_k | the points of an epoch with `TrainingSettings.by_points`, else 1 for all |
| n | the sum of n_k over the clients of S_t whose models are averaged |
| l | cross-entropy weighed by the confidence in each label, and the method's client terms |

This is FedAvg (labeled only) of the XCLP paper. Every other algorithm of federated training extends it by its `Method`:
pseudo-labels before ClientUpdate, client terms in grad l, server terms beside the average. Messages, waits and losses
are in `round`.
"""

from dataclasses import replace

from tacit.protocols.federated.method import Extra, Method, Options
from tacit.protocols.federated.round import Record, TrainingClient, TrainingRound, TrainingServer

__all__ = ["FedAvgClient", "FedAvgServer", "fedavg", "update"]


class FedAvgServer(TrainingServer):
    """The server: `model` is w_t, at first w_0, and `RoundsServer.main` runs the rounds t = 1, 2, ..."""

    def select_clients(self, number: int) -> tuple[str, ...]:
        # m <- max(C K, 1);  S_t <- (random set of m clients)
        members = self.draw(number)
        # for each client k in S_t in parallel do:  w_{t+1}^k <- ClientUpdate(k, w_t)
        self.send_model(members)
        return members

    async def run_round(self, number: int, began: float, members: tuple[str, ...]) -> Record:
        await self.help_label(number, members)  # before their updates, where the method has pseudo-labels
        with self.step("train.average"):
            # w_{t+1} <- sum_k n_k/n w_{t+1}^k
            averages = await self.average(members)
            self.model = await self.next_model(averages)
            await self.update_companions(averages)
        return self.record_of(number, began, members, averages)


class FedAvgClient(TrainingClient):
    """Client k: runs ClientUpdate(k, w) on its points P_k whenever the server calls it to a round."""

    async def take_part(self, call: TrainingRound) -> None:
        await self.unless_over(self.client_update(call))

    async def client_update(self, call: TrainingRound, due: float | None = None) -> None:
        """Run ClientUpdate(k, w), with w the model of `call`. For `due` see `TrainingClient.train`."""
        pseudo = await self.pseudo_labels(call.model)
        figures = await self.figures(call.model)  # of w on the points that it holds out, if the round adds some
        with self.step("train.update", entered=due is not None):
            # B <- (split P_k into batches of size B)
            points = self.usable(pseudo)
            # for each local epoch i from 1 to E do, for batch b in B do:  w <- w - eta grad l(w; b)
            trained = await self.train(call, points, due)
            update = await self.to_send(call.model, trained, self.weight(points))
        # return w to server, with n_k
        await self.send_update(replace(update, figures=figures))


def update() -> tuple[Extra, ...]:
    """The extras of FedAvg's update: none beside the models."""
    return ()


def fedavg(options: Options) -> Method:
    """FedAvg: training on labels only."""
    return Method()
