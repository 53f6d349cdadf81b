"""`cfgen export MODEL --page DIR`: the pictures of `cfgen generate`, in a folder that is there whole or not at all."""

import json

import pytest
import torch

import cfgen
from cfgen.app.static_page import write_page
from cfgen.commands import export
from cfgen.errors import UserError
from tests.app.world import MODEL, pixels_of
from tests.refusals import refusal


def contents(folder):
    text = (folder / "frames.js").read_text()
    return json.loads(text.removeprefix("const page = ").removesuffix(";\n"))


def test_the_frames_are_those_of_generate(here, tmp_path, capsys):
    folder = tmp_path / "site"
    assert export.main([MODEL, "--page", str(folder), "--examples", "2"]) == 0
    assert f"wrote {folder / 'index.html'}" in capsys.readouterr().out
    assert {file.name for file in folder.iterdir()} == {"index.html", "app.css", "shared.js", "page.js", "frames.js"}
    found = contents(folder)
    assert len(found["examples"]) == 2
    assert {name: len(frames) for name, frames in found["examples"][0]["frames"].items()} == {
        "size": 17,
        "gloss": 17,
        "colour": 2,
        "<b>wet": 2,
    }
    model = cfgen.load(MODEL)
    for name, place in (("size", 12), ("colour", 1)):
        frame = found["examples"][1]["frames"][name][place]
        made = model.generate([{name: frame["value"]}], index=[1])
        (image,) = made.counterfactuals.values()
        assert torch.equal(pixels_of(frame["counterfactual"]), (image[0, 0].clamp(0, 1) * 255).round().to(torch.uint8))
    assert found["examples"][1]["frames"]["size"][12]["moved"] == ["gloss"]


def test_it_needs_nothing_from_elsewhere(here, tmp_path):
    folder = write_page(cfgen.load(MODEL), tmp_path / "site", examples=1).folder
    for file in folder.iterdir():
        text = file.read_text().replace("http://www.w3.org/2000/svg", "")  # the name of a format, which nothing opens
        assert "http:" not in text
        assert "https:" not in text
        assert 'src="/' not in text
        assert 'href="/' not in text


def test_refusals(here, tmp_path, capsys, monkeypatch):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_text("")
    assert "there" in refusal(export.main, [MODEL, "--page", tmp_path / "there"], capsys, "page")
    refusal(export.main, [MODEL, "--page", tmp_path / "new", "--examples", "0"], capsys, "examples")
    refusal(export.main, [MODEL, "folder", "--page", tmp_path / "new"], capsys, "folder")
    refusal(export.main, [MODEL, "--half", "--page", tmp_path / "new"], capsys, "half")
    from tests.app.world import Signs

    monkeypatch.setattr(Signs, "shareable", lambda self: None)  # as photographs of people
    refusal(export.main, [MODEL, "--page", tmp_path / "new"], capsys)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["there"]


def test_a_page_that_cannot_be_written_leaves_nothing(here, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError) as told:
        write_page(cfgen.load(MODEL), tmp_path / "file" / "site", examples=1)
    assert told.value.argument == "page"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
