"""The end of a run, and its determinism."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tacit.parties.party import NoAnswer, Party
from tacit.parties.playing import play
from tacit.sim import loop
from tacit.sim.compute import Free
from tacit.sim.faults import Crash
from tacit.sim.loop import Deadlock
from tacit.sim.world import World

Stage = Any
Program = Any


# play


def test_play_ends_with_the_coordinator_without_waiting_for_idle_parties(stage: Stage) -> None:
    async def rest(me: Any) -> None:
        me.rest(True)
        await me.recv(me.Note, "a", 1000.0)

    run = stage({"a": lambda me: asyncio.sleep(1), "b": rest, "c": lambda me: asyncio.sleep(3)}).run()
    assert run.now == 3.0


def test_play_continues_for_a_party_that_is_busy_again(stage: Stage) -> None:
    async def rest(me: Any) -> None:
        me.rest(True)
        await me.recv(me.Note, "a", 1000.0)
        me.rest(False)
        await asyncio.sleep(5)

    async def lead(me: Any) -> None:
        me.send("b", me.Note("begin"))
        await asyncio.sleep(1)

    assert stage({"a": lead, "b": rest}).run().now == 5.01


def test_a_livelock_is_reported_with_party_and_step(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_MOST_TURNS", 5000)

    async def spin(me: Any) -> None:
        await asyncio.sleep(1.5)
        with me.step("look.round"):
            await me.together(ever(), asyncio.sleep(1.0))

    async def ever() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(loop.Livelock, match=r"^b in look\.round: 5,000 turns at 1\.500000 s") as caught:
        stage({"a": lambda me: asyncio.sleep(3), "b": spin}).run()
    assert caught.value.parties == ["b in look.round"]


def test_when_the_coordinator_is_lost_other_parties_end_by_their_deadlines(stage: Stage) -> None:
    async def follow(me: Any) -> None:
        me.rest(True)
        try:
            await me.recv(me.Note, "a", 7.0)
        except NoAnswer as silence:
            me.heard.append(str(silence))

    run = stage({"a": lambda me: asyncio.sleep(3), "b": follow}, [Crash("a", time=1.0)]).run()
    assert run.now == 7.0
    assert run.heard("b") == ["b waited 7 s for StageNote from a in vain"]


def test_an_exception_of_a_program_ends_the_play_at_once(stage: Stage) -> None:
    async def fail(me: Any) -> None:
        await asyncio.sleep(2)
        raise LookupError(f"{me.name} has no data")

    run = stage({"a": lambda me: asyncio.sleep(100), "b": fail})
    with pytest.raises(LookupError, match="b has no data"):
        run.run()
    assert run.now == 2.0


def test_parties_that_wait_for_each_other_for_ever_are_a_deadlock(stage: Stage) -> None:
    def wait_for(name: str) -> Program:
        async def program(me: Any) -> None:
            with me.step("demo.wait"):
                await me.collect(me.Note, [name], deadline=float("inf"))

        return program

    async def silent(me: Any) -> None:
        await asyncio.get_running_loop().create_future()

    programs = {"a": wait_for("b"), "b": wait_for("a"), "c": silent, "d": stage.nothing, "e": stage.nothing}
    run = stage(programs, [Crash("e", time=0.0)])
    with pytest.raises(Deadlock) as caught:
        run.run()
    assert caught.value.waits == {
        "a": "StageNote from b (in demo.wait)",
        "b": "StageNote from a (in demo.wait)",
        "c": "nothing that it names (in no step)",
    }


@pytest.mark.usefixtures("clean_end")
def test_ctrl_c_in_a_party_ends_the_play_at_once_without_logged_errors(stage: Stage) -> None:
    async def work(me: Any) -> None:
        async def press() -> None:
            await asyncio.sleep(1)
            signal.raise_signal(signal.SIGINT)

        with me.step("demo.work"):
            await me.together(
                press(), me.compute({"second": 9}, float), me.recv(me.Note, "a", 9.0), me.together(asyncio.sleep(9))
            )

    async def lead(me: Any) -> None:
        await me.collect(me.Note, ["b"], deadline=100.0)

    run = stage({"a": lead, "b": work, "c": lead})
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert run.now == 1.0
    assert [event.kind for event in run.events] == ["enter", "compute"]


# Determinism

FAULTS = (Crash("client/1", after="demo.work", back_after=0.5), Crash("client/2", time=1.5))


def workload(stage: Stage, clients: int = 4, text: str = "hello", **changes: Any) -> Any:
    """A server that asks for numbers three times, and clients that compute and exchange them; two of them crash."""
    names = [f"client/{i}" for i in range(clients)]

    async def serve(me: Any) -> None:
        for number in range(3):
            me.advance(number + 1, 0)
            with me.step("demo.ask"):
                for name in names:
                    me.send(name, me.Round(text))
                collected = await me.collect(me.Number, names, deadline=2.0, quorum=len(names) - 1)
                me.heard.append({name: message.number for name, message in collected.answers.items()})

    async def work(me: Any) -> None:
        me.rest(True)
        while True:
            await me.recv(me.Round, "server", 100.0)
            with me.step("demo.work"):
                others = [name for name in names if name != me.name]
                number = me.entropy("number").below(1000)
                await me.together(*(me.compute({"second": 0.1}, float) for _ in others))
                for name in others:
                    me.send(name, me.Number(number))
                await me.collect(me.Number, others, deadline=0.5)
                me.send("server", me.Number(number))

    settings = {
        "latency": "lognormal:40ms,0.5",
        "topology": "star",
        "access": {"up": 5e4, "down": 1e5},
        "faults": FAULTS,
    }
    return stage({"server": serve} | dict.fromkeys(names, work), **{**settings, **changes})


def test_the_same_run_has_the_same_hashes(stage: Stage) -> None:
    first, second = workload(stage).run(), workload(stage).run()
    assert first.events == second.events
    assert first.hashes == second.hashes
    assert [fired.fault for fired in first.world.faults.fired] == list(FAULTS)
    assert any(note.startswith("rejoin") for note in first.notes("fault"))


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 2},
        {"latency": "lognormal:40ms,0.51"},
        {"latency": "41ms"},
        {"topology": "mesh"},
        {"clients": 5},
        {"faults": ()},
        {"faults": FAULTS[:1]},
        {"access": {"up": 5e4, "down": 1.1e5}},
        {"text": "longer than hello"},
    ],
)
def test_every_condition_of_a_run_changes_both_hashes(stage: Stage, changes: dict[str, Any]) -> None:
    (trace, shape), (other_trace, other_shape) = workload(stage).run().hashes, workload(stage, **changes).run().hashes
    assert trace != other_trace
    assert shape != other_shape


def test_another_payload_of_the_same_size_changes_the_trace_hash_alone(stage: Stage) -> None:
    (trace, shape), (other_trace, other_shape) = (
        workload(stage).run().hashes,
        workload(stage, text="hallo").run().hashes,
    )
    assert trace != other_trace
    assert shape == other_shape


def test_the_hash_is_the_same_in_another_process_with_any_hash_seed_and_heap(stage: Stage) -> None:
    script = textwrap.dedent("""
        import importlib.util, sys
        kept = [bytearray(size) for size in range(0, int(sys.argv[1]) * 977, 977)]
        modules = []
        for name, path in zip(("conftest", "test_play"), sys.argv[2:]):
            spec = importlib.util.spec_from_file_location(name, path)
            modules.append(importlib.util.module_from_spec(spec))
            sys.modules[name] = modules[-1]
            spec.loader.exec_module(modules[-1])
        stages, here = modules
        print(*here.workload(stages.Stage).run().hashes)
    """)
    outputs = [
        subprocess.run(
            [sys.executable, "-c", script, str(layout), str(Path(__file__).with_name("conftest.py")), __file__],
            env={**os.environ, "PYTHONHASHSEED": str(layout), "PYTHONPATH": os.getcwd()},
            capture_output=True, text=True, check=True,
        ).stdout.split()
        for layout in (1, 40)
    ]  # fmt: skip
    assert outputs == [list(workload(stage).run().hashes)] * 2


def test_the_ledger_is_the_sum_of_the_trace(stage: Stage) -> None:
    run = workload(stage).run()
    ledger = run.world.ledger
    hops = [event for event in run.events if event.kind in ("send", "relay")]
    assert ledger.messages == len(hops)
    for column in ("payload", "sealing", "envelope"):
        assert ledger.total(column) == sum(getattr(event, column) for event in hops)
    for row in ledger.rows():
        same = [
            event
            for event in hops
            if (event.step, event.type, event.party, event.peer) == (row.step, row.type, row.sender, row.receiver)
            and (event.kind == "relay") == row.relayed
        ]
        assert (row.messages, row.total) == (len(same), sum(e.payload + e.sealing + e.envelope for e in same))


# Any schedule

moments = st.floats(0, 2)
NAMES = ("server", "client/0", "client/1", "client/2")


@settings(deadline=None, max_examples=60)
@given(
    letters=st.lists(st.tuples(moments, st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=30),
    crashes=st.lists(st.tuples(moments, st.sampled_from(NAMES), st.none() | moments), max_size=4),
    topology=st.sampled_from(["mesh", "star"]),
    rate=st.sampled_from([0.0, 500.0]),
    seed=st.integers(0, 3),
)
@example(
    letters=[(1.25, "client/1", "server")],
    crashes=[(0.0, "server", None), (0.0, "client/0", None), (0.0, "client/2", None), (1.5, "client/1", None)],
    topology="mesh",
    rate=500.0,
    seed=0,
)
def test_every_message_is_delivered_lost_or_dropped_under_any_crashes(
    stage: Stage,
    letters: list[tuple[float, str, str]],
    crashes: list[tuple[float, str, float | None]],
    topology: str,
    rate: float,
    seed: int,
) -> None:
    """sent = delivered + lost + dropped; no message of a dead party is received; the clock never goes back; all
    repeats.

    A run without living parties may end while messages are in flight.
    """

    def correspond(name: str) -> Program:
        async def program(me: Any) -> None:
            async def write() -> None:
                for when, sender, receiver in sorted(letters):
                    if sender == name != receiver and when >= me.world.loop.time():
                        await asyncio.sleep(when - me.world.loop.time())
                        me.send(receiver, me.Note(f"{me.incarnation} at {me.world.loop.time()}"))

            async def read() -> None:
                others = [other for other in NAMES if other != name]
                with me.incoming((me.Note,), others, deadline=60.0) as arrivals:
                    async for source, message in arrivals:
                        me.heard.append((source, message.text, me.incarnation, me.world.loop.time()))

            await me.together(write(), read())

        return program

    def once() -> Any:
        return stage(
            {name: correspond(name) for name in NAMES},
            [Crash(name, time=when, back_after=back) for when, name, back in crashes],
            latency="lognormal:50ms,1", seed=seed, topology=topology, access={"up": rate, "down": rate},
        ).run()  # fmt: skip

    run = once()
    counts = Counter(event.kind for event in run.events)
    in_flight = run.world.network.in_flight
    assert counts["send"] == counts["deliver"] + counts["lose"] + counts["drop"] + in_flight
    assert in_flight == 0 or not any(actor.alive for actor in run.actors.values())
    times = [event.time for event in run.events]
    assert times == sorted(times)
    assert sum(len(run.heard(name)) for name in NAMES) <= counts["deliver"]
    if not crashes:
        assert counts["deliver"] == counts["send"] == sum(len(run.heard(name)) for name in NAMES)
    assert once().hashes == run.hashes


def test_free_computing_takes_no_virtual_time(stage: Stage) -> None:
    world = World(cost=Free())

    async def program(me: Any) -> None:
        me.plan({"ring.add": 10})
        me.heard += [await me.compute({"ring.add": 10}, max, 3, 4), world.loop.time()]

    actor = stage.actor(world, "a", program)
    world.loop.run(play([actor], actor))
    world.loop.finish()
    assert actor.heard == [4, 0.0]


def test_a_party_needs_a_program() -> None:
    world = World()
    party = Party(world, "a")
    with pytest.raises(NotImplementedError, match="Party has no program"):
        world.loop.run(play([party], party))
    world.loop.finish()
