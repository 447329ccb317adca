"""Random dropouts: the syntax of the option --loss of `tacit predict`, and the faults that it makes in a run.

A dropout is written ``SHARE[@STEP][,party=PATTERN][,back_after=DURATION]``. SHARE is the probability for each client,
such as ``10%`` or ``0.1``, or a number of clients to draw, such as ``3``. It applies in each round to the clients that
take part in it. They crash before the STEP; without a STEP, before a step that is drawn from those of the round.
"""

import fnmatch
import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from tacit.protocols.rounds.rounds import ENROLL
from tacit.scenarios.files.fault_checks import check_party, steps_of
from tacit.scenarios.schema.keys import similar, toml
from tacit.scenarios.schema.option_names import called
from tacit.scenarios.schema.scenario import Scenario, ScenarioError
from tacit.sim.faults import Crash
from tacit.sim.streams import generator
from tacit.sim.units import duration

__all__ = ["Dropout", "drawn", "dropouts"]

_ALLOWED = "SHARE[@STEP][,party=PATTERN][,back_after=DURATION], such as 10%@rowsums.mask, 0.1 or 3,back_after=60s"
_ENROLMENT = frozenset(step.name for step in ENROLL)


class Dropout(Struct, frozen=True):
    """Random crashes of clients in each round: each with probability `chance`, or a `count` of drawn clients.

    `step`: the step before which they crash, "" for any step of the round. `back_after`: the duration after which they
    return; None: they do not return.
    """

    text: str
    chance: float | None = None
    count: int | None = None
    step: str = ""
    party: str = "client/*"
    back_after: str | None = None

    def words(self) -> str:
        """The dropout as a phrase."""
        who = "each client" if self.party == "client/*" else f"each of {self.party}"
        if self.chance is None:
            among = "client" if self.count == 1 else "clients"
            among += "" if self.party == "client/*" else f" of {self.party}"
            who = f"{self.count} {among}, drawn in each round,"
        chance = "" if self.chance is None else f" in each round with a chance of {self.chance:.4g}"
        one = self.chance is not None or self.count == 1
        where = f"before {self.step}" if self.step else "before any step of it"
        back = f"back after {self.back_after}" if self.back_after else "for good"
        return f"{who} crash{'es' if one else ''}{chance} {where}, {back}"


def dropouts(texts: Sequence[str], scenario: Scenario) -> list[Dropout]:
    """Parse dropouts for a run of `scenario` from `texts`. Raises ScenarioError."""
    return [_dropout(text, scenario) for text in texts]


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
    back_after = given.get("back_after")
    try:
        if back_after is not None:
            duration(back_after)
    except ValueError as error:
        raise ScenarioError(where, "", f"back_after: {error}") from None
    known = steps_of(scenario, ("client",))
    if step and step not in known:
        name = scenario.protocol.name
        problem = f"{toml(step)} is not a step of a client in {name} with these keys{similar(step, known)}"
        raise ScenarioError(where, "", f"{problem}; allowed: {', '.join(known)}")
    chance, count = _amount(amount, where, len(_meant(party, scenario.data.clients)))
    return Dropout(text, chance, count, step, party, back_after)


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


def _meant(party: str, clients: int) -> list[str]:
    names = [f"client/{number}" for number in range(clients)]
    return names if party == "client/*" else fnmatch.filter(names, party)


def drawn(found: Sequence[Dropout], scenario: Scenario, steps: Mapping[int, Sequence[str]]) -> tuple[Crash, ...]:
    """The crashes of one run, drawn by the scenario's seed.

    `steps`: the steps that clients take in a run without losses, by the number of the round.
    """
    crashes: list[Crash] = []
    for number, one in enumerate(found):
        stream = generator(scenario.seed, "dropout", number)
        names = _meant(one.party, scenario.data.clients)
        gone: set[str] = set()
        for round_number, taken in sorted(steps.items()):
            any_of = [step for step in taken if step not in _ENROLMENT]
            chances = stream.random(len(names))
            places = stream.random(len(names))
            if one.count is None:
                struck = [place for place in range(len(names)) if chances[place] < (one.chance or 0)]
            else:
                struck = sorted(range(len(names)), key=chances.__getitem__)[: one.count]
            for place in struck:
                name, step = names[place], one.step
                if not step and any_of:
                    step = any_of[int(places[place] * len(any_of))]
                if name in gone or step not in taken:
                    continue
                crashes.append(Crash(party=name, at=step, round=round_number, back_after=one.back_after))
                if one.back_after is None:
                    gone.add(name)
    return tuple(crashes)
