"""A folder of pictures from nothing to an audit, a repair and an export: by commands and YAML alone."""

import csv
import json
import shutil
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
import yaml
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from safetensors.torch import load_file

from cfgen.__main__ import main as cfgen
from tests.datamodules.image_folder import INSIDE, make_folder

EXTENTS = ["large", "middle", "small"]  # as the data has them: in the order of the alphabet
FEW = "--trainer.max_epochs 1 --trainer.limit_train_batches 2 --trainer.check_val_every_n_epoch 1 --trainer.accelerator cpu"
FEW += " --trainer.enable_progress_bar false --data.batch_size 8"
QUICK = "--predictor none --explain none --accelerator cpu"

# networks that a user brings: they look at the mean colour alone, so that red is large and blue is small
MODELS = """
import torch
from torch import nn

def extent():
    network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 3))
    with torch.no_grad():
        network[2].weight.copy_(torch.tensor([[9.0, -3.0, -6.0], [0.0, 1.0, 0.0], [-9.0, 3.0, 6.0]]))
        network[2].bias.zero_()
    return network

def is_large():
    network = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 1))
    with torch.no_grad():
        network[2].weight.copy_(torch.tensor([[9.0, -3.0, -6.0]]))
        network[2].bias.zero_()
    return network
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with the folder `meine Bilder`: a table, and pictures of about 96 x 96 pixels in one zip."""
    folder = tmp_path / "meine Bilder"
    make_folder(folder, sides=(90, 131))
    with zipfile.ZipFile(folder / "größe.zip", "w") as archive:
        for path in sorted((folder / INSIDE).iterdir()):
            archive.write(path, f"{INSIDE}/{path.name}")
    shutil.rmtree(folder / INSIDE)
    (folder / "attributes.yaml").write_text("target: extent\nedges: [[round, size]]\nimage_size: 96\n")
    (tmp_path / "own_models.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("WANDB_MODE", "disabled")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield tmp_path
    sys.modules.pop("own_models", None)


def give(command: str, *more: str) -> None:
    """A command as it is typed, in which `more` are words that may have spaces."""
    assert cfgen([*command.split(), *more]) == 0, command


def biases(folder: str) -> dict[tuple[str, str], float]:
    """By intervention and class, what an audit's table says."""
    with Path(folder, "bias.csv").open(newline="") as file:
        return {(row["change"], row["classifier"]): float(row["bias"]) for row in csv.DictReader(file)}


def flips(folder: str) -> list[list[str]]:
    """How many images go from which class to which, without the name of the classifier."""
    with Path(folder, "flips.csv").open(newline="") as file:
        return [row[1:] for row in csv.reader(file)]


def write_onnx(path: Path) -> None:
    """`own_models:extent` as an ONNX file."""
    from own_models import extent  # type: ignore[import-not-found]  # written by the fixture

    weights = [numpy_helper.from_array(value.detach().numpy(), name) for name, value in extent()[2].named_parameters()]
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("Gemm", ["flat", "weight", "bias"], ["y"], transB=1),
    ]
    taken = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 96, 96])
    returned = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])
    graph = helper.make_graph(nodes, "extent", [taken], [returned], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


@pytest.mark.slow
def test_from_a_folder_to_a_report_a_repair_and_an_export(place: Path, capsys: pytest.CaptureFixture) -> None:
    # data: what it is, and a config that needs no change
    give("data --write mine.yaml --out look", "meine Bilder")
    assert (place / "look" / "data.html").is_file()
    written = yaml.safe_load((place / "mine.yaml").read_text())
    assert written["data"]["class_path"] == "datamodules.ImageTable"

    # fit and generate: values by name, and two at once
    give(f"fit --config mine.yaml --model.width 0.1 --model.latent_dim 4 {FEW}")
    give("generate runs/mine --do hair_colour=red --do size=5,round=1 --index 0-2 --out drawn")
    with Image.open(next((place / "drawn").glob("000*original.png"))) as original:
        assert (original.size, original.mode) == ((96, 96), "RGB")

    # evaluate, by a predictor of the same folder
    give(
        f"fit --config morphomnist_predictor --data image_table --name reader --model.width 0.05 {FEW}",
        "--data.data_dir",
        "meine Bilder",
    )
    give("evaluate runs/mine --predictor runs/reader --count 8 --accelerator cpu --fid tests.evaluation.scoring:Bands")

    # audit: a run with three classes, a network of three and of one answer, an ONNX file
    give(f"fit --config mine.yaml --config classifier --name kinds --model.width 0.05 {FEW}")
    ask = f"audit --model runs/mine --do hair_colour=red --do round=1 {QUICK}"
    write_onnx(place / "ö extent.onnx")
    give(f"{ask} --classifier runs/kinds --out of_run")
    give(f"{ask} --classifier own_models:extent --out of_module")
    give(f"{ask} --keep_residual --classifier own_models:is_large --label large --out of_yes_or_no")
    give(f"{ask} --out of_onnx --classifier", "ö extent.onnx")
    for folder in ("of_run", "of_module", "of_onnx"):
        assert (place / folder / "report.html").is_file()
        found = biases(folder)
        assert {name for _, name in found} == set(EXTENTS)
        for change in ("hair_colour=red", "round=1"):
            assert sum(found[change, name] for name in EXTENTS) == pytest.approx(0, abs=1e-6)
    assert flips("of_module") == flips("of_onnx")  # the same network
    assert "“large”" in (place / "of_yes_or_no" / "report.html").read_text()

    # repair of the network that was brought: its own code loads the weights, and they answer as the run does
    repair = (
        f"fit --config mine.yaml --config repair --model.classifier own_models:extent --model.mechanism runs/mine {FEW}"
    )
    give(f"{repair} --name repaired --model.do", "[{hair_colour: red}]")
    bias = yaml.safe_load((place / "runs/repaired/001/config.yaml").read_text())["trainer"]["callbacks"][0]
    assert bias["init_args"]["every_n_epochs"] == 1  # and not what mine.yaml says of its own first callback
    from own_models import extent

    network = extent()
    before = network[2].weight.clone()
    network.load_state_dict(load_file(place / "runs/repaired/001/repaired.safetensors"))
    assert not torch.equal(network[2].weight, before)
    give(f"{ask} --classifier own_models:extent --classifier runs/repaired --trusted --out after")
    assert len(json.loads((place / "after" / "audit.json").read_text())["classes"]) == 2

    # export: what a stranger needs, and no picture of the folder
    give("export runs/mine given --examples 0")
    give("verify given")
    shutil.rmtree(place / "meine Bilder")
    shutil.rmtree(place / "runs")
    Image.fromarray(np.full((120, 100, 3), 90, np.uint8)).save("ein Bild, größer.png")
    give(
        "generate given --do hair_colour=green --out theirs --given hair_colour=blau,size=5,round=0 --images",
        "ein Bild, größer.png",
    )
    assert list((place / "theirs").glob("000-ein Bild, größer.png-original.png"))


def test_a_repair_says_that_it_needs_interventions(place: Path, capsys: pytest.CaptureFixture) -> None:
    """The config names none: they are the data's own."""
    assert cfgen(["fit", "--config", "repair", "--data.data_dir", "meine Bilder"]) == 2
    assert "model.do" in capsys.readouterr().err.splitlines()[-1]
