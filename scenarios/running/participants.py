"""Records of runs with many clients, of those who took part."""

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
    """Records a run with many clients, but for how each of them enrols: of that only the messages are recorded.

    It leaves out the steps of enrolment and the wait before them, and how those ended who were never called.
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
    """Return the recorder of a run with this number of `clients`."""
    return recorder if clients <= AWAKE else SparingRecorder(recorder)


def keep_participants(result: Result, clients: int) -> None:
    """Leave out of a `result`, of a run with many `clients`, who was lost, struck or ended without ever being called.

    A file then grows with those who took part, not with those who are registered. It is left as it is where rounds do
    not say whom they called. The record of the run has all of it.
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
