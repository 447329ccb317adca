"""The tables [[fault]] and [expect] of a scenario: what goes wrong in a run, and the expected outcome."""

from typing import Annotated, Literal

from msgspec import Meta

from tacit.sim.table import Keys
from tacit.sim.units import DURATION, Duration

__all__ = ["Expect", "Fault"]


class Fault(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[[fault]]: what goes wrong, and when. Which keys go with which kind: `tacit.scenarios.files.faults`."""

    kind: Annotated[
        Literal[
            "crash", "power", "leave", "pause", "slow", "partition", "hold",
            "lose", "duplicate", "delay", "corrupt", "availability",
        ],
        Meta(
            description="`crash`: the party stops and forgets all but its disk; `power`: so does its machine, which "
            "closes no connection (`protocol.presence`); `leave`: it goes for good, what it has sent still goes out; "
            "`pause`: it freezes; `slow`: it is a straggler; `partition`: nothing gets through; `hold`: messages wait; "
            "`lose`, `duplicate`, `delay`, `corrupt`: single messages; `availability`: crashes from a trace."
        ),
    ] = "crash"  # fmt: skip
    party: Annotated[
        str,
        Meta(
            description="`server`, `client/0`, `client/1`, ..., or a pattern such as `client/*`; of `lose`, "
            "`duplicate`, `delay`, `corrupt`: the sender, anybody by default; else needed, but for `availability`."
        ),
    ] = ""
    peer: Annotated[
        str, Meta(description="A pattern for the other side of a `partition` or `hold`, or a message's receiver.")
    ] = "*"
    at: Annotated[str | None, Meta(description="The step before whose first action it happens.")] = None
    before: Annotated[str | None, Meta(description="The same as `at`.")] = None
    after: Annotated[str | None, Meta(description="The step after whose last action it happens.")] = None
    time: Annotated[
        Duration | None,
        Meta(description="When it happens, in virtual time; of messages: from then on.", extra=DURATION),
    ] = None
    message: Annotated[
        str,
        Meta(
            description="It happens as the party is about to send a message of this type; of `lose`, `duplicate`, "
            "`delay`, `corrupt`: the type that is struck, any by default. `tacit bytes RUN` shows the types."
        ),
    ] = ""
    occurrence: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="At which time the party comes to the step or message, 1 by default; or which message."),
    ] = None
    round: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="Only in this round, counted from 1, of the party that takes the step or sends the message; "
            "`occurrence` then counts within the round. Enrolment belongs to round 1.",
        ),
    ] = None
    probability: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | None,
        Meta(
            description="Chance that it strikes each time, instead of `occurrence`.",
            extra={"unit": "probability"},
        ),
    ] = None
    back_after: Annotated[
        Duration | None,
        Meta(
            description="`crash`, `power`: how long until the party comes back, to take part from the next round on. "
            "A server goes on with the next round; a run ends that has one round, or lost its server in one with a "
            "secure sum.",
            extra=DURATION,
        ),
    ] = None
    lasts: Annotated[
        Duration | None, Meta(description="How long it goes on; without it, to the end.", extra=DURATION)
    ] = None
    factor: Annotated[
        Annotated[float, Meta(ge=1)] | None,
        Meta(
            description="`slow`: how many times as long its computing and its access to the network take. If it "
            "strikes again while it goes on, the party gets no slower, but `lasts` begins again; the factors of "
            "different faults multiply.",
            extra={"unit": "factor"},
        ),
    ] = None
    by: Annotated[Duration | None, Meta(description="`delay`: how much later.", extra=DURATION)] = None
    one_way: Annotated[bool, Meta(description="`partition`, `hold`: only what party sends to peer.")] = False
    file: Annotated[
        str,
        Meta(
            description="`availability`: a CSV with the columns party (or a pattern), up, down (seconds), relative to "
            "the scenario file.",
            extra={"unit": "file"},
        ),
    ] = ""


class Expect(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[expect]: what makes the file a test; only the keys that are given are compared.

    Whatever it holds, every fault must come, but for those with a probability.
    """

    outcome: Annotated[
        Literal["completed", "aborted", "failed"] | None,
        Meta(description="How the run must end; `failed`: every client is lost, or none gets labels."),
    ] = None
    reason: Annotated[str | None, Meta(description="Text that the reason of the outcome must contain.")] = None
    equals_plaintext: Annotated[
        bool | None, Meta(description="True demands that every round equals the oracle in plain numpy.")
    ] = None
    lost: Annotated[
        tuple[str, ...] | None,
        Meta(
            description="Exactly the parties that must be lost, each in any round: `client/3`, or, with the step at "
            "which, `client/3 at hamming.evaluate`."
        ),
    ] = None

    lost_at_most: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(
            description="How many parties may be lost at most, in all rounds together. In place of `lost`.",
            extra={"unit": "parties"},
        ),
    ] = None
    lost_includes: Annotated[
        tuple[str, ...] | None,
        Meta(description="Parties that must be lost, written as in `lost`; others may be, too. In place of `lost`."),
    ] = None

    @property
    def losses(self) -> tuple[tuple[str, str, str], ...]:
        """Key, party and step of each entry in `lost` and `lost_includes`; the step is "" where none is given."""
        entries = [(key, entry) for key in ("lost", "lost_includes") for entry in getattr(self, key) or ()]
        return tuple((key, *entry.partition(" at ")[::2]) for key, entry in entries)
