"""Random dropouts: the syntax of the option --loss of `tacit predict`, and the faults that it stands for.

A dropout is written ``SHARE[@STEP][,party=PATTERN][,back_after=DURATION]``. SHARE is the probability for each client,
such as ``10%`` or ``0.1``, or a number of clients to draw, such as ``3``. It applies in each round to the clients that
take part in it. They crash before the STEP; without a STEP, before a step that is drawn from those of the round. They
take part again from the next round on, or later with a DURATION, or never with ``back_after=never``.

It stands for a [[fault]] with a `share` or a `count`, as a scenario may have it.
"""

import fnmatch
import re
from collections.abc import Sequence

from msgspec import Struct, structs

from tacit.scenarios.files.fault_checks import check_party, matching, parties, steps_of
from tacit.scenarios.schema.keys import similar, toml
from tacit.scenarios.schema.option_names import called
from tacit.scenarios.schema.scenario import Scenario, ScenarioError
from tacit.sim.faults import ANY, Crash
from tacit.sim.units import duration

__all__ = ["Dropout", "dropouts", "with_dropouts"]

_ALLOWED = "SHARE[@STEP][,party=PATTERN][,back_after=DURATION], such as 10%@rowsums.mask, 0.1 or 3,back_after=60s"
_NEVER = "never"
_AT_ONCE = "0s"


class Dropout(Struct, frozen=True):
    """Random crashes of clients in each round: the `text` as written, and the `fault` that it stands for.

    None if it strikes nobody.
    """

    text: str
    fault: Crash | None

    def words(self) -> str:
        """The dropout as a phrase."""
        if self.fault is None:
            return "nobody"
        count, party = self.fault.count, self.fault.party
        who = "each client" if party == "client/*" else f"each of {party}"
        if count is not None:
            among = ("client" if count == 1 else "clients") + ("" if party == "client/*" else f" of {party}")
            who = f"{count} {among}, drawn in each round,"
        chance = "" if self.fault.share is None else f" in each round with a chance of {self.fault.share:.4g}"
        where = "before any step of it" if self.fault.steps is None else f"before {' or '.join(self.fault.steps)}"
        back = self.fault.back_after
        until = "for good" if back is None else "until the next round" if back == _AT_ONCE else f"back after {back}"
        return f"{who} crash{'es' if count in (None, 1) else ''}{chance} {where}, {until}"


def dropouts(texts: Sequence[str], scenario: Scenario) -> list[Dropout]:
    """Parse dropouts for a run of `scenario` from `texts`. Raises ScenarioError."""
    return [_dropout(text, scenario) for text in texts]


def with_dropouts(scenario: Scenario, found: Sequence[Dropout]) -> Scenario:
    """Return the scenario with the faults of the dropouts after its own ones."""
    faults = [one.fault for one in found if one.fault is not None]
    return structs.replace(scenario, fault=(*scenario.fault, *faults)) if faults else scenario


def _dropout(text: str, scenario: Scenario) -> Dropout:
    where = called("--loss", text)
    head, *others = (part.strip() for part in text.split(","))
    amount, _, step = (part.strip() for part in head.partition("@"))
    given = dict(part.partition("=")[::2] for part in others)
    if unknown := [part for part in others if part.partition("=")[0] not in ("party", "back_after")]:
        raise ScenarioError(where, "", f"{unknown[0]!r} is not known; allowed: {_ALLOWED}")
    party = given.get("party", "client/*")
    try:
        check_party("party", party, scenario.data.clients)
    except ScenarioError as error:
        raise ScenarioError(where, "", error.problem) from None
    if fnmatch.fnmatchcase("server", party):
        raise ScenarioError(where, "", f"party = {toml(party)} means the server; allowed: clients, as client/1*")
    back_after = given.get("back_after", _AT_ONCE)
    try:
        if back_after != _NEVER:
            duration(back_after)
    except ValueError as error:
        raise ScenarioError(where, "", f"back_after: {error}, or {_NEVER}") from None
    known = steps_of(scenario, ("client",))
    if step and step not in known:
        name = scenario.protocol.name
        problem = f"{toml(step)} is not a step of a client in {name} with these keys{similar(step, known)}"
        raise ScenarioError(where, "", f"{problem}; allowed: {', '.join(known)}")
    chance, count = _amount(amount, where, len(matching(party, parties(scenario.data.clients))))
    if not chance and not count:
        return Dropout(text, None)
    back = None if back_after == _NEVER else back_after
    return Dropout(text, Crash(party, share=chance, count=count, step=step or ANY, back_after=back))


def _amount(text: str, where: str, most: int) -> tuple[float | None, int | None]:
    """Parse the probability for each client, or the number of clients, at most `most`. Raises ScenarioError."""
    if re.fullmatch(r"[0-9]+", text):
        if int(text) > most:
            raise ScenarioError(
                where, "", f"{text} is more than the {most} clients; allowed: 0 to {most}, or 0% to 100%"
            )
        return None, int(text)
    if not re.fullmatch(r"[0-9]*\.?[0-9]+(e-?[0-9]+)?\s*%?", text):
        raise ScenarioError(where, "", f"{text!r} is no share of the clients; allowed: {_ALLOWED}")
    chance = float(text.rstrip("% ")) / (100 if text.endswith("%") else 1)
    if not 0 <= chance <= 1:
        raise ScenarioError(where, "", f"{text} is no chance; allowed: 0% to 100%, or a whole number of clients")
    return chance, None
