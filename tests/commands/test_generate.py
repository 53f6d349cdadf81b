"""`cfgen generate` as a user types it."""

import csv

import numpy as np
import pytest
import torch
from PIL import Image

from cfgen.commands import generate
from cfgen.runs import generation
from cfgen.runs.model import load_trained
from datamodules import Faces
from tests.refusals import refusal


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
    ("options", "argument"),
    [
        (["--do", "thicknes=3"], "do"),
        (["--do", "thickness=99"], "do"),
        (["--do", "label=12"], "do"),
        (["--do", "label"], "do"),
        (["--do", "label=1,label=2"], "do"),
        (["--do", "thickness=thin"], "do"),
        (["--do", "label=1", "--index", "0-900"], "index"),
        (["--do", "label=1", "--index", "0-99999999999"], "index"),
        (["--do", "label=1", "--index", "a"], "index"),
        (["--do", "label=1", "--index", "1", "--images", "blank.png"], "index"),
        (["--do", "label=1", "--given", "label=2"], "given"),
        (["--do", "label=1", "--images", "none.png"], "images"),
        (["--do", "label=1", "--images", "blank.png"], "given"),
        (["--do", "label=1", "--images", "blank.png", "--given", "lable=3"], "given"),
        (["--do", "label=1", "--images", "blank.png", "--given", "label=12"], "given"),
        (["--do", "label=1", "--images", "blank.png", "--given", "label=1,slant=much"], "given"),
        (["--do", "label=1", "--images", "blank.png", "--given", "label=1"], "given"),  # nothing to be measured on it
        (["--do", "label=1", "--out", "blank.png/deeper"], "out"),
        (["--do", "label=1", "--seed", "-1"], "seed"),
    ],
)
def test_bad_input_gets_one_line(tiny_run, here, capsys, options, argument):
    Image.new("L", (28, 28)).save(here / "blank.png")
    refusal(generate.main, [tiny_run, *options], capsys, argument)


def test_an_image_has_one_counterfactual_whatever_it_is_asked_with(tiny_run):
    """The seed and the image decide, not which others are chosen."""
    model = load_trained(tiny_run)
    several = generation.generate(model, [{"label": 7}], index=[0, 3, 5])
    (alone,) = generation.generate(model, [{"label": 7}], index=[3]).counterfactuals["label=7"]
    torch.testing.assert_close(several.counterfactuals["label=7"][1], alone)


def test_the_library_function_does_what_the_command_does(tiny_run, here, capsys):
    made = generation.generate(load_trained(tiny_run), [{"thickness": 3}, {"label": 7, "slant": 0.2}], index=range(2))
    assert capsys.readouterr().out == ""
    made.save("by_function")
    do = ["--do", "thickness=3", "--do", "label=7,slant=0.2"]
    assert generate.main([str(tiny_run), *do, "--index", "0-1", "--out", "by_command"]) == 0
    files = sorted(path.name for path in (here / "by_command").iterdir())
    assert files == sorted(path.name for path in (here / "by_function").iterdir())
    for file in files:
        assert (here / "by_command" / file).read_bytes() == (here / "by_function" / file).read_bytes()
    frame = made.to_frame()
    assert len(frame) == 4
    assert set(frame["do"]) == {"thickness=3", "label=7,slant=0.2"}


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
    assert "runs/none" in refusal(generate.main, ["runs/none", "--do", "label=1"], capsys)
