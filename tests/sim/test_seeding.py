"""The global generators of Python, numpy and torch in code that is not Tacit's: seeded inside, restored afterwards."""

import asyncio
import random
import subprocess
import sys

import numpy as np
import pytest

from tacit.sim.loop import SimLoop
from tacit.sim.seeding import Generators, carried, run_seeded, seeded


def _draws() -> list[float]:
    return [random.random(), float(np.random.rand()), float(np.random.default_rng().random())]


def test_what_is_drawn_inside_follows_from_the_number_and_nothing_outside_changes() -> None:
    random.seed(1)
    np.random.seed(1)
    with seeded(5):
        inside = _draws()
        with seeded(6):
            other = _draws()
    after = [random.random(), float(np.random.rand())]
    assert inside == run_seeded(5, _draws, ())
    assert other == run_seeded(6, _draws, ()) != inside
    random.seed(1)
    np.random.seed(1)
    assert after == [random.random(), float(np.random.rand())]


def test_generators_go_on_where_they_were_left() -> None:
    generators = Generators(5)
    with generators:
        first = random.random(), np.random.rand()
    with seeded(7):
        _draws()
    with generators:
        second = random.random(), np.random.rand()
    with seeded(5):
        assert [first, second] == [(random.random(), np.random.rand()) for _ in range(2)]


def test_a_mistake_inside_restores_the_generators() -> None:
    np.random.seed(1)
    with pytest.raises(ZeroDivisionError):
        run_seeded(5, lambda: 1 // 0, ())
    after = np.random.rand()
    np.random.seed(1)
    assert after == np.random.rand() and np.random.default_rng is not Generators


def test_coroutines_and_their_tasks_draw_from_their_own_generators_whatever_runs_between() -> None:
    async def program(waits: int) -> list[float]:
        async def later() -> float:
            await asyncio.sleep(1)
            return random.random()

        found = [random.random()]
        for _ in range(waits):
            await asyncio.sleep(0.5)
            found.append(float(np.random.rand()))
        async with asyncio.TaskGroup() as group:
            task = group.create_task(later())
        return [*found, task.result()]

    def run(*beside: int) -> list[float]:
        async def main() -> list[float]:
            async with asyncio.TaskGroup() as group:
                own = group.create_task(carried(Generators(1), program(3)))
                for number in beside:
                    group.create_task(carried(Generators(number), program(2)))
                group.create_task(program(4))
            return own.result()

        return SimLoop().run(main())

    assert run() == run(2, 3)


def test_torch_is_seeded_although_it_is_imported_inside_only() -> None:
    pytest.importorskip("torch")
    code = (
        "{}from tacit.sim.seeding import seeded\nwith seeded(5):\n    import torch\n    print(torch.rand(2).tolist())\n"
    )
    printed = {
        subprocess.run([sys.executable, "-c", code.format(before)], capture_output=True, text=True, check=True).stdout
        for before in ("", "import torch; ")
    }
    assert len(printed) == 1
