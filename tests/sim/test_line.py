"""Lines of calls: the calls happen in the order of a heap without lines."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tacit.sim.clock import Line
from tacit.sim.loop import SimLoop


def run(main: Callable[[SimLoop], Coroutine[Any, Any, Any]]) -> Any:
    loop = SimLoop()
    try:
        return loop.run(main(loop))
    finally:
        loop.finish()


_MOMENTS = st.sampled_from([0.0, 1.0, 1.5, 2.0, 3.0])


@given(st.lists(st.tuples(st.integers(0, 2), _MOMENTS, _MOMENTS), max_size=30))
def test_calls_of_lines_fire_in_the_order_of_the_heap(calls: list[tuple[int, float, float]]) -> None:
    """Each call is added at one time, to one of two lines or to none, for another time, which may be past or out of
    order."""

    def played(*, lines: bool) -> list[tuple[int, float]]:
        fired: list[tuple[int, float]] = []

        async def main(loop: SimLoop) -> None:
            found = [Line(loop.env), Line(loop.env)]

            def add(number: int, line: int, due: float) -> None:
                call = partial(lambda number: fired.append((number, loop.time())), number)
                (found[line].at if lines and line < 2 else loop.env.at)(due, call)

            for number, (line, moment, due) in enumerate(calls):
                loop.env.at(moment, partial(add, number, line, due))
            await asyncio.sleep(4)
            assert list(loop.env.to_come()) == []

        run(main)
        return fired

    assert played(lines=True) == played(lines=False)


def test_the_pending_calls_include_all_of_a_line() -> None:
    async def main(loop: SimLoop) -> list[tuple[float, Any]]:
        line, calls = Line(loop.env), [partial(int, number) for number in range(4)]
        line.at(1.0, calls[0])
        loop.env.put(3.0, calls[1])
        line.at(2.0, calls[2])
        line.at(1.5, calls[3])
        assert list(loop.env.to_come()) == list(zip((1.0, 3.0, 2.0, 1.5), calls, strict=True))
        return list(loop.env.to_come())

    assert len(run(main)) == 4
