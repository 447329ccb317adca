"""Runs while an event loop runs already: from a coroutine, and in a notebook's kernel."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tacit import load, run

jupyter_client = pytest.importorskip("jupyter_client")


@pytest.mark.parametrize("engine", ["inline", "pool:1"])
def test_a_run_within_a_coroutine_is_the_same_run(quick: Path, tmp_path: Path, engine: str) -> None:
    async def within() -> str:
        task = asyncio.current_task()
        result = run(load(quick), out=tmp_path / "within", engine=engine)
        assert asyncio.current_task() is task and asyncio.get_running_loop().is_running()
        await asyncio.sleep(0)
        assert result.outcome == "completed", result.reason
        return result.trace_hash

    assert asyncio.run(within()) == run(load(quick), out=tmp_path / "outside").trace_hash


def test_a_run_that_fails_leaves_the_other_loop_as_it_was(quick: Path, tmp_path: Path, interrupter) -> None:
    async def within() -> bool:
        with pytest.raises(KeyboardInterrupt):
            run(load(quick), out=tmp_path / "within", watch=interrupter(20))
        async with asyncio.timeout(60):
            return await asyncio.create_task(asyncio.sleep(0, True))

    assert asyncio.run(within())


Cell = Callable[..., str]


@pytest.fixture
def cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cell]:
    """Runs a cell in a kernel; returns its output, or the name of the exception.

    The kernel's folder has a folder called scenarios, as a project that uses Tacit may well have.
    """
    (tmp_path / "scenarios").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    manager = jupyter_client.KernelManager(kernel_name="python3")
    manager.kernel_spec_manager.ensure_native_kernel = True
    manager.start_kernel(cwd=str(tmp_path))
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=120)

        def carry_out(code: str, interrupted_at: str = "") -> str:
            printed, raised, interrupts = [], [], int(bool(interrupted_at))

            def note(message: dict) -> None:
                nonlocal interrupts
                kind, content = message["header"]["msg_type"], message["content"]
                if kind == "stream":
                    printed.append(content["text"])
                    if interrupts and interrupted_at in content["text"]:
                        interrupts = 0
                        manager.interrupt_kernel()
                elif kind == "error":
                    raised.append(content["ename"])

            client.execute_interactive(code, timeout=300, output_hook=note, stop_on_error=False)
            return raised[0] if raised else "".join(printed)

        yield carry_out
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_everything_from_python_works_in_a_kernel(quick: Path, tmp_path: Path, cell: Cell) -> None:
    outside = run(load(quick), out=tmp_path / "outside").trace_hash
    cell("import asyncio; from tacit import chaos, load, run, sweep")
    assert cell("print(asyncio.get_running_loop().is_running())") == "True\n"
    for engine in ("inline", "pool:1"):
        one = f"result = run(load('quick.toml'), engine={engine!r}); print(result.outcome, result.trace_hash)"
        assert cell(one) == f"completed {outside}\n"
    swept = cell(
        "swept = sweep('quick.toml', {'protocol.k': [2, 4]}, jobs=2)\n"
        "print([(values, result.outcome) for values, result in swept])"
    )
    assert swept == "[({'protocol.k': 2}, 'completed'), ({'protocol.k': 4}, 'completed')]\n"
    found = cell(
        "found = chaos('quick.toml', schedules=2, singles=False)\n"
        "print(len(found.verdicts), found.broken, found.verdicts[0].outcome)"
    )
    assert found == "3 0 completed\n"
    assert cell("await asyncio.sleep(0, 'still here') and print('still here')") == "still here\n"


def test_a_kernel_is_interrupted_and_leaves_a_complete_folder(quick: Path, tmp_path: Path, cell: Cell) -> None:
    cell("from tacit import Watch, load, run")
    cell(
        "class Endless(Watch):\n"
        "    def __call__(self, event):\n"
        "        if event.kind == 'compute':\n"
        "            print('begun', flush=True)\n"
        "            while True: pass\n"
    )
    ended = cell("from pathlib import Path; run(load('quick.toml'), out=Path('broken'), watch=Endless())", "begun")
    assert ended == "KeyboardInterrupt"
    record = json.loads((tmp_path / "broken" / "result.json").read_text())
    assert (record["outcome"], record["reason"]) == ("interrupted", "interrupted by Ctrl-C")
    assert (tmp_path / "broken" / "labels.csv").is_file()
    assert cell("print(run(load('quick.toml')).outcome)") == "completed\n"
