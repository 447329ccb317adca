"""A model goes into a run and comes out of it: by key, command and in Python."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from tacit import Result, ScenarioError, load, predict, run
from tacit.protocols.federated.experiment import model_of
from tacit.scenarios.command.main import app
from tacit.scenarios.deploying.plan import digest_of
from tacit.scenarios.files.splits import parts_of

TINY = """
[data]
name = "digits"
clients = 3
limit = 150
labeled = 0.5
[protocol]
name = "fedavg"
[model]
embedding = 8
[training]
rounds = 2
"""
FROZEN = """
import torch
from torch import nn
from tacit import add_model

def build(spec):
    body = nn.Sequential(nn.Flatten(), nn.Linear(64, 6))
    body.requires_grad_(False)
    return body, nn.Linear(6, spec.classes)

add_model("frozen", "a linear layer behind a frozen one", build)
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """A run of two rounds."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "tiny.toml").write_text(TINY)
    return run(load(folder / "tiny.toml"), out=folder / "run", engine="inline")


def again(trained: Result, path: Path, *changes: str) -> Result:
    """A run of the same file that starts from the weights at `path`."""
    file = trained.folder.parent / "tiny.toml"
    return run(load(file, [f"model.weights={path}", *changes]), out=path.with_suffix(".run"), engine="inline")


def command(*arguments: object) -> str:
    found = CliRunner().invoke(app, [str(one) for one in arguments])
    assert found.exit_code == 0, found.output
    return found.output


def test_a_model_comes_out_by_the_names_of_its_state_dict(trained: Result, tmp_path: Path) -> None:
    output = command("model", trained.folder, "--out", tmp_path / "m.safetensors")
    assert "network.load_state_dict(load_file(" in output and "4 tensors, 610 numbers" in output
    module = trained.model()
    found = load_file(tmp_path / "m.safetensors")
    assert found.keys() == module.state_dict().keys()
    module.load_state_dict(found)
    with np.load(trained.folder / "model.npz") as arrays:
        numbers = torch.cat([one.detach().flatten() for one in module.parameters()])
        assert np.array_equal(numbers, arrays["parameters"])
    twice = CliRunner().invoke(app, ["model", str(trained.folder), "--out", str(tmp_path / "m.safetensors")])
    assert twice.exit_code == 2 and "exists already" in twice.stderr


def test_the_module_of_a_result_gives_the_accuracy_of_the_run(trained: Result) -> None:
    test = parts_of(load(trained.folder)).test
    assert test is not None
    with torch.no_grad():
        found = trained.model()(torch.from_numpy(test.points))
    assert float((found.argmax(1).numpy() == test.labels).mean()) == pytest.approx(trained.accuracy)
    assert trained.model(selected=True).state_dict().keys() == trained.model().state_dict().keys()


@pytest.mark.parametrize("kind", ("safetensors", "torch", "npz"))
def test_a_run_begins_from_any_file_of_weights(trained: Result, tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"m.{kind}"
    if kind == "npz":
        shutil.copy(trained.folder / "model.npz", path)
    elif kind == "torch":
        torch.save(trained.model().state_dict(), path)
    else:
        command("model", trained.folder, "--out", path)
    found = again(trained, path)
    assert found.equals_plaintext and found.inputs.keys() == {"model.weights"}
    assert found.model_digest == REFERENCE.setdefault("digest", found.model_digest) != trained.model_digest
    assert predict(load(found.folder), seeds=1).virtual_seconds == pytest.approx(found.virtual_seconds)


REFERENCE: dict[str, str | None] = {}


def test_a_file_that_does_not_fit_is_an_error_before_the_run(trained: Result, tmp_path: Path) -> None:
    command("model", trained.folder, "--out", tmp_path / "m.safetensors")
    for change, message in (
        (
            "model.embedding=9",
            r"m.safetensors: tensor 'body.1.weight': expected float32 \(9, 64\), found float32 \(8, 64\)",
        ),
        ("model.name=linear", "the network has no such tensor"),
    ):
        with pytest.raises(ScenarioError, match=message):
            again(trained, tmp_path / "m.safetensors", change)
        with pytest.raises(ScenarioError, match=message):
            predict(trained.folder.parent / "tiny.toml", [f"model.weights={tmp_path}/m.safetensors", change])
    with pytest.raises(ScenarioError, match=r"model.weights: .*none cannot be read"):
        again(trained, tmp_path / "none")


def test_frozen_tensors_begin_as_in_the_file_in_every_worker(tmp_path: Path) -> None:
    (tmp_path / "frozen.py").write_text(FROZEN)
    (tmp_path / "t.toml").write_text('plugins = ["frozen.py"]\n' + TINY.replace("embedding = 8", 'name = "frozen"'))
    torch.manual_seed(5)
    state = {
        "body.1.weight": torch.randn(6, 64), "body.1.bias": torch.zeros(6),
        "head.weight": torch.zeros(10, 6), "head.bias": torch.zeros(10),
    }  # fmt: skip
    torch.save(state, tmp_path / "m.pt")
    scenario = load(tmp_path / "t.toml", [f"model.weights={tmp_path}/m.pt"])
    one = run(scenario, out=tmp_path / "one", engine="inline")
    other = run(scenario, out=tmp_path / "other", engine="pool:2")
    assert one.trace_hash == other.trace_hash and one.model_digest == other.model_digest
    assert torch.equal(one.model().state_dict()["body.1.weight"], state["body.1.weight"])
    assert not torch.equal(one.model().state_dict()["head.weight"], state["head.weight"])
    on = run(load(tmp_path / "t.toml", [f"model.weights={one.folder}/model.npz"]), out=tmp_path / "on", engine="inline")
    assert torch.equal(on.model().state_dict()["body.1.weight"], state["body.1.weight"])
    (tmp_path / "m.pt").unlink()
    with pytest.raises(ScenarioError, match=r"m.pt cannot be read"):
        one.model()


def test_a_copy_of_the_file_goes_into_an_artifact_and_is_agreed_on_by_its_content(
    trained: Result, tmp_path: Path
) -> None:
    command("model", trained.folder, "--out", tmp_path / "m.safetensors")
    found = again(trained, tmp_path / "m.safetensors")
    output = command("artifact", found.folder, "--out", tmp_path / "artifact")
    assert f"outside   {tmp_path / 'm.safetensors'}" in output
    made = json.loads((tmp_path / "artifact" / "artifact.json").read_text())
    assert [one["path"].rpartition("/")[2] for one in made["runs"][0]["files"]] == ["m.safetensors"]
    shutil.copy(tmp_path / "m.safetensors", tmp_path / "same.safetensors")
    file = trained.folder.parent / "tiny.toml"
    same, other = (load(file, [f"model.weights={tmp_path / name}"]) for name in ("same.safetensors", "m.safetensors"))
    assert digest_of(same, seeded=True) == digest_of(other, seeded=True) != digest_of(load(file), seeded=True)


def test_a_run_without_a_model_says_so(trained: Result, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(trained.folder, tmp_path / "copy"))
    (folder / "model.npz").unlink()
    found = CliRunner().invoke(app, ["model", str(folder)])
    assert found.exit_code == 2 and "has no model.npz" in found.stderr and len(found.stderr.splitlines()) == 1
    assert CliRunner().invoke(app, ["model", str(tmp_path / "nothing")]).exit_code == 2


def test_the_key_of_the_network_has_the_digest_of_the_file(trained: Result, tmp_path: Path) -> None:
    command("model", trained.folder, "--out", tmp_path / "m.safetensors")
    scenario = load(trained.folder.parent / "tiny.toml", [f"model.weights={tmp_path}/m.safetensors"])
    weights = model_of(scenario, parts_of(scenario).held).weights
    assert weights is not None and len(weights.sha256) == 64
