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

    It leaves out the steps of enrolment and the wait before them, and the ends of clients that were never called.
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
    """Remove the clients that were never called from the lists of lost, struck and ended in a `result` of many
    `clients`.

    A file then grows with the clients that take part, not with those that are registered. The result is left as it is
    if its rounds do not say which clients they called. The record of the run has all of it.
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
