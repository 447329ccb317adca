"""Records of runs with many clients, limited to the clients that take part."""

from msgspec import structs

from tacit.parties.fleet.fleet import SERVER
from tacit.protocols.experiment.experiment import AWAKE
from tacit.protocols.experiment.simulated import Round
from tacit.protocols.rounds.rounds import ENROLL, NEVER_DRAWN
from tacit.scenarios.files.result import Result
from tacit.scenarios.running.recorder import Recorder
from tacit.sim.taps import Wait
from tacit.sim.trace import Event

__all__ = ["SparingRecorder", "keep_participants", "recording_of"]

_ENROLMENT = frozenset(step.name for step in ENROLL)


class SparingRecorder:
    """A recorder of runs with many clients that records only the messages of their enrolment.

    It omits the steps of enrolment and the waits before them, and the ends of clients that were never called.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def __call__(self, event: Event) -> None:
        kind = event.kind
        if kind in ("enter", "leave") and event.step in _ENROLMENT and event.party != SERVER:
            return
        if kind != "outcome" or event.note != NEVER_DRAWN:
            self._recorder(event)

    def wait(self, time: float, wait: Wait) -> None:
        """Record that a wait begins, or its end."""
        if wait.step or wait.party == SERVER:
            self._recorder.wait(time, wait)


def recording_of(recorder: Recorder, clients: int) -> Recorder | SparingRecorder:
    """Return the recorder to use for a run with this number of `clients`."""
    return recorder if clients <= AWAKE else SparingRecorder(recorder)


def keep_participants(result: Result, clients: int) -> None:
    """Remove the clients that were never called from `lost`, `faults` and `endings` of a `result` of many `clients`.

    The size of the file then depends on the clients that take part, not on those that are registered. The result is
    unchanged if its rounds do not name the clients that were called. The record of the run has all clients.
    """
    cohorts = [getattr(one, "cohort", None) for one in result.round_records]
    if clients <= AWAKE or not cohorts or None in cohorts:
        return
    called = {name for cohort in cohorts for name in cohort or ()}
    absent = {f"client/{number}" for number in range(clients)} - called
    result.lost = [loss for loss in result.lost if loss.party not in absent]
    result.faults = [strike for strike in result.faults if strike.party not in absent]
    result.endings = {name: ending for name, ending in result.endings.items() if name not in absent}
    result.round_records = [_without(one, absent) for one in result.round_records]


def _without(one: Round, absent: set[str]) -> Round:
    return structs.replace(one, lost=tuple(name for name in one.lost if name not in absent))
