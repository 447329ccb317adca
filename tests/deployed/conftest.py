"""Parties of runs on this machine that start warm: forked from a process that has imported Tacit."""

import asyncio
import os
import signal
from collections.abc import Mapping
from typing import Any

import pytest

from tacit.scenarios.deploying import local
from tests import warm


class _Party:
    """A warm process, in the form in which asyncio gives processes: what `Local` uses of it."""

    def __init__(self, process: warm.Process, stderr: asyncio.StreamReader) -> None:
        self._process, self.stderr = process, stderr

    async def wait(self) -> int:
        while (code := self._process.poll()) is None:  # it has closed its stream, so it ends at once
            await asyncio.sleep(0.01)
        return code

    def terminate(self) -> None:
        self._process.send_signal(signal.SIGTERM)


async def _started(*command: str, stderr: int, env: Mapping[str, str]) -> _Party:
    assert stderr == asyncio.subprocess.PIPE
    read, written = os.pipe()
    process = warm.Process(command, stderr=written, env=env, imported=warm.LEARNING)
    os.close(written)
    reader, loop = asyncio.StreamReader(), asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read, "rb", buffering=0))
    return _Party(process, reader)


@pytest.fixture
def warm_parties(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the processes of `Local` warm, which saves each of them the second in which it imports Tacit."""

    class Asyncio:
        create_subprocess_exec = staticmethod(_started)

        def __getattr__(self, name: str) -> Any:
            return getattr(asyncio, name)

    monkeypatch.setattr(local, "asyncio", Asyncio())
