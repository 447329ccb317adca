"""The commands in docs/ray.md that one machine can run."""

import os
import re
import shlex
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
HOST = "192.168.1.10:6379"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SMALL = "--set data.limit=80 --set protocol.key_bits=512 --set protocol.insecure_keys=true"


def commands() -> list[str]:
    text = (ROOT / "docs" / "ray.md").read_text(encoding="utf-8")
    return [re.sub(r"\s*#.*", "", line) for block in BLOCK.findall(text) for line in block.splitlines()]


def test_the_page_has_five_commands_after_the_one_for_a_token() -> None:
    said = commands()
    assert said[0].startswith("export ") and len(said) == 6
    assert [line.split()[0] for line in said[1:]] == ["ray", "ray", "ray", "tacit", "ray"]


@pytest.fixture
def port() -> Iterator[int]:
    """A free port; the processes of a cluster started with it are ended afterwards."""
    with socket.socket() as free:
        free.bind(("", 0))
        number = free.getsockname()[1]
    yield number
    mark = re.compile(rf"(gcs-address|gcs_server_port|gcs_address|address)=\S*\b{number}\b")
    found = [one for one in psutil.process_iter(["cmdline"]) if mark.search(" ".join(one.info["cmdline"] or ()))]
    for one in found:
        one.kill()
    psutil.wait_procs(found, timeout=10)


@pytest.mark.long
def test_the_commands_make_a_cluster_of_two_nodes(tmp_path: Path, port: int) -> None:
    services = pytest.importorskip("ray._private.services", reason="needs the extra ray")
    here = services.get_node_ip_address()
    scripts = tmp_path / "bin"
    scripts.mkdir()
    for name, module in (("ray", "ray.scripts.scripts"), ("tacit", "tacit.__main__")):
        (scripts / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m {module} "$@"\n')
        (scripts / name).chmod(0o755)
    setting, *lines, stop = commands()
    own = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    own |= {
        "HOME": str(tmp_path), "PYTHONPATH": str(ROOT),
        "PATH": os.pathsep.join((str(scripts), sysconfig.get_path("scripts"), os.environ["PATH"])),
    }  # fmt: skip
    script = [setting, *(line.replace(HOST, f"{here}:{port}").replace("=6379", f"={port}") for line in lines)]
    script[-1] += f" {SMALL} --out run"
    count = f'import ray; ray.init("{here}:{port}", logging_level=40); print(len(ray.nodes()), "nodes")'
    script.append(f"python -c {shlex.quote(count)}")  # "auto" could find another test's cluster
    script.append(f"{stop} --help > stop.txt")  # without --help it would end the clusters of other tests
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(script)], cwd=tmp_path, env=own, capture_output=True, text=True,
        timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "completed" in done.stdout and "2 nodes" in done.stdout
    assert f'"engine": "ray:{here}:{port}"' in (tmp_path / "run" / "result.json").read_text()
