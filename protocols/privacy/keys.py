"""The table [privacy] of a scenario: the budget of differentially private protocols."""

from typing import Annotated, Literal

from msgspec import Meta

from tacit.sim.table import Keys, about

__all__ = ["Privacy"]


class Privacy(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[privacy]: epsilon and delta, and the parameters of the noise."""

    epsilon: Annotated[
        Annotated[float, Meta(gt=0)] | Literal["none"],
        about(
            "Epsilon: for `dp-fedct` per round with delta = 0, as in the FedCT paper; for all others per run, with "
            "`delta`. `none`: no noise."
        ),
    ] = 1.0
    delta: Annotated[
        float,
        about("Delta. `dp-fedct` uses it only for the epsilon of all rounds together.", gt=0, lt=1, unit="probability"),
    ] = 1e-5
    noise: Annotated[
        Annotated[float, Meta(ge=0)] | Literal["skellam"] | None,
        about(
            "Standard deviation of the noise. Replaces `epsilon`, which then follows from it. The unit is votes for "
            "`dp-pate`; for `dp-fedavg` it is `clip`, in the sum of a round's models. `skellam`, for `dp-fedavg` with "
            "`noise_at` = `clients`: clients send changes instead of models, with Skellam noise of the size that "
            "`epsilon` needs. Noise for clients that may be lost is removed again if they are not lost."
        ),
    ] = None
    tolerated: Annotated[
        float,
        about(
            "With `noise` = `skellam`: share of the clients called to a round, rounded down, that may be lost after "
            "they agreed to a sum. The noise of the others is then as large as `epsilon` needs. A sum with more "
            "losses is not opened. More than 0 clients need `protocol.identity` = `signed`, or `components` = `none`.",
            ge=0,
            lt=1,
        ),
    ] = 0.1
    excess_losses: Annotated[
        Literal["refuse", "charge", "end"],
        about(
            "With `noise` = `skellam`: what happens if more clients are lost than `tolerated`. `refuse`: the sum is "
            "not opened. `charge`: it is opened, with less noise than `epsilon` needs, so that the run spends more "
            "than `epsilon`. `end`: the same, but the run ends before a round that would spend more than `epsilon`, "
            "and a sum that would is not opened. `charge` and `end` need `protocol.identity` = `signed`."
        ),
    ] = "refuse"
    components: Annotated[
        Literal["all", "log2", "none"],
        about(
            "With `noise` = `skellam`: parts of the noise for lost clients. `all`: one for each tolerated loss, and "
            "exactly the noise that is needed is left. `log2`: about the logarithm of that number, and up to a few "
            "percent more is left. `none`: nothing is removed, so each client's noise is made for the largest "
            "tolerated number of losses; for `training.averaging` = `secagg+`, and for clients without signatures."
        ),
    ] = "all"
    votes_noise: Annotated[
        Literal["gaussian", "laplace"],
        about(
            "Noise on the votes: `gaussian`, as in the FedCT paper; or `laplace`, as in its authors' code, which uses "
            "the scale 1/2 (`noise` = 0.5 sets this scale). A single label is then (2 / `noise`)-differentially "
            "private."
        ),
    ] = "gaussian"
    votes_epsilon: Annotated[
        Annotated[float, Meta(gt=0)] | Literal["none"],
        about(
            "With `cotraining.votes` = `prio3`: epsilon of the counts of all rounds together, with `delta`, for the "
            "replaced data of one client. Each aggregator adds Skellam noise to its share of the counts, so the "
            "guarantee also holds against one of the two. `none`: no noise."
        ),
    ] = "none"
    sensitivity: Annotated[
        int | str,
        about(
            "Number of bits of a client's one-hot labels that may change with one element of its data; one label "
            "changes two bits. A number; `worst-case`, all labels; `proposition-2:E`, the FedCT paper's bound for a "
            "learner of stability E, with probability 1 - `delta`; or `neighbours:N`, the most bits that changed over "
            "N data sets with one element left out. The last one is an estimate and guarantees nothing.",
            unit="bits",
        ),
    ] = "worst-case"
    clip: Annotated[
        float,
        about(
            "S: largest L2 norm of a client's model change in a round. `private-cells`: largest L2 norm of a point; "
            "longer points are clipped to it.",
            gt=0,
            unit="length",
        ),
    ] = 1.0
    hash_epsilon: Annotated[
        Annotated[float, Meta(ge=0.01)] | Literal["none"],
        about(
            "XCLP: its owner flips each hash bit with probability 1 / (1 + e^epsilon), once per point and set of "
            "planes. The server corrects distances for the flips. The run prints the resulting epsilon between points "
            "a few degrees apart, which is large. `none`: no flips."
        ),
    ] = "none"
    label_epsilon: Annotated[
        Annotated[float, Meta(gt=0)] | Literal["none"],
        about(
            "The client randomises each of its labels once by k-ary randomised response, with this epsilon and delta "
            "= 0. The randomised label replaces the true one everywhere and in all rounds. `none`: no randomisation."
        ),
    ] = "none"
    noise_at: Annotated[
        Literal["server", "clients"],
        about(
            "Party that adds the noise: `server`, which must then be trusted; or `clients`, which each add a part, so "
            "that a secure sum (`training.averaging`) shows the server only noisy averages."
        ),
    ] = "server"

    @property
    def deviation(self) -> float | None:
        """The standard deviation of the noise, if `noise` states one."""
        return None if isinstance(self.noise, str) else self.noise
