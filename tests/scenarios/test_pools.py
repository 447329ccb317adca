"""Runs whose jobs are computed by a pool: the same trace, and nothing remains afterwards."""

import os
import signal
from pathlib import Path

import pytest

from tacit import Result, Watch, load
from tacit.scenarios.running.runner import carry_out
from tacit.sim import pool as pools
from tacit.sim import pool_server
from tacit.sim.trace import Event

CRASH = "[[fault]]\nkind = 'crash'\nparty = '{}'\nat = '{}'\n"


@pytest.fixture(autouse=True)
def _all_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the pool compute short jobs as well, and from the beginning."""
    monkeypatch.setattr(pools, "_SHORT", 0.0)
    monkeypatch.setattr(pools, "_WHILE_STARTING", 0.0)


def ran(file: Path, *changes: str, engine: str = "pool:2", watch: Watch | None = None) -> Result:
    scenario = load(file, [*changes, f"engine={engine}"])
    return carry_out(scenario, "tiny", out=file.parent / str(len(list(file.parent.iterdir()))), watch=watch)


@pytest.mark.parametrize(
    ("changes", "faults"),
    [
        (("protocol.name=scaffold",), ""),  # vectors stored between rounds in addition to the model
        pytest.param(("protocol.name=fedmatch",), "", marks=pytest.mark.long),
        pytest.param(("protocol.name=fedprop+mt",), "", marks=pytest.mark.long),  # labels of a round, from XCLP
        (("protocol.name=fedavg", "training.averaging=secure"), ""),
        pytest.param(("protocol.name=dp-fedavg", "training.share=0.5"), "", marks=pytest.mark.long),
        pytest.param(
            ("protocol.name=fedct", "learner.name=decision-tree", "public.size=10"), "", marks=pytest.mark.long
        ),
        pytest.param(("protocol.name=fedavg", "cost=free", "training.share=0.5"), "", marks=pytest.mark.long),
        (("protocol.name=fedavg", "training.share=0.5", "training.extra=1"), ""),  # some results of jobs are not used
        (
            ("protocol.name=fedbuff", "training.rounds=6"),
            CRASH.format("client/1", "train.update") + "back_after='1s'\n",
        ),
        pytest.param(
            ("protocol.name=fedavg",),
            CRASH.format("client/1", "train.update") + "back_after = '1s'\n",
            marks=pytest.mark.long,
        ),
        (("protocol.name=fedavg",), CRASH.format("server", "train.average")),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_pool_gives_the_same_trace_as_inline(tiny: Path, changes: tuple[str, ...], faults: str) -> None:
    tiny.write_text(tiny.read_text() + faults)
    inline, pool = ran(tiny, *changes, engine="inline"), ran(tiny, *changes)
    assert (inline.trace_hash, inline.model_digest) == (pool.trace_hash, pool.model_digest)
    assert (inline.outcome, inline.lost, inline.accuracy) == (pool.outcome, pool.lost, pool.accuracy)
    assert pool.engine == "pool:2"


def test_long_jobs_run_in_workers_with_the_same_trace(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    # Jobs long enough for the pool.
    heavy = ("protocol.name=fedavg", "model.name=fedct_fashionmnist", "training.epochs=5")
    inline, pool = ran(tiny, *heavy, engine="inline"), ran(tiny, *heavy)
    assert (inline.trace_hash, inline.model_digest) == (pool.trace_hash, pool.model_digest)


def test_without_seeded_entropy_no_job_begins_ahead(tiny: Path) -> None:
    inline, pool = (ran(tiny, "protocol.name=fedavg", "entropy=os", engine=engine) for engine in ("inline", "pool:2"))
    assert inline.outcome == pool.outcome == "completed"
    assert inline.shape_hash == pool.shape_hash


class Stopping(Watch):
    """A watch that sends Ctrl-C, or raises an error, while models are trained."""

    def __init__(self, error: Exception | None) -> None:
        self._error = error

    def __call__(self, event: Event) -> None:
        if event.kind == "compute" and event.party == "client/2" and event.step == "train.update":
            if self._error is not None:
                raise self._error
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("error", [None, ArithmeticError("broken")])
def test_a_stopped_run_leaves_no_files_memory_or_workers(tiny: Path, error: Exception | None) -> None:
    ran(tiny, "protocol.name=fedavg")  # starts the server of workers, which stays
    fds, names = os.listdir("/proc/self/fd"), os.listdir("/dev/shm")
    stopped = ran(tiny, "protocol.name=fedavg", watch=Stopping(error))
    assert stopped.outcome == ("failed" if error else "interrupted")
    assert len(os.listdir("/proc/self/fd")) <= len(fds) and os.listdir("/dev/shm") == names
    server = pool_server._server
    assert server is not None and server.alive
    children = Path(f"/proc/{server._process.pid}/task/{server._process.pid}/children")
    assert children.read_text() == ""
