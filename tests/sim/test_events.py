"""The queue of events: compiled and in Python the same calls at the same times."""

import math
import platform
import shutil
import subprocess
import sysconfig
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from tacit.sim import clock
from tacit.sim.clock import Environment, Line, Timer, in_python

SOURCE = Path(clock.__file__).with_name("events.c")

needs_compiled = pytest.mark.skipif(not clock.is_compiled(), reason="not compiled")

WHENS = st.sampled_from([0, 0.0, -0.0, 1, 1.0, 1.5, 2.0, math.nextafter(1.5, 2.0), math.inf]) | st.floats(0.0, 3.0)
ACTS = st.sampled_from(["at", "put", "line 0", "line 1", "timeout", "cancel", "end"])
PLANS = st.lists(st.tuples(ACTS, WHENS, st.integers(0, 30)), max_size=60)
"""What each call does once it is made, by the number of calls before it: schedule another one, or cancel a timer."""


def played(plan: list[tuple[str, float, int]]) -> list[Any]:
    """What happens in an environment where the calls follow the `plan`: calls with their times, and pending ones."""
    env, ready, happened = Environment(), deque[int](), list[Any]()
    lines, timers, left = (Line(env), Line(env)), list[Timer](), iter(plan)

    def act(count: int) -> None:
        for (what, when, number), _ in zip(left, range(count), strict=False):
            then = _call(number)
            if what == "at":
                timers.append(env.at(when, then))
            elif what == "put" and when < math.inf:
                env.put(when, then)
            elif what.startswith("line") and when < math.inf:
                lines[int(what[-1])].at(when, then)
            elif what == "timeout" and when < math.inf:
                env.timeout(float(when)).callbacks.append(lambda _, then=then: then())
            elif what == "cancel" and timers:
                timers[number % len(timers)].cancel()
            elif what == "end":
                ready.append(number)

    def _call(number: int) -> Callable[[], None]:
        def call() -> None:
            happened.append((number, env.now, type(env.now), env.live, env.cancelled))
            act(1 + number % 3)

        return call

    act(8)
    while True:
        goes_on = env.step_until(ready)
        happened.append((goes_on, env.now, [when for when, _ in env.to_come()], [timer.pending for timer in timers]))
        if ready:
            ready.clear()
        elif not goes_on:
            return happened


@needs_compiled
@given(PLANS)
def test_the_same_calls_happen_at_the_same_times(plan: list[tuple[str, float, int]]) -> None:
    compiled = played(plan)
    with in_python():
        assert not isinstance(vars(Environment)["at"], type(vars(list)["append"]))
        assert played(plan) == compiled


@needs_compiled
def test_a_run_has_the_same_trace_either_way() -> None:
    from tacit.benchmarks.sim.speed import _gathered
    from tacit.parties.playing import play_out

    found = []
    for context in (nullcontext(), in_python()):
        with context:
            parties = _gathered(20, 3)
            play_out(parties)
            world = parties[0].world
            found.append((world.trace.trace_hash, world.trace.count, world.loop.time(), world.ledger.bytes))
    assert found[0] == found[1]


SCENARIOS = {
    "a star": (),
    "a mesh": ('network.topology="mesh"',),
    "unlike links": ('network.latency="lognormal:40ms,0.5"', 'network.jitter="5ms"', 'network.up="1Mbit/s"'),
    "datagrams": ('network.transport="datagram"', 'network.latency="normal:30ms,10ms"'),
    "losses": ("network.loss=0.03",),
    "a pause": ('fault=[{kind="pause",party="client/2",time="40ms",lasts="2s"},{party="client/5",at="sum.mask"}]',),
    "a slow client": ('fault=[{kind="slow",party="client/2",time="10ms",factor=4.0}]',),
    "a cut": ('fault=[{kind="partition",party="client/1",peer="client/2",time="20ms",lasts="3s"}]',),
    "one that returns": ('fault=[{party="client/3",at="sum.deal",back_after="5s"}]', "training.rounds=3"),
    "handling": ('device.handling="1ms"',),
}


@needs_compiled
@pytest.mark.parametrize("changes", SCENARIOS.values(), ids=SCENARIOS)
@pytest.mark.parametrize("hollow", [False, True], ids=["real", "predicted"])
def test_a_scenario_has_the_same_course_either_way(changes: tuple[str, ...], hollow: bool) -> None:
    from tacit.scenarios.files.reading import load
    from tacit.scenarios.running.simulation import Simulation

    small = ("data.clients=8", "data.limit=160", "training.rounds=2", "fault=[]", "expect={}")
    scenario, found = load("fedavg-secagg-plus", [*small, *changes]), []
    for context in (nullcontext(), in_python()):
        with context:
            simulation = Simulation(scenario, engine="inline", hollow=hollow, hashed=not hollow)
            ended = simulation.run()
            trace, ledger = simulation.trace, simulation.ledger
            found.append(
                (trace.trace_hash, trace.count, simulation.now, ended.lost, simulation.troubles, ledger.rows())
            )
            simulation.close()
    assert found[0] == found[1]


@pytest.mark.parametrize("compiled", [True, False])
def test_an_error_of_a_call_comes_out_and_the_queue_goes_on(compiled: bool) -> None:
    with nullcontext() if compiled else in_python():
        env, ready = Environment(), deque[int]()

        def fail() -> None:
            raise ValueError("failed")

        timer = env.at(1.0, fail)
        Line(env).at(2.0, fail)
        env.put(3.0, fail)
        env.put(4.0, lambda: ready.append(1))
        for when in (1.0, 2.0, 3.0):
            with pytest.raises(ValueError, match="failed"):
                env.step_until(ready)
            assert env.now == when
        assert env.step_until(ready) and env.now == 4.0 and not timer.pending
        assert not env.step_until(deque())


@pytest.mark.parametrize("compiled", [True, False])
def test_an_event_of_simpy_that_fails_is_raised(compiled: bool) -> None:
    with nullcontext() if compiled else in_python():
        env = Environment()
        simpy.Event(env).fail(ValueError("of an event"))
        with pytest.raises(ValueError, match="of an event"):
            env.step_until(deque())


@pytest.mark.parametrize("compiled", [True, False])
def test_wrong_arguments_are_errors(compiled: bool) -> None:
    with nullcontext() if compiled else in_python():
        env: Any = Environment()
        line: Any = Line(env)
        for call in (env.at, env.put, line.at):
            for arguments in ((), (1.0,), (1.0, print, 1), ("soon", print)):
                with pytest.raises(TypeError):
                    call(*arguments)
        assert not env.step_until(deque())


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_file_compiles_without_warnings(tmp_path: Path) -> None:
    headers = sysconfig.get_paths()["include"]
    if not (Path(headers) / "Python.h").is_file():
        pytest.skip("no headers of Python")
    strict = ["cc", "-O2", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", f"-I{headers}"]
    subprocess.run([*strict, "-o", str(tmp_path / "own.so"), str(SOURCE)], check=True)


@pytest.mark.skipif(shutil.which("cc") is None or platform.machine() != "x86_64", reason="no compiler for it here")
def test_the_library_is_compiled_if_there_is_a_compiler() -> None:
    assert any(SOURCE.with_name(f"_events{suffix}").is_file() for suffix in EXTENSION_SUFFIXES)
