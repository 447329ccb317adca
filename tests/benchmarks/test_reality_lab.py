"""Machines in namespaces: links have the requested delays, can be cut, and nothing remains afterwards."""

import subprocess
import sys

import pytest

from tacit.benchmarks.reality import lab
from tacit.benchmarks.reality.lab import Lab, Line, Loopback, open_lab, unavailable

shaped = pytest.mark.skipif(bool(unavailable()), reason=unavailable() or "namespaces can be made")

ECHO = """
import socket, sys
server = socket.create_server((sys.argv[1], 5000))
print("ready", flush=True)
while True:
    connection, _ = server.accept()
    while data := connection.recv(1 << 16):
        connection.sendall(data)
"""

ASK = """
import socket, sys, time
connection = socket.create_connection((sys.argv[1], 5000), timeout=float(sys.argv[2]))
began = time.monotonic()
connection.sendall(b"?")
connection.recv(1)
print(time.monotonic() - began)
"""


def started(lab: Loopback) -> None:
    server = lab.start(
        "server", [sys.executable, "-c", ECHO, lab.address("server")], stdout=subprocess.PIPE, text=True
    )  # fmt: skip
    assert server.stdout is not None
    assert server.stdout.readline() == "ready\n"


def send_request(lab: Loopback, timeout: float = 5.0) -> subprocess.CompletedProcess[str]:
    arguments = [sys.executable, "-c", ASK, lab.address("server"), str(timeout)]
    return lab.run("client/0", arguments, capture_output=True, text=True)


def namespaces() -> str:
    return subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout


@shaped
def test_a_lab_has_the_requested_latency_and_cuts_and_is_removed_at_its_end() -> None:
    with Lab({"server": Line(0.01), "client/0": Line(0.02, 20e6, 20e6)}) as lab:
        started(lab)
        assert 0.06 <= float(send_request(lab).stdout) < 0.5
        lab.cut("client/0", "server")
        assert "TimeoutError" in send_request(lab, 0.2).stderr
        lab.heal("client/0", "server")
        assert send_request(lab).returncode == 0
        counted = lab.statistics()
        made = lab.command("server", [])[3]
        assert made in namespaces()
    assert counted.sent["client/0"] > counted.sent["server"] > 0
    assert counted.dropped == {"server": 0, "client/0": 0}
    assert made not in namespaces()


def test_without_namespaces_everything_goes_over_loopback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lab, "unavailable", lambda: "network namespaces need root")
    with open_lab({"server": Line(), "client/0": Line(0.04)}) as loopback:
        assert not loopback.is_shaped
        assert loopback.statistics() is None
        started(loopback)
        assert send_request(loopback).returncode == 0
        with pytest.raises(RuntimeError, match="no links that could be cut"):
            loopback.cut("client/0", "server")
    assert "need root; everything goes over loopback" in capsys.readouterr().err
