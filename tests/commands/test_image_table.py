"""A folder of pictures through the commands, as a user types them: no class, no code."""

import csv
import os
from pathlib import Path

import pytest
import yaml
from PIL import Image

from cfgen.commands import evaluate, export, fit, generate
from tests.datamodules.image_folder import make_folder

TINY = ["--model.width", "0.1", "--model.latent_dim", "4", "--trainer.max_epochs", "1"]
TINY += ["--trainer.limit_train_batches", "2", "--trainer.enable_progress_bar", "false"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with a folder, a part of a config that names it by a relative path, and a run on it."""
    place = tmp_path_factory.mktemp("place")
    make_folder(place / "mine")
    said = "attributes: {size: {kind: continuous, low: 3, high: 10, unit: mm}}\ntarget: extent\nimage_size: 16\n"
    (place / "mine" / "attributes.yaml").write_text(said + "edges: [[round, size]]\nframing: pad\n")
    part = "class_path: datamodules.ImageTable\ninit_args: {data_dir: mine, cache_dir: cache, batch_size: 8}\n"
    (place / "mine.yaml").write_text(part)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setenv("WANDB_MODE", "disabled")
        assert fit.main(["--config", "image_table", "--data", "mine.yaml", "--name", "run", *TINY]) == 0
    return place


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_run_finds_its_folder_from_anywhere(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = os.path.relpath(place / "runs" / "run", tmp_path)
    assert generate.main([run, "--do", "hair_colour=red", "--do", "size=5,round=1", "--out", "cf"]) == 0
    made = rows(tmp_path / "cf" / "attributes.csv")
    assert {row["hair_colour"] for row in made if row["do"] == "hair_colour=red"} == {"red"}
    assert {row["hair_colour"] for row in made} <= {"blau", "green", "red"}  # values are printed by name


def test_values_go_by_their_names(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.chdir(place)
    assert generate.main(["runs/run", "--do", "hair_colour=gren"]) == 2
    told = capsys.readouterr().err
    assert "Did you mean 'green'? Valid: blau, green, red" in told


def test_scores_and_export(
    place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """An export needs neither the folder nor attributes.yaml to frame a picture as the folder's were."""
    monkeypatch.chdir(place)
    assert evaluate.main(["runs/run", "--count", "10", "--predictor", "none"]) == 0
    assert export.main(["runs/run", str(tmp_path / "given")]) == 0
    arguments = yaml.safe_load((tmp_path / "given" / "config.yaml").read_text())["data"]["init_args"]
    assert "data_dir" not in arguments
    assert (arguments["framing"], arguments["image_size"], arguments["target"]["name"]) == ("pad", 16, "extent")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CFGEN_DATA", str(tmp_path / "nowhere"))
    Image.new("RGBA", (30, 60), (255, 0, 0, 255)).save("öther one.png")
    words = ["given", "--do", "hair_colour=red", "--images", "öther one.png"]
    assert generate.main([*words, "--given", "hair_colour=blau,size=5,round=0", "--out", "cf"]) == 0
    with Image.open(tmp_path / "cf" / "000-öther one.png-original.png") as original:
        assert [original.getpixel((x, 8)) for x in (0, 8, 15)] == [(0, 0, 0), (255, 0, 0), (0, 0, 0)]  # padded
    capsys.readouterr()
    assert evaluate.main(["given", "--count", "10", "--predictor", "none"]) == 2
    assert f"no folder {tmp_path / 'nowhere'}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "give data_dir or set the variable CFGEN_DATA"),
        (["--data.data_dir", "nowhere"], "there is no folder nowhere"),
        (["--data.data_dir", "mine", "--data.target", "size"], "column size: it is the target and also an attribute"),
        (["--data.data_dir", "mine", "--data.attributes", "[size, nose]"], "unknown column 'nose'"),
    ],
)
def test_what_is_wrong_is_said_in_a_line_before_training(
    place: Path, options: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.delenv("CFGEN_DATA", raising=False)
    assert fit.main(["--config", "image_table", "--name", "refused", *options, *TINY]) == 2
    assert message in capsys.readouterr().err
    assert not (place / "runs" / "refused").exists()
