"""The table [attack]: what a curious server is after."""

from typing import Annotated, Literal

from msgspec import Meta

from tacit.sim.table import Keys

__all__ = ["Attack"]


class Attack(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[attack]: whether the messages show which points a client was trained on."""

    kind: Annotated[
        Literal["", "membership"],
        Meta(
            description="`membership`: inference of membership with shadow models (Shokri et al. 2017) from the "
            "messages, whose contents are then kept in `run.sqlite`, and `vulnerability` in `result.json`. Half of the "
            "training points are then the attacker's own. Empty: none, and no contents are kept.",
        ),
    ] = ""
    epochs: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="K: the number of last rounds whose models are used; with predictions, how often the last "
            "round is opened again, with the points asked about in place of the public ones; with secure votes the "
            "number of last rounds in which these points are beside them. Without it, as in the "
            "FedCT paper, 500 (or all) for models, of which each is kept, and 1 for predictions.",
            extra={"unit": "rounds"},
        ),
    ] = None
    points: Annotated[
        int,
        Meta(
            ge=2,
            description="Points asked about: at most this number of each client's training data, and as many that "
            "nobody has.",
            extra={"unit": "points"},
        ),
    ] = 500
    shadows: Annotated[
        int,
        Meta(
            ge=1,
            description="How often the attacker runs the whole scenario with data of its own; each time gives as many "
            "shadow models as there are clients.",
        ),
    ] = 1
