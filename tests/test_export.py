"""`cfgen export` as a user types it: a small folder that is the same model, and a card."""

import shutil

import pytest
import torch
import yaml

import cfgen
from cfgen import evaluate, export, generate
from cfgen.checkpoints import WEIGHTS


@pytest.fixture
def run(tiny_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(tiny_run, tmp_path / "run")


def test_an_export_is_the_same_model_without_what_only_training_needs(run, tmp_path, capsys):
    assert evaluate.main([str(run), "--images", "10"]) == 0
    assert export.main([str(run), "given", "--limits", "Blurs the digit 8."]) == 0
    assert sorted(path.name for path in (tmp_path / "given").iterdir()) == [
        "README.md",
        "config.yaml",
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
        "thickness: continuous",
        "thickness → intensity",
        "| mse_x |",
        "max_epochs: 2",
        "Blurs the digit 8.",
    ):
        assert part in card
    assert "cache_dir" not in yaml.safe_load((tmp_path / "given" / "config.yaml").read_text())["data"]["init_args"]
    assert str(tmp_path) not in card


def test_an_export_is_exported_again_and_generates(run, tmp_path, digits_cache, monkeypatch, capsys):
    assert export.main([str(run), "given"]) == 0
    assert "no scores" in capsys.readouterr().out
    assert cfgen.load("given").save(tmp_path / "again") == tmp_path / "again"
    monkeypatch.setenv("XDG_CACHE_HOME", str(digits_cache))
    image = tmp_path / "digit.png"
    generated = tmp_path / "out"
    torch.manual_seed(0)
    from PIL import Image

    Image.new("L", (28, 28), 90).save(image)
    words = ["given", "--do", "label=7", "--images", str(image), "--given", "label=3", "--out", str(generated)]
    assert generate.main(words) == 0


def test_refusals(run, capsys):
    assert export.main([str(run), str(run)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert export.main(["nowhere", "given"]) == 2
    assert "no run, checkpoint or exported model at nowhere" in capsys.readouterr().err
