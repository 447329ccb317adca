"""Messages passed to a function on receipt, while a task waits for enough of them."""

import asyncio
from typing import Any

import pytest

Stage = Any


@pytest.mark.parametrize(
    ("enough", "heard", "ends"),
    [(2, ["b 0", "b 1"], 1.01), (9, ["b 0", "b 1", "b 2", "b 3"], 3.5), (0, ["b 0"], 0.01)],
)
def test_hand_each_passes_every_message_on_receipt_until_enough_have_arrived(
    stage: Stage, enough: int, heard: list[str], ends: float
) -> None:
    async def wait(me: Any) -> None:
        def take(source: str, note: Any) -> bool:
            me.heard.append(f"{source} {note.text}")
            assert round(me.world.loop.time() - 0.01) == int(note.text)
            return len(me.heard) >= enough

        with me.incoming((me.Note,), ("b",), deadline=3.5) as arrivals:
            await arrivals.hand_each(take)
        me.heard.append(round(me.world.loop.time(), 9))

    async def speak(me: Any) -> None:
        for number in range(6):
            me.send("a", me.Note(str(number)))
            await asyncio.sleep(1)

    assert stage({"a": wait, "b": speak}).run().heard("a") == [*heard, ends]


def test_an_error_in_handling_a_message_is_raised_in_the_waiting_task(stage: Stage) -> None:
    async def wait(me: Any) -> None:
        with pytest.raises(ZeroDivisionError), me.incoming((me.Note,), ("b",), deadline=3.0) as arrivals:
            await arrivals.hand_each(lambda source, note: 1 // 0 > 0)
        me.heard.append(me.world.loop.time())

    assert stage({"a": wait, "b": stage.says("now", after=1.0)}).run().heard("a") == [1.01]
