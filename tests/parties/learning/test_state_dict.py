"""Files of weights: what is read, what is written, and the errors that name file, tensor, expected and found."""

import json
import pickle
import struct
from pathlib import Path

import pytest
import torch
from torch import nn

from tacit.parties.learning.jobs import initial, write_weights
from tacit.parties.learning.networks import build
from tacit.parties.learning.parameters import finished, flatten, load
from tacit.parties.learning.spec import ModelSpec, weights_in
from tacit.parties.learning.state_dict import load_weights, own_tensors
from tacit.sim.setting_error import Problem

SPEC = ModelSpec("fedct_svhn", (1, 8, 8), 3)


def written(network: nn.Module, path: Path) -> Path:
    write_weights(network, path)
    return path


def refused(path: Path, spec: ModelSpec = SPEC) -> str:
    """The error for a file of weights."""
    weights = weights_in(str(path))
    assert weights is not None
    with pytest.raises(Problem) as error:
        load_weights(build(spec), weights)
    assert error.value.key == "model.weights" and str(path) in str(error.value)
    return error.value.problem


@pytest.mark.parametrize("kind", ("safetensors", "torch", "old torch"))
def test_a_network_begins_with_the_numbers_of_a_file(tmp_path: Path, kind: str) -> None:
    network, path = build(SPEC), tmp_path / "weights"
    with torch.no_grad():
        for tensor in own_tensors(network).values():
            tensor.add_(1)
    if kind == "safetensors":
        write_weights(network, path)
    else:
        torch.save(network.state_dict(), path, _use_new_zipfile_serialization=kind == "torch")
    spec = ModelSpec(SPEC.name, SPEC.shape, SPEC.classes, weights=weights_in(str(path)))
    assert initial(spec, 1) == initial(spec, 2) == flatten(network)
    again = finished(spec, initial(spec, 1))  # counters of batch normalisation are not in the vector, but in the file
    assert all(torch.equal(own_tensors(again)[name], one) for name, one in own_tensors(network).items())
    assert not again.training


def test_the_written_file_is_that_of_the_format(tmp_path: Path) -> None:
    """Read without the library: a header's length in 8 bytes, the header in JSON, and the numbers as they are."""
    network = build(ModelSpec("linear", (2,), 2))
    load(network, torch.arange(6.0).numpy().tobytes())
    data = written(network, tmp_path / "weights").read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    assert header["head.weight"]["dtype"] == "F32" and header["head.weight"]["shape"] == [2, 2]
    begin, end = header["head.weight"]["data_offsets"]
    assert struct.unpack("<4f", data[8 + size + begin : 8 + size + end]) == (0, 1, 2, 3)


def test_tensors_with_two_names_may_be_under_one(tmp_path: Path) -> None:
    network = build(SPEC)
    network.body[2].weight = network.body[6].weight = nn.Parameter(torch.ones(32))  # type: ignore[index,union-attr]
    tensors = {name: one.detach().clone() for name, one in own_tensors(network).items()}
    del tensors["body.6.weight"]
    torch.save(tensors, tmp_path / "weights")
    weights = weights_in(str(tmp_path / "weights"))
    assert weights is not None
    load_weights(network, weights)


def test_errors_name_file_tensor_expected_and_found(tmp_path: Path) -> None:
    good = build(SPEC).state_dict()
    name = "head.weight"

    def error(changed: dict[str, object]) -> str:
        torch.save(changed, tmp_path / "weights")
        return refused(tmp_path / "weights")

    shape = tuple(good[name].shape)
    assert f"tensor 'head.weight': expected float32 {shape}, found float32 (5, 2)" in error(
        {**good, name: torch.zeros(5, 2)}
    )
    assert f"expected float32 {shape}, found float16 {shape}" in error({**good, name: good[name].half()})
    assert f"'head.weight' is missing: expected float32 {shape}; found 'body." in error(
        {key: one for key, one in good.items() if key != name}
    )
    assert "tensor 'tail' is float32 (1,), and the network has no such tensor" in error(
        {**good, "tail": torch.zeros(1)}
    )
    assert "infinite or not a number" in error({**good, name: torch.full(shape, torch.nan)})
    assert "without 'module.' in front, the names would fit" in error(
        {f"module.{key}": one for key, one in good.items()}
    )
    assert "with 'body.' in front" in error(
        {key.removeprefix("body."): one for key, one in good.items() if key.startswith("body.")}
    )
    assert "holds 'epoch', an object of type int" in error({"epoch": 3})  # type: ignore[dict-item]
    assert "save that one alone, if 'model' is the state dict" in error({"model": good})
    assert "sparse_coo float32" in error({**good, name: good[name].to_sparse()})


class Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (Path("evil"),))


def test_no_code_of_a_file_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"head.weight": Evil()}, "weights")
    assert "is no state dict of tensors alone" in refused(tmp_path / "weights")
    (tmp_path / "weights").write_bytes(pickle.dumps(Evil()))
    assert "is no state dict of tensors alone" in refused(tmp_path / "weights")
    assert not (tmp_path / "evil").exists()


def test_damaged_and_other_files_are_refused(tmp_path: Path) -> None:
    path = written(build(SPEC), tmp_path / "weights")
    path.write_bytes(path.read_bytes()[:-1])
    assert "is not a whole file of safetensors" in refused(path)
    path.write_text("not weights")
    assert "is not a whole file of safetensors" in refused(path)
    path.write_bytes(b"")
    assert "is not a whole file of safetensors" in refused(path)
    with pytest.raises(Problem, match="cannot be read: No such file"):
        weights_in(str(tmp_path / "none"))


def test_a_file_that_changes_after_the_run_began_is_refused(tmp_path: Path) -> None:
    path = written(build(SPEC), tmp_path / "weights")
    weights = weights_in(str(path))
    assert weights is not None
    path.write_bytes(path.read_bytes()[:-4] + b"\0\0\0\0")
    with pytest.raises(Problem, match="has changed since the run began"):
        load_weights(build(SPEC), weights)
