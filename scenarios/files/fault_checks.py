"""Checks of [[fault]] tables: keys of another kind, or steps, parties and messages that are not there."""

from collections.abc import Callable, Iterable

from tacit.protocols.registry import PROTOCOLS
from tacit.protocols.rounds.rounds import ENROLL
from tacit.scenarios.files.faults import DURATIONS, KINDS, faults_of, given, matching, parties, unfit
from tacit.scenarios.schema.keys import similar, toml
from tacit.scenarios.schema.scenario import Fault, Scenario, ScenarioError
from tacit.sim.units import duration

__all__ = [
    "check_fault_keys",
    "check_fault_places",
    "check_party",
    "fault_cautions",
    "messages_of",
    "read_text",
    "steps_of",
]


def steps_of(scenario: Scenario, roles: Iterable[str] = ("client", "server")) -> list[str]:
    """The steps that parties of these roles take in a run with these choices."""
    steps = PROTOCOLS[scenario.protocol.name].steps_with(scenario)
    return list(dict.fromkeys(step.name for step in steps if step.role in roles))


def messages_of(scenario: Scenario) -> tuple[str, ...]:
    """The types of messages that may be sent in a run with these choices."""
    return PROTOCOLS[scenario.protocol.name].messages_with(scenario)


def check_fault_keys(scenario: Scenario) -> None:
    """Check that each fault's keys go together, and can be read."""
    for number, fault in enumerate(scenario.fault):
        for test in (_check_kind, _check_when, _check_durations):
            test(f"fault[{number}]", fault)


def check_fault_places(scenario: Scenario) -> None:
    """Check that parties, steps and messages that faults name exist, and `sim` takes the faults as they are."""
    for number, fault in enumerate(scenario.fault):
        for test in (_check_parties, _check_steps, _check_message, _check_return, _check_made):
            test(f"fault[{number}]", fault, scenario)


def fault_cautions(scenario: Scenario) -> list[str]:
    """One line for each `round` after the last one, and for each `back_after` that can change nothing.

    A `back_after` changes nothing if no round is left that the party could take part in. That is known of faults at a
    step of a round; a party that falls before the first round may be back for it.
    """
    rounds, found = PROTOCOLS[scenario.protocol.name].rounds(scenario), []
    for number, fault in enumerate(scenario.fault):
        if 1 < rounds < (fault.round or 1):
            found.append(f"fault[{number}].round = {fault.round} is after the last round: the run has {rounds}")
            continue
        step = fault.at or fault.before or fault.after
        if fault.back_after is None or step is None or step in {step.name for step in ENROLL}:
            continue
        if fault.party == "server":  # clients end sooner for it
            continue
        if rounds == 1:
            why = "there is only one round"
        elif (fault.round or fault.occurrence or 1) >= rounds and (fault.round or fault.probability is None):
            why = f"the fault fires in the last of {rounds} rounds, or never"
        else:
            continue
        problem = "has no effect: a party that returns takes part from the next round, and"
        found.append(f"fault[{number}].back_after = {toml(fault.back_after)} {problem} {why}")
    return found


def check_party(key: str, party: str, clients: int, patterns: bool = True) -> None:
    """Raise ScenarioError at `key` where `party` is no name, nor a pattern that matches one where those may be."""
    known = parties(clients)
    if not (matching(party, known) if patterns else party in known):
        problem = "matches no party" if patterns and set(party) & set("*?[") else "is not a party"
        allowed = f"server, client/0 to {known[-1]}"
        raise ScenarioError("", key, f"{toml(party)} {problem}; allowed: {allowed}{similar(party, known)}")


# --- without the data


def _check_kind(key: str, fault: Fault) -> None:
    kind, keys = KINDS[fault.kind], given(fault)
    for name in keys:
        if name not in kind.keys:
            raise ScenarioError("", f"{key}.{name}", unfit(fault.kind, name))
    for name in kind.needs:
        if name not in keys:
            raise ScenarioError("", f"{key}.{name}", f"is needed with kind = {toml(fault.kind)} and not given")


def _check_when(key: str, fault: Fault) -> None:
    when, keys = KINDS[fault.kind].when, given(fault)
    found = [name for name in when if name in keys]
    if when and len(found) != 1:
        problem = f"exactly one of {', '.join(when)} says when; given: {' and '.join(found) or 'none'}"
        raise ScenarioError("", key, problem)
    if "occurrence" in keys and "probability" in keys:
        raise ScenarioError("", key, "occurrence and probability are both given; allowed: one of them or none")
    for name in ("occurrence", "probability", "round"):
        if found == ["time"] and name in keys:
            others = ", ".join(trigger for trigger in when if trigger != "time")
            problem = f"does not go with time, which comes once; allowed: with {others}"
            raise ScenarioError("", f"{key}.{name}", problem)
    if not when and "lasts" in keys and "time" not in keys:
        raise ScenarioError(
            "", f"{key}.lasts", "needs time, from which on it lasts; without both it is the first message"
        )


def _check_durations(key: str, fault: Fault) -> None:
    for name in DURATIONS:
        value = getattr(fault, name)
        if value is not None:
            read_text(f"{key}.{name}", duration, value)
            if name in ("lasts", "by") and not duration(value):
                raise ScenarioError("", f"{key}.{name}", f"{toml(value)} is too short; allowed: more than 0 s")


def read_text(key: str, parse: Callable[[str], object], value: str | float) -> None:
    """Raise ScenarioError at `key` where `parse` cannot read `value`."""
    try:
        parse(value)  # type: ignore[arg-type]
    except ValueError as error:
        raise ScenarioError("", key, str(error)) from None


# --- with the data, which may decide on the number of clients


def _check_parties(key: str, fault: Fault, scenario: Scenario) -> None:
    if fault.party:
        check_party(f"{key}.party", fault.party, scenario.data.clients)
    check_party(f"{key}.peer", fault.peer, scenario.data.clients)
    known = parties(scenario.data.clients)
    ends = [matching(pattern, known) for pattern in (fault.party or "*", fault.peer)]
    if ends[0] == ends[1] and len(ends[0]) == 1:
        problem = f"{toml(fault.peer)} is the party itself; allowed: another one, or a pattern"
        raise ScenarioError("", f"{key}.peer", problem)


def _roles(fault: Fault, scenario: Scenario) -> list[str]:
    """The roles of those who may be struck."""
    struck = matching(fault.party or "*", parties(scenario.data.clients))
    return list(dict.fromkeys(party.partition("/")[0] for party in struck))


def _check_steps(key: str, fault: Fault, scenario: Scenario) -> None:
    protocol, roles = scenario.protocol, _roles(fault, scenario)
    known = steps_of(scenario, roles)
    for trigger in ("at", "before", "after"):
        step = getattr(fault, trigger)
        if step is None or step in known:
            continue
        allowed = f"; allowed: {', '.join(known)}"
        if step in {step.name for step in PROTOCOLS[protocol.name].steps if step.role in roles}:
            problem = f"{toml(step)} is not a step with {_choices(scenario)}"
        else:
            problem = f"{toml(step)} is not a step of a {' or '.join(roles)} in {protocol.name}{similar(step, known)}"
        raise ScenarioError("", f"{key}.{trigger}", problem + allowed)


def _check_message(key: str, fault: Fault, scenario: Scenario) -> None:
    known = messages_of(scenario)
    if fault.message and fault.message not in known:
        name, choices = scenario.protocol.name, _choices(scenario)
        problem = f"{toml(fault.message)} is not a message of {name} with {choices}{similar(fault.message, known)}"
        raise ScenarioError("", f"{key}.message", f"{problem}; allowed: {', '.join(known)}")


def _choices(scenario: Scenario) -> str:
    """The choices that bring in steps or messages, in words."""
    choices = PROTOCOLS[scenario.protocol.name].choices(scenario)
    return ", ".join(f"{key.partition('.')[2]} = {toml(value)}" for key, value in choices.items()) or "these keys"


def _check_return(key: str, fault: Fault, scenario: Scenario) -> None:
    if fault.back_after is not None and "server" in matching(fault.party, ("server",)):
        _check_server_returns(f"{key}.back_after", "no back_after", scenario)


def _check_server_returns(key: str, allowed: str, scenario: Scenario) -> None:
    name = scenario.protocol.name
    if not PROTOCOLS[name].server_returns:
        problem = f"the server of {name} cannot come back, which does not say what one does then"
        raise ScenarioError("", key, f"{problem}; allowed: {allowed}")


def _check_made(key: str, fault: Fault, scenario: Scenario) -> None:
    place = f"{key}.file" if fault.kind == "availability" else key
    try:
        made = faults_of(fault, scenario.data.clients)
    except (OSError, ValueError) as error:
        raise ScenarioError("", place, str(error)) from None
    if fault.kind != "availability":
        return
    for party in dict.fromkeys(crash.party for crash in made):
        if matching(party, ("server",)):
            _check_server_returns(place, "clients", scenario)
