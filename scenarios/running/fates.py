"""The fates of runs under losses. Each run computes on hollow values; only its end and its costs are kept."""

import math
from collections.abc import Callable, Sequence
from contextlib import closing

from msgspec import Struct, structs

from tacit.protocols.outcome import Reason
from tacit.scenarios.files.odds import rounds_needed
from tacit.scenarios.files.plugins import failure_reason
from tacit.scenarios.running.prediction import energy_meter, predicted_memory
from tacit.scenarios.running.simulation import Simulation
from tacit.scenarios.schema.scenario import Scenario, ScenarioError
from tacit.sim.setting_error import Problem
from tacit.sim.taps import Taps
from tacit.sim.toml_text import toml
from tacit.sim.wire import Packet

__all__ = ["Fate", "Watch", "fate_of", "fates_of"]

Watch = Callable[[int, int], object]
"""Called with the number of each round that a run reaches, and the number of planned rounds."""


class Fate(Struct, frozen=True):
    """The end of one run, with its costs: bytes, virtual seconds, and the number of rounds without a result.

    `lost`: each loss as (party, step), once per round. `rounds`: those that were planned. `memory`: predicted bytes at
    the peak. `joules` of all clients, and `most_joules` of one client: None if the scenario counts no energy. `epsilon`
    of all rounds: None if the protocol has none, or if it has no bound.
    """

    seed: int
    outcome: str
    reason: Reason
    bytes: int
    seconds: float
    rounds_lost: int
    lost: tuple[tuple[str, str], ...]
    rounds: int = 1
    memory: int = 0
    joules: float | None = None
    most_joules: float | None = None
    epsilon: float | None = None

    @property
    def completed(self) -> bool:
        """True if the run ends with a result."""
        return self.outcome == "completed"

    def survives(self, share: float) -> bool:
        """Return true if the run completes and at least this `share` of its rounds, and at least one, has a result."""
        return self.completed and self.rounds - self.rounds_lost >= rounds_needed(share, self.rounds)


def fates_of(
    scenario: Scenario,
    seeds: Sequence[int],
    where: str = "",
    watch: Watch | None = None,
) -> list[Fate]:
    """Return the fate of a run of `scenario` with each of `seeds`; `watch` sees the rounds of each.

    Files that one run loads, such as its data set, are kept for the next. Raises ScenarioError, naming `where` and the
    seed, for a run that cannot be made.
    """
    found = []
    for seed in seeds:
        own = structs.replace(scenario, seed=seed, engine="inline")
        found.append(_in_words(own, f"{where} with seed {seed}".strip(), watch))
    return found


def _in_words(scenario: Scenario, where: str, watch: Watch | None) -> Fate:
    """Return `fate_of` the scenario. Raises ScenarioError of one line that names `where` for its errors."""
    try:
        return fate_of(scenario, watch)
    except Problem as error:
        raise ScenarioError(where, error.key, error.problem) from error
    except ScenarioError:
        raise
    except Exception as error:
        problem = f"{toml(scenario.protocol.name)} fails where it is predicted: {failure_reason(error)}"
        raise ScenarioError(where, "protocol.name", problem) from error


def fate_of(scenario: Scenario, watch: Watch | None = None) -> Fate:
    """The fate of a run of `scenario`. Raises Problem, and errors of a party's program."""
    reached = rounds = 0

    def note(packet: Packet) -> None:
        nonlocal reached
        if packet.round > reached:
            reached = packet.round
            assert watch is not None
            watch(reached, rounds)

    metered = energy_meter(scenario)
    taps = Taps(sent=[note] if watch else [])  # a sink would have an event made of each step of each message
    sinks = [metered[1]] if metered else []
    simulation = Simulation(scenario, sinks=sinks, taps=taps, engine="inline", hollow=True, hashed=False)
    with closing(simulation):
        rounds = simulation.round[1]
        simulation.run()
        end = simulation.ending()
    sent = sum(row.payload + row.sealing + row.envelope for row in simulation.ledger.rows())
    used = metered[0].energy(metered[1].found()) if metered else None
    places = {(loss.party, loss.step, loss.round): (loss.party, loss.step) for loss in end.lost}
    return Fate(
        scenario.seed, end.outcome, Reason.of(end.reason), sent, simulation.now, max(0, rounds - end.held),
        tuple(places.values()), rounds, predicted_memory(*simulation.setting, simulation.most_held),
        None if used is None else used.joules,
        None if used is None else max((one.most for one in used.classes), default=0.0),
        None if end.epsilon is None or math.isinf(end.epsilon) else end.epsilon,
    )  # fmt: skip
