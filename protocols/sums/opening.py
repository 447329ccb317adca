"""Opening a sum whose masks were dealt in shares: the server's end of `dealing`, where the messages are listed.

It announces U3, with `identities` forwards the signatures on it (`consistency`), and combines the shares that U3
reveals.
"""

from contextlib import suppress

from tacit.parties.server import Server
from tacit.protocols.crypto import share_errors
from tacit.protocols.outcome import Abort, Reason
from tacit.protocols.sums import consistency, uncovering
from tacit.protocols.sums.dealing import SHARE, Revealed, Survivors
from tacit.protocols.sums.uncovering import Announced, Uncovered, signed_keys
from tacit.protocols.values import BadValues, values_of

__all__ = ["uncover"]


async def uncover(
    me: Server, attempt: Announced, survivors: tuple[str, ...], purpose: str, deadline: float
) -> Uncovered:
    """Announce U3 = `survivors` and compute the masks that are left in their values.

    `purpose`: that of the pair masks. It continues as soon as t shares of each secret have arrived, or all have
    answered. If keys are signed, shares are requested once `attempt.signers` of U3 have signed it.
    """
    t, names = attempt.threshold, attempt.names
    if problem := attempt.too_few(survivors):
        return Uncovered({}, problem=problem)
    _name_survivors(me, attempt, survivors)
    if attempt.identities is not None:
        least = attempt.signers
        silent = await consistency.witness(me, attempt.identities, names, survivors, attempt.titles, least, deadline)
        if silent:
            count = len(survivors) - len(silent)
            problem = Reason(
                "{count} of {clients} clients have signed who is left; {needed} are needed",
                count=count, clients=len(survivors), needed=least,
            )  # fmt: skip
            return Uncovered({}, dict.fromkeys(silent, "it did not sign who is left"), problem)
    left = frozenset(survivors)
    gone = [name for name in names if name not in left]
    work = {"x25519.keygen": len(gone), "x25519.agree": uncovering.agreements(attempt, left)}
    held: uncovering.Held = {name: {} for name in names}
    short = set(names)  # whose secrets are still short of shares
    answered: set[str] = set()
    secrets: uncovering.Secrets | None = None
    doubtful = False  # shares do not fit together: the more there are, the more wrong ones can be found
    with me.incoming((Revealed,), survivors, deadline=deadline) as arrivals:
        async for source, message in arrivals:
            arrivals.leave_out(source)
            with suppress(BadValues), values_of(me, source, "Revealed"):
                dealers = attempt.holders(source)  # who deal with it: all are each other's holders
                for name, share in zip(dealers, _shares(message, len(dealers)), strict=True):
                    if share:
                        held[name][attempt.place(name, source)] = share
                        if len(held[name]) == t:
                            short.discard(name)
                answered.add(source)
            everybody = len(answered) == len(survivors)
            if not doubtful and (everybody or not short):
                if short:
                    break
                work |= uncovering.combine_work(attempt, held)
                secrets = await me.compute(work, uncovering.combine, attempt, survivors, held)
                doubtful = secrets is None
            if everybody or secrets is not None:
                break
    if short:
        lost = {name: "it revealed no shares" for name in survivors if name not in answered}
        problem = Reason(
            "{count} of {clients} clients answered to Survivors; {needed} are needed",
            count=len(answered), clients=len(survivors), needed=t,
        )  # fmt: skip
        if attempt.graph is not None or len(answered) >= t:  # it is not the number of answers, but what they hold
            few = [name for name in names if name in short]
            # Where fewer than t of those who deal with a client have answered, they are to blame, and not the client.
            heard = [name for name in few if name in left and len(answered.intersection(attempt.holders(name))) >= t]
            lost |= dict.fromkeys(heard, "too few have its shares")
            problem = Reason("fewer than {needed} clients have shares of {clients}", needed=t, clients=few)
        return Uncovered({}, lost, problem)
    if secrets is None:
        secrets = await _without_wrong_shares(me, attempt, survivors, held, work)
    return Uncovered(signed_keys(attempt, survivors, secrets, purpose, me.world.run_id, me.round))


def _name_survivors(me: Server, attempt: Announced, survivors: tuple[str, ...]) -> None:
    """Announce U3 to its members; a client that knows only its neighbours gets those of them that are in U3."""
    if attempt.graph is None or not attempt.local:
        me.broadcast(survivors, Survivors(list(survivors)))
        return
    left = frozenset(survivors)
    for name in survivors:
        me.send(name, Survivors([one for one in attempt.graph.around(name) if one in left]))


def _shares(message: Revealed, count: int) -> list[bytes]:
    if len(message.shares) != count or any(len(share) not in (0, SHARE) for share in message.shares):
        raise ValueError(f"{count} shares of {SHARE} bytes, or none, were due")
    return message.shares


async def _without_wrong_shares(
    me: Server, attempt: Announced, survivors: tuple[str, ...], held: uncovering.Held, work: dict[str, int]
) -> uncovering.Secrets:
    """The secrets from those shares that fit together; the trace names the others. Raises Abort."""
    work = {name: count * len(attempt.holders(attempt.names[0])) for name, count in work.items()}  # each share is tried
    found = await me.compute(work, uncovering.correct, attempt, survivors, held)
    for problem in share_errors.blamed(found.wrong):
        me.world.note("drop", me.name, step=me.step_name, note=problem)
    if found.hopeless:
        raise Abort("the sum cannot be unmasked: {why}", why=Reason.joined(found.hopeless))
    return found.secrets
