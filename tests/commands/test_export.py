"""`cfgen export` as a user types it: a small folder that is the same model, with examples and a card."""

import json
import shutil
from pathlib import Path

import pytest
import torch
import yaml

import cfgen
from cfgen.checkpoints import WEIGHTS
from cfgen.commands import evaluate, export, generate
from cfgen.runs.examples import read_examples
from cfgen.runs.export import recipe
from datamodules import MorphoMNIST
from tests.refusals import refusal


@pytest.fixture
def run(tiny_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(tiny_run, tmp_path / "run")


def test_an_export_is_the_same_model_without_what_only_training_needs(run, tmp_path, capsys):
    assert evaluate.main([str(run), "--count", "10"]) == 0
    assert export.main([str(run), "given", "--limits", "Blurs the digit 8."]) == 0
    assert sorted(path.name for path in (tmp_path / "given").iterdir()) == [
        "README.md",
        "SHA256SUMS",
        "config.yaml",
        "examples.safetensors",
        "metrics.json",
        "model.json",
        WEIGHTS,
    ]
    one, other = cfgen.load(run), cfgen.load("given")
    x = torch.rand(2, 1, 28, 28)
    a = {"thickness": [2.0, 3.0], "intensity": [100.0, 200.0], "slant": [0.1, 0.2], "label": [3, 4]}
    do = {"thickness": 3.0, "label": 7}
    assert torch.equal(one.counterfactual(x, a, do).images, other.counterfactual(x, a, do).images)
    names = other.module.state_dict()
    assert not any(name.startswith(("D.", "P.", "averages.")) for name in names)
    assert len(names) < len(one.module.state_dict())
    card = (tmp_path / "given" / "README.md").read_text()
    for part in (
        "# given",
        "thickness: continuous, ",
        "5,000 of MNIST's training digits",
        "has 16 test images",
        "thickness → intensity",
        "| mse_x |",
        "max_epochs: 2",
        "Blurs the digit 8.",
    ):
        assert part in card
    assert "cache_dir" not in yaml.safe_load((tmp_path / "given" / "config.yaml").read_text())["data"]["init_args"]
    assert str(tmp_path) not in card


def test_half_precision_takes_half_the_size_and_draws_the_same(run, tmp_path):
    assert export.main([str(run), "whole"]) == 0
    assert export.main([str(run), "small", "--half"]) == 0
    whole, small = ((tmp_path / name / WEIGHTS).stat().st_size for name in ("whole", "small"))
    assert 0.4 < small / whole < 0.6
    one, other = cfgen.load("whole"), cfgen.load("small")
    x, a = one.examples()
    images = [model.counterfactual(x, a, {"thickness": 3.0}) for model in (one, other)]
    assert (images[0].images - images[1].images).abs().max() < 1 / 255
    assert torch.equal(images[0].attributes["intensity"], images[1].attributes["intensity"])  # the SCM stays exact


def test_an_export_is_exported_again_and_generates(run, tmp_path, digits_cache, monkeypatch, capsys):
    assert export.main([str(run), "given"]) == 0
    assert "no scores" in capsys.readouterr().out
    assert cfgen.load("given").save(tmp_path / "again") == tmp_path / "again"
    monkeypatch.setenv("XDG_CACHE_HOME", str(digits_cache))
    image = tmp_path / "digit.png"
    generated = tmp_path / "out"
    torch.manual_seed(0)
    from PIL import Image

    digit = Image.new("L", (28, 28))
    digit.paste(200, (12, 5, 16, 23))
    digit.save(image)
    words = ["given", "--do", "label=7", "--images", str(image), "--given", "label=3", "--out", str(generated)]
    assert generate.main(words) == 0


def test_the_folder_is_the_runs_name_unless_given(run, tmp_path, capsys):
    assert export.main([str(run)]) == 0
    assert "wrote quickstart (" in capsys.readouterr().out
    assert cfgen.load("quickstart").schema.spec == cfgen.load(run).schema.spec
    before = (tmp_path / "quickstart" / "README.md").read_bytes()
    refusal(export.main, [run / "best.ckpt"], capsys, "folder")  # the same name
    assert (tmp_path / "quickstart" / "README.md").read_bytes() == before


def test_examples_are_the_first_test_images_and_survive_a_second_export(run, digits_cache):
    data = MorphoMNIST(limit=300, cache_dir=str(digits_cache))
    data.setup("test")
    assert export.main([str(run), "given", "--examples", "5"]) == 0
    shutil.rmtree(run)
    assert export.main(["given", "again", "--examples", "3"]) == 0
    for folder, rows in (("given", 5), ("again", 3)):
        images, columns = read_examples(Path(folder), data.schema)
        assert torch.equal(images, data.images("test")[:rows])
        assert all(torch.equal(columns[name], column[:rows]) for name, column in data.columns("test").items())
    assert export.main(["given", "none", "--examples", "0"]) == 0
    assert read_examples(Path("none"), data.schema) is None


def test_scores_with_standard_errors(run, tmp_path):
    found = {
        "mse_x": 0.25,
        "mae_z": 1.5,
        "standard_errors": {"mse_x": 0.01},
        "of_another_time": {"mse_x": 7.0},
        "images": 1000,
        "split": "test",
        "seed": 3,
    }
    (run / "metrics.json").write_text(json.dumps(found))
    assert export.main([str(run), "given"]) == 0
    card = (tmp_path / "given" / "README.md").read_text()
    assert "1,000 test images, seed 3, as `cfgen evaluate` scored them; ± is one standard error." in card
    assert "| mse_x | 0.25 ± 0.01 |\n| mae_z | 1.5 |\n" in card
    assert "of_another_time" not in card
    assert json.loads((tmp_path / "given" / "metrics.json").read_text()) == found


def test_earlier_runs_are_named_not_located(tmp_path):
    """`mechanism: /home/me/runs/faces_styleali/001` means nothing elsewhere; its config's name can be trained."""
    model = {"class_path": "lightning_modules.CyclicEncoder", "init_args": {"mechanism": "/x/runs/faces_styleali/001"}}
    data = {"class_path": "datamodules.Faces", "init_args": {"cache_dir": "/x", "count": 100}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"model": model, "data": data}))
    config = recipe(tmp_path / "config.yaml")
    assert config["model"]["init_args"] == {"mechanism": "faces_styleali"}
    assert config["data"]["init_args"] == {"count": 100}


def test_refusals(run, capsys):
    refusal(export.main, [run, run], capsys, "folder")
    assert "nowhere" in refusal(export.main, ["nowhere", "given"], capsys)
    (run / "metrics.json").write_text('{"mse_x": 0.2')
    assert "metrics.json" in refusal(export.main, [run, "given"], capsys)
