"""Models that come with cfgen: found by name, tried without their data, never written to, and what damaged ones say."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

import cfgen
from cfgen import checkpoints
from cfgen.checkpoints import CARD, EXAMPLES, WEIGHTS, load_module, packaged_models
from cfgen.commands import export, generate
from cfgen.errors import UserError
from cfgen.io.checksums import CHECKSUMS
from cfgen.runs.data import results_folder, run_data, run_folder
from cfgen.runs.examples import read_examples
from datamodules import CelebA, Faces, MorphoMNIST
from lightning_modules import Classifier
from tests.refusals import refusal

ROOT = Path(__file__).parents[2]
LIMIT = 15_000_000  # bytes, of all packaged models together


@pytest.fixture
def packaged(tiny_run, digits_cache, tmp_path, monkeypatch) -> Path:
    """A packaged model `tiny-digits` of the published digits, on a machine that has no data at all."""
    run = shutil.copytree(tiny_run, tmp_path / "run")
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["data"]["init_args"] |= {"source": "published", "limit": None, "cache_dir": str(digits_cache)}
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    monkeypatch.delenv("CFGEN_DATA", raising=False)
    assert export.main([str(run), str(tmp_path / "weights" / "tiny-digits")]) == 0
    monkeypatch.setattr(checkpoints, "PACKAGED", tmp_path / "weights")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "weights" / "tiny-digits"


def test_found_by_name(packaged, tiny_run):
    assert packaged_models() == ["tiny-digits"]
    assert run_folder("tiny-digits") == packaged
    assert run_data("tiny-digits").source == "published"
    x = torch.rand(2, 1, 28, 28)
    a = {"thickness": [2.0, 3.0], "intensity": [100.0, 200.0], "slant": [0.1, 0.2], "label": [3, 4]}
    one, other = (cfgen.load(what).counterfactual(x, a, {"label": 7}) for what in (tiny_run, "tiny-digits"))
    assert torch.equal(one.images, other.images)


def test_examples_are_what_a_counterfactual_takes(packaged, tiny_run):
    model = cfgen.load("tiny-digits")
    x, a = model.examples()
    assert x.shape == (16, 1, 28, 28)
    assert model.counterfactual(x, a, {"label": 7}).images.shape == x.shape
    with pytest.raises(UserError):
        cfgen.load(tiny_run).examples()
    with pytest.raises(UserError) as refused:
        model.counterfactual(x, torch.zeros(16, 13), {"label": 7})
    assert refused.value.argument == "a"


def test_generates_from_its_examples_where_there_is_no_data(packaged, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(MorphoMNIST, "prepare_data", lambda self: pytest.fail("data was prepared"))
    assert generate.main(["tiny-digits", "--do", "thickness=3", "--out", "cf"]) == 0
    assert "5 of the 16 examples" in capsys.readouterr().out
    assert len(list(Path("cf").glob("*example-*-original.png"))) == 5
    refusal(generate.main, ["tiny-digits", "--do", "thickness=3", "--index", "14-16"], capsys, "index")


def test_published_digits_are_stood_in_for_by_embedded_ones(packaged, digits_cache):
    embedded = MorphoMNIST(limit=300, cache_dir=str(digits_cache))
    embedded.setup("test")
    images, columns = read_examples(packaged, embedded.schema)
    assert torch.equal(images, embedded.images("test")[:16])
    assert columns["label"].tolist() == [float(row % 10) for row in range(16)]
    card = (packaged / "README.md").read_text()
    assert "the 70,000 digits that DeepSCM published" in card
    assert "it may have seen their originals in training" in card


def test_only_images_that_may_be_given_away_are(tmp_path):
    assert CelebA(data_dir=str(tmp_path)).shareable() is None
    faces = Faces(count=100, cache_dir=str(tmp_path))
    assert faces.shareable() is faces
    assert {MorphoMNIST(source).shareable().source for source in ("embedded", "mnist", "published")} == {"embedded"}


def test_what_is_there_comes_before_what_is_packaged(packaged):
    shutil.copytree(packaged, "tiny-digits")
    assert run_folder("tiny-digits") == Path("tiny-digits")
    assert results_folder("tiny-digits") == Path("tiny-digits")
    (Path("tiny-digits") / CARD).unlink()  # even when it is no model
    with pytest.raises(UserError, match="tiny-digits holds no finished run"):
        cfgen.load("tiny-digits")


def test_results_do_not_go_where_cfgen_is_installed(packaged):
    assert results_folder("tiny-digits") == Path("runs/tiny-digits")
    assert results_folder(packaged) == Path("runs/tiny-digits")


def test_a_name_that_is_none(packaged, capsys):
    Path("runs/mine").mkdir(parents=True)
    line = refusal(generate.main, ["tiny-digit", "--do", "label=1"], capsys)
    assert "runs/mine" in line
    assert "Did you mean 'tiny-digits'" in line
    with pytest.raises(UserError, match="tiny-digits"):
        run_folder("tinydigits")
    with pytest.raises(UserError, match="Classifier"):
        load_module("tiny-digits", Classifier)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def without_slant(path: Path) -> None:
    save_file({name: value for name, value in load_file(path).items() if "slant" not in name}, path)


def one_image_less(path: Path) -> None:
    save_file({n: v[1:].contiguous() if n == "images" else v for n, v in load_file(path).items()}, path)


def one_weight_less(path: Path) -> None:
    save_file({name: value for name, value in load_file(path).items() if name != "net.stem.weight"}, path)


def other_shape(path: Path) -> None:
    save_file({n: v.flatten(2) if n == "images" else v for n, v in load_file(path).items()}, path)


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        (WEIGHTS, cut),
        (WEIGHTS, one_weight_less),
        (CARD, cut),
        (EXAMPLES, cut),
        (EXAMPLES, without_slant),
        (EXAMPLES, one_image_less),
        (EXAMPLES, other_shape),
    ],
)
def test_damage_is_said_in_one_line(packaged, capsys, file, damage):
    (packaged / CHECKSUMS).unlink()  # as of an earlier version: what is wrong shows without
    damage(packaged / file)
    line = refusal(generate.main, ["tiny-digits", "--do", "label=1"], capsys)
    assert "tiny-digits" in line


@pytest.mark.parametrize("name", ["faces-csali", "faces-modulated", "morphomnist-csali"])
def test_a_packaged_model_is_complete(name, tmp_path, monkeypatch):
    """Each that is shipped: a card with scores, examples, a recipe that is not of CelebA, and a counterfactual of it."""
    monkeypatch.chdir(tmp_path)
    folder = run_folder(name)
    assert {"## Data", "## Recipe", "## Scores", "## Limits"} <= set((folder / "README.md").read_text().splitlines())
    config = yaml.safe_load((folder / "config.yaml").read_text())
    assert config["data"]["class_path"] in ("datamodules.MorphoMNIST", "datamodules.Faces")
    model = cfgen.load(name)
    images, columns = read_examples(folder, model.schema)
    do = {model.schema.names[0]: columns[model.schema.names[0]].flip(0)}
    result = model.counterfactual(images, columns, do)
    assert (result.reconstructions - images / 255).abs().mean() < 0.1
    assert not torch.equal(result.images, result.reconstructions)


def test_the_command_of_the_readme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert generate.main(["morphomnist-csali", "--do", "thickness=5"]) == 0
    assert (tmp_path / "counterfactuals.png").stat().st_size > 5000


def test_packaged_models_are_small():
    assert sum(file.stat().st_size for file in checkpoints.PACKAGED.glob("**/*") if file.is_file()) <= LIMIT


def test_a_wheel_carries_them(packaged, tmp_path):
    """Built as pip does: what stands in cfgen/weights/NAME is in it, whole."""
    pytest.importorskip("setuptools")
    tree = tmp_path / "tree"
    tree.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    packages = ("cfgen", "lightning_modules", "datamodules", "callbacks", "configs")
    for name in packages:
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(packaged, tree / "cfgen" / "weights" / "tiny-digits")
    build = "import setuptools.build_meta as backend; backend.build_wheel('.')"
    done = subprocess.run([sys.executable, "-c", build], cwd=tree, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next(tree.glob("*.whl"))) as wheel:
        for file in packaged.iterdir():
            assert wheel.read(f"cfgen/weights/tiny-digits/{file.name}") == file.read_bytes()
        judges = {name.split("/")[3] for name in wheel.namelist() if name.startswith("cfgen/weights/judges/")}
        assert judges == {path.name for path in (ROOT / "cfgen" / "weights" / "judges").iterdir()}
