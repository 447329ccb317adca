"""Checks of [[fault]] tables and of [expect] for steps, parties and messages that do not exist.

The expansion of a scenario's [[fault]] tables, and the parties that they name.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tacit.protocols.declaration import Places
from tacit.protocols.parts import Step
from tacit.protocols.registry import PROTOCOLS
from tacit.protocols.rounds.rounds import ENROLL
from tacit.scenarios.schema.keys import similar, toml
from tacit.scenarios.schema.scenario import Scenario, ScenarioError
from tacit.sim.faults import Crash, Fault, Leave, PartyFault
from tacit.sim.triggers import Population

__all__ = [
    "check_expect", "check_fault_places", "check_party", "fault_cautions", "faults_of", "matching", "parties",
    "parties_of", "population_of", "steps_of", "vain_returns",
]  # fmt: skip


def check_fault_places(scenario: Scenario, places: Places) -> None:
    """Check that parties, steps and messages that faults name are among the `places`, and that `sim` accepts the
    faults."""
    if not scenario.fault:
        return
    known = _Known(places.steps, places.messages, parties(scenario.data.clients, places.helpers))
    for number, fault in enumerate(scenario.fault):
        for test in (_check_parties, _check_drawn, _check_steps, _check_message, _check_return, _check_generated):
            test(f"fault.{number}", fault, scenario, known)


def check_expect(scenario: Scenario, places: Places) -> None:
    """Check that parties and steps that [expect] names exist, and that its keys do not contradict each other."""
    known = list(dict.fromkeys(step.name for step in places.steps))
    expect, included = scenario.expect, {party for key, party, _ in scenario.expect.losses if key == "lost_includes"}
    for name in ("lost_at_most", "lost_includes"):
        if expect.lost is not None and getattr(expect, name) is not None:
            problem = "does not go with expect.lost, which says exactly who is lost; allowed: one of the two"
            raise ScenarioError("", f"expect.{name}", problem)
    if expect.lost_at_most is not None and expect.lost_at_most < len(included):
        problem = f"{expect.lost_at_most} is too small, for expect.lost_includes names {len(included)} parties"
        raise ScenarioError("", "expect.lost_at_most", f"{problem}; allowed: {len(included)} or more")
    for key, party, step in expect.losses:
        check_party(f"expect.{key}", party, scenario.data.clients, patterns=False)
        if step and step not in known:
            problem = f"{toml(step)} is not a step of {scenario.protocol.name}{similar(step, known)}"
            raise ScenarioError("", f"expect.{key}", f"{problem}; allowed: {', '.join(known)}")


def fault_cautions(scenario: Scenario) -> list[str]:
    """A line for each fault with a `round` after the last one, or a `back_after` without effect."""
    rounds, found = PROTOCOLS[scenario.protocol.name].rounds(scenario), []
    vain = vain_returns(scenario)
    for number, fault in enumerate(scenario.fault):
        round_number = fault.get("round")
        if 1 < rounds < (round_number or 1):
            found.append(f"fault.{number}.round = {round_number} is after the last round: the run has {rounds}")
        elif _empties(fault, rounds):
            assert isinstance(fault, Crash | Leave)
            gone = fault.share or (fault.count or 0) / scenario.data.clients
            left = (1 - gone) ** rounds
            which = f"share = {fault.share:g}" if fault.count is None else f"count = {fault.count}"
            problem = f"without back_after, {left:.1%} of the clients are left after {rounds} rounds"
            found.append(f"fault.{number}.{which} {problem}")
        elif number in vain:
            problem = f"has no effect: a party that returns takes part from the next round, and {vain[number]}"
            found.append(f"fault.{number}.back_after = {toml(fault.get('back_after'))} {problem}")
    return found


def _empties(fault: Fault, rounds: int) -> bool:
    """True for clients that are drawn to go down in each of several rounds, and never return."""
    if not isinstance(fault, Crash | Leave) or (isinstance(fault, Crash) and fault.back_after is not None):
        return False
    return rounds > 1 and fault.is_drawn and fault.round is None


def vain_returns(scenario: Scenario) -> dict[int, str]:
    """The numbers of the faults whose `back_after` has no effect, and why.

    It has none if no round is left in which the party could take part. This is known for faults at a step of a round;
    a party that goes down during enrolment may be back for the first round.
    """
    rounds, found = PROTOCOLS[scenario.protocol.name].rounds(scenario), dict[int, str]()
    for number, fault in enumerate(scenario.fault):
        if not isinstance(fault, PartyFault) or fault.get("back_after") is None:
            continue
        step = fault.start or fault.after
        if step is None or step in {step.name for step in ENROLL}:
            continue
        if fault.party == "server":  # a server that returns has an effect: clients wait for it
            continue
        if rounds == 1:
            found[number] = "there is only one round"
        elif (fault.round or fault.occurrence or 1) >= rounds and (fault.round or fault.probability is None):
            found[number] = f"the fault fires in the last of {rounds} rounds, or never"
    return found


def check_party(key: str, party: str, clients: int, patterns: bool = True, helpers: Sequence[str] = ()) -> None:
    """Raise ScenarioError at `key` if `party` is neither a party's name nor, with `patterns`, a pattern that matches
    one."""
    known = parties(clients, helpers)
    if not (matching(party, known) if patterns else party in known):
        problem = "matches no party" if patterns and set(party) & set("*?[") else "is not a party"
        allowed = f"{', '.join(['server', *helpers])}, client/0 to {known[-1]}"
        raise ScenarioError("", key, f"{toml(party)} {problem}; allowed: {allowed}{similar(party, known)}")


# --- checks that need the number of clients, which the data may determine


@dataclass(frozen=True)
class _Known:
    """The names that faults may have: steps and messages of a run with these choices, and its `parties`."""

    steps: Sequence[Step]
    messages: Sequence[str]
    parties: list[str]

    def roles(self, fault: Fault) -> list[str]:
        """The roles of the parties that the fault may strike."""
        struck = matching(fault.get("party") or "*", self.parties)
        return list(dict.fromkeys(party.partition("/")[0] for party in struck))


def _check_parties(key: str, fault: Fault, scenario: Scenario, known: _Known) -> None:
    ends = []
    for side in ("party", "peer"):
        if (pattern := fault.get(side)) is not None:
            helpers = known.parties[1 : -scenario.data.clients]
            check_party(f"{key}.{side}", pattern, scenario.data.clients, helpers=helpers)
            ends.append(matching(pattern, known.parties))
    if len(ends) == 2 and ends[0] == ends[1] and len(ends[0]) == 1:
        problem = f"{toml(fault.get('peer'))} is the party itself; allowed: another one, or a pattern"
        raise ScenarioError("", f"{key}.peer", problem)


def _check_drawn(key: str, fault: Fault, scenario: Scenario, known: _Known) -> None:
    """Check that faults with a share or a count strike clients, of which there are enough."""
    if not (isinstance(fault, PartyFault) and fault.is_drawn):
        return
    if others := [role for role in known.roles(fault) if role != "client"]:
        problem = f"{toml(fault.party)} means the {others[0]}, and only clients are drawn in each round"
        raise ScenarioError("", f"{key}.party", f"{problem}; allowed: clients, as client/*")
    names = matching(fault.party, known.parties)
    if (fault.count or 0) > len(names):
        problem = f"{fault.count} is more than the {len(names)} clients"
        raise ScenarioError("", f"{key}.count", f"{problem}; allowed: 1 to {len(names)}, or a share of 0 to 1")


def _check_steps(key: str, fault: Fault, scenario: Scenario, known: _Known) -> None:
    protocol, roles = scenario.protocol, known.roles(fault)
    steps = list(dict.fromkeys(step.name for step in known.steps if step.role in roles))
    named = [(trigger, fault.get(trigger)) for trigger in ("at", "before", "after")]
    drawn = fault.steps if isinstance(fault, PartyFault) else None
    for trigger, step in [*named, *(("step", step) for step in drawn or ())]:
        if step is None or step in steps:
            continue
        allowed = f"; allowed: {', '.join(steps)}"
        if step in {step.name for step in PROTOCOLS[protocol.name].steps if step.role in roles}:
            problem = f"{toml(step)} is not a step with {_choices(scenario)}"
        else:
            problem = f"{toml(step)} is not a step of a {' or '.join(roles)} in {protocol.name}{similar(step, steps)}"
        raise ScenarioError("", f"{key}.{trigger}", problem + allowed)


def _check_message(key: str, fault: Fault, scenario: Scenario, known: _Known) -> None:
    message = fault.get("message")
    if message and message not in known.messages:
        name, choices = scenario.protocol.name, _choices(scenario)
        problem = f"{toml(message)} is not a message of {name} with {choices}{similar(message, known.messages)}"
        raise ScenarioError("", f"{key}.message", f"{problem}; allowed: {', '.join(known.messages)}")


def _choices(scenario: Scenario) -> str:
    """The protocol's choices that add steps or messages, in words."""
    choices = PROTOCOLS[scenario.protocol.name].choices(scenario)
    return ", ".join(f"{key.partition('.')[2]} = {toml(value)}" for key, value in choices.items()) or "these keys"


def _check_return(key: str, fault: Fault, scenario: Scenario, known: _Known) -> None:
    if fault.get("back_after") is not None and "server" in matching(fault.get("party"), ("server",)):
        _check_server_returns(f"{key}.back_after", "no back_after", scenario)


def _check_server_returns(key: str, allowed: str, scenario: Scenario) -> None:
    name = scenario.protocol.name
    if not PROTOCOLS[name].server_returns:
        problem = f"the server of {name} cannot come back, which does not say what one does then"
        raise ScenarioError("", key, f"{problem}; allowed: {allowed}")


def _check_generated(key: str, fault: Fault, scenario: Scenario, known: _Known) -> None:
    place = key if fault.get("file") is None else f"{key}.file"
    try:
        made = faults_of(fault, scenario.data.clients)
    except (OSError, ValueError) as error:
        raise ScenarioError("", place, str(error)) from None
    for party in dict.fromkeys(one.get("party") for one in made if one is not fault):
        if matching(party, ("server",)):
            _check_server_returns(place, "clients", scenario)


def faults_of(fault: Fault, clients: int) -> tuple[Fault, ...]:
    """The faults that `fault` expands to with `clients` clients: one, or a crash for each down time of a trace.

    Raises ValueError in one line.
    """
    return fault.stands_for(parties(clients))


def parties(clients: int, helpers: Iterable[str] = ()) -> list[str]:
    """The names of all parties in order: the server, `helpers` and clients."""
    return ["server", *helpers, *(f"client/{number}" for number in range(clients))]


def parties_of(scenario: Scenario) -> list[str]:
    """The names of all parties of a run of `scenario`."""
    return parties(scenario.data.clients, PROTOCOLS[scenario.protocol.name].helpers(scenario))


def steps_of(scenario: Scenario, roles: Iterable[str] = ("client", "server", "helper")) -> list[str]:
    """The steps that parties of these roles take in a run with these choices."""
    steps = PROTOCOLS[scenario.protocol.name].steps_with(scenario)
    return list(dict.fromkeys(step.name for step in steps if step.role in roles))


def population_of(scenario: Scenario) -> Population:
    """The clients of a run of `scenario`, and the steps that they take in rounds, without enrolment."""
    enrolment = {step.name for step in ENROLL}
    steps = [step for step in steps_of(scenario, ("client",)) if step not in enrolment]
    return Population(parties(scenario.data.clients)[1:], steps)


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """The elements of `names` that match a name or pattern."""
    return [name for name in names if fnmatchcase(name, pattern)]
