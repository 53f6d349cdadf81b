"""`cfgen generate` as a user types it."""

import csv

import numpy as np
import pytest
import torch
from PIL import Image

from cfgen import generate
from datamodules import Faces


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_grid_singles_and_table(tiny_run, here, capsys):
    do = ["--do", "thickness=3", "--do", "label=7,slant=0.2"]
    assert generate.main([str(tiny_run), *do, "--index", "0-2,5", "--out", "cf"]) == 0
    assert "grid: cf/grid.png" in capsys.readouterr().out
    rows = list(csv.DictReader((here / "cf/attributes.csv").open()))
    assert len(rows) == 4 * 2
    assert {row["thickness"] for row in rows if row["do"] == "thickness=3"} == {"3"}
    assert {(row["label"], row["slant"]) for row in rows if "label" in row["do"]} == {("7", "0.2")}
    for row in rows:
        assert Image.open(here / "cf" / row["file"]).size == (28, 28)
    assert Image.open(here / "cf/grid.png").size[0] > 300


def test_grids_are_never_overwritten(tiny_run, here):
    for _ in range(2):
        assert generate.main([str(tiny_run), "--do", "label=1", "--index", "0"]) == 0
    assert sorted(p.name for p in here.glob("*.png")) == ["counterfactuals-2.png", "counterfactuals.png"]


def test_images_of_ones_own(tiny_run, here):
    image = Image.new("L", (56, 56))
    image.paste(200, (20, 8, 30, 48))
    image.save(here / "mine.png")
    options = ["--do", "label=7", "--images", "mine.png", "--given", "label=1", "--out", "cf"]
    assert generate.main([str(tiny_run), *options]) == 0
    (row,) = csv.DictReader((here / "cf/attributes.csv").open())
    assert 3 < float(row["thickness"]) < 7  # measured: a bar five pixels wide
    assert row["label"] == "7"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--do", "thicknes=3"], "unknown attribute 'thicknes'. Did you mean 'thickness'"),
        (["--do", "thickness=99"], "do(thickness=99) is out of range. Valid: "),
        (["--do", "label=12"], "unknown value '12'"),
        (["--do", "label"], "written name=value"),
        (["--do", "label=1,label=2"], "set twice"),
        (["--do", "label=1", "--index", "0-900"], "there are 30 test images, 0 to 29"),
        (["--do", "label=1", "--index", "a"], "--index takes numbers and ranges"),
        (["--do", "label=1", "--given", "label=2"], "--given goes with --images"),
        (["--do", "label=1", "--images", "none.png"], "none.png cannot be read as an image"),
        (["--do", "label=1", "--images", "blank.png"], "Say --given label=VALUE"),
        (["--do", "thickness=thin"], "do(thickness): 'thin' is not a number"),
        (
            ["--do", "label=1", "--images", "blank.png", "--given", "lable=3"],
            "--given: unknown attribute 'lable'. Did you",
        ),
        (["--do", "label=1", "--images", "blank.png", "--given", "label=12"], "label: unknown value '12'"),
        (
            ["--do", "label=1", "--images", "blank.png", "--given", "label=1,slant=much"],
            "slant: 'much' is not a number",
        ),
        (["--do", "label=1", "--images", "blank.png", "--given", "label=1"], "thickness is not known of every image"),
        (["--do", "label=1", "--out", "blank.png/deeper"], "cannot write blank.png/deeper: Not a directory"),
    ],
)
def test_bad_input_gets_one_line(tiny_run, here, capsys, options, message):
    Image.new("L", (28, 28)).save(here / "blank.png")
    assert generate.main([str(tiny_run), *options]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err


def test_faces_of_ones_own_are_framed_as_in_training(tmp_path):
    """The very file of a data set gives the very pixels that the model was trained on; other sizes their middle."""
    faces = Faces(count=20, cache_dir=str(tmp_path))
    faces.prepare_data()
    faces.setup()
    file = next(faces.folder().rglob(faces.names("test")[0]))
    framed = faces.framed(Image.open(file))
    assert torch.equal(torch.from_numpy(np.array(framed)).permute(2, 0, 1), faces.images("test")[0])
    wide = Image.new("RGB", (300, 100))
    wide.paste((255, 0, 0), (100, 0, 200, 100))
    assert np.array(faces.framed(wide))[..., 0].min() > 200


def test_a_run_that_is_not_there(here, capsys):
    assert generate.main(["runs/none", "--do", "label=1"]) == 2
    assert "no run, checkpoint or exported model at runs/none" in capsys.readouterr().err
