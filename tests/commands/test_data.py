"""`python -m cfgen.data`: what it prints, writes and refuses."""

import sys
import types
from pathlib import Path

import pytest
import yaml
from PIL import Image

import datamodules
from cfgen.commands import fit
from cfgen.commands.data import main
from cfgen.data.opening import built_data, data_section
from datamodules.image_table import TableError
from tests.datamodules.image_folder import make_folder, write_table
from tests.fakes import DIGITS, Painted
from tests.refusals import refusal


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digits_cache: Path) -> list[str]:
    """Words of a command that looks at 300 digits, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return ["morpho_mnist", "--cache_dir", str(digits_cache), "--limit", "300"]


def test_shows_what_is_in_a_packaged_set(few, capsys, digits_cache):
    assert main(few) == 0
    printed = capsys.readouterr().out
    assert any(path.name in printed for path in digits_cache.glob("*.npz"))
    assert "300 images (240 train, 30 val, 30 test), 28 x 28 pixels, grey" in printed
    for name in ("thickness", "intensity", "slant", "label"):
        assert name in printed
    assert "thickness → intensity" in printed
    assert "cannot prove" in printed
    assert not list(Path().iterdir())  # nothing is written that was not asked for


def test_options_reach_the_data_and_win_over_a_config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = {"seed": 3, "independent_slant": True, "source": "mnist", "limit": 200, "cache_dir": "here"}
    section = data_section("morpho_mnist", given)
    assert section["init_args"] == {"batch_size": 100} | given | {"cache_dir": str(tmp_path / "here")}
    data = built_data(section)
    assert (data.seed, data.independent_slant, data.source, data.limit) == (3, True, "mnist", 200)


def test_writes_a_page_and_a_sheet(few):
    assert main([*few, "--out", "look"]) == 0
    assert {"data.html", "data.json", "overlap.csv", "sheet.png"} <= {path.name for path in Path("look").iterdir()}
    Path("sheet.png").write_text("is replaced")
    assert main([*few, "--out", "sheet.png"]) == 0
    with Image.open("sheet.png") as sheet:
        assert min(sheet.size) > 600


def test_a_written_config_runs_and_is_never_replaced(few, capsys, monkeypatch, digits_cache):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert main([*few, "--write", "mine.yaml"]) == 0
    written = Path("mine.yaml").read_text()
    options = yaml.safe_load(written)["data"]["init_args"]
    assert options["limit"] == 300
    assert options["cache_dir"] == str(digits_cache.resolve())
    refusal(main, [*few, "--write", "mine.yaml"], capsys, "write")
    assert Path("mine.yaml").read_text() == written
    small = ["--trainer.max_epochs", "1", "--trainer.check_val_every_n_epoch", "1", "--model.width", "0.1"]
    assert fit.main(["--config", "mine.yaml", *small, "--trainer.enable_progress_bar", "false"]) == 0
    assert Path("runs/mine/001/best.ckpt").is_file()
    assert list(Path("runs/mine/001/images").glob("*counterfactuals.png"))


def test_a_folder_is_an_image_table_and_is_exported(tmp_path, monkeypatch, capsys):
    """The folder goes to ImageTable by its absolute path; what the table found and guessed is shown and kept."""
    monkeypatch.chdir(tmp_path)
    Path("my images").mkdir()
    asked, exported = [], []

    class Table(Painted):
        description = "attributes:\n  thickness: {kind: continuous}  # a guess\n"
        findings = (types.SimpleNamespace(severity="warning", file="a.png", row=3, column=None, message="[odd] value"),)

        def __init__(self, data_dir: str, batch_size: int = 30) -> None:
            asked.append((data_dir, batch_size))
            super().__init__(DIGITS, [["thickness", "label"]], rows=120)

    def write_image_folder(data, folder):
        exported.append((type(data), folder))
        return folder

    monkeypatch.setattr(datamodules, "ImageTable", Table, raising=False)
    module = types.SimpleNamespace(write_image_folder=write_image_folder, TableError=TableError)
    monkeypatch.setitem(sys.modules, "datamodules.image_table", module)
    assert main(["my images", "--out", "look", "--export", "folder", "--write", "mine.yaml"]) == 0
    printed = capsys.readouterr().out
    assert "warning: [odd] value (file a.png, row 3)" in printed
    assert "# a guess" in printed
    assert asked == [(str(tmp_path / "my images"), 30)]
    assert exported == [(Table, Path("folder"))]
    assert Path("look/attributes.yaml").read_text() == Table.description
    section = yaml.safe_load(Path("mine.yaml").read_text())["data"]
    assert section["class_path"] == "datamodules.ImageTable"
    assert section["init_args"]["data_dir"] == str(tmp_path / "my images")


def test_everything_that_is_wrong_with_a_table_is_listed_at_once(tmp_path, capsys):
    records = make_folder(tmp_path / "mine")
    records[3]["size"] = records[5]["round"] = ""
    write_table(tmp_path / "mine", records)
    assert main([str(tmp_path / "mine")]) == 2
    said = capsys.readouterr()
    assert [line.partition(", ")[2].partition(":")[0] for line in said.out.splitlines()] == [
        "row 5, column size",
        "row 7, column round",
    ]
    assert said.err.count("\n") == 1


def test_names_are_never_cut_off(tmp_path, capsys):
    records = make_folder(tmp_path / "mine")
    names = [f"the_size_of_what_is_seen_number_{number}" for number in (1, 2)]
    for number, record in enumerate(records):
        record |= {name: (number * (k + 3)) % 17 + 0.5 for k, name in enumerate(names)}
    write_table(tmp_path / "mine", records)
    assert main([str(tmp_path / "mine"), "--cache_dir", str(tmp_path)]) == 0
    table = capsys.readouterr().out.partition("overlap (test split)")[2].partition("attributes.yaml")[0]
    assert all(f"{name}=" in table for name in names)


def test_a_config_names_its_data_itself_or_in_a_file_beside_it(few, capsys, digits_cache):
    part = {"class_path": "datamodules.MorphoMNIST", "init_args": {"limit": 300, "cache_dir": str(digits_cache)}}
    Path("parts").mkdir()
    Path("parts/digits.yaml").write_text(yaml.safe_dump(part))
    Path("whole.yaml").write_text(yaml.safe_dump({"data": part, "trainer": {"max_epochs": 1}}))
    Path("pointing.yaml").write_text("data: parts/digits.yaml\n")
    sections = [data_section(name, {}) for name in ("parts/digits.yaml", "whole.yaml", "pointing.yaml")]
    assert sections[0] == sections[1] == sections[2]
    assert sections[0]["init_args"] == part["init_args"] | {"cache_dir": str(digits_cache.resolve())}
    assert main(["pointing.yaml"]) == 0
    assert "pointing.yaml: 300 images" in capsys.readouterr().out


def test_a_class_of_ones_own_needs_trust(few, capsys, monkeypatch):
    Path("my_data.py").write_text(
        "from tests.fakes import Painted\nclass Mine(Painted):\n    def __init__(self): super().__init__(rows=120)\n"
    )
    Path("mine.yaml").write_text("class_path: my_data.Mine\n")
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert "--trusted" in refusal(main, ["mine.yaml"], capsys)
    assert "my_data" not in sys.modules
    assert main(["mine.yaml", "--trusted"]) == 0
    assert "Pale_Skin" in capsys.readouterr().out
    del sys.modules["my_data"]


@pytest.mark.parametrize(
    ("words", "argument"),
    [
        (["morpho_mnist", "--source", "embeded"], None),
        (["morpho_mnist", "--source", "published", "--data_dir", "nowhere"], None),
        (["morpho_mnist", "--limit", "0"], "limit"),
        (["morpho_mnist", "--limit", "99"], None),
        (["morpho_mnits"], "data"),
        (["faces", "--limit", "100"], "limit"),
        (["faces", "--source", "embedded"], "source"),
        (["morpho_mnist", "--out", "taken"], "out"),
        (["morpho_mnist", "--write", "taken"], "write"),
        (["morpho_mnist", "--export", "taken"], "export"),
        (["empty.yaml"], None),
        (["no_data.yaml"], "data"),
        (["elsewhere.yaml"], "data"),
    ],
)
def test_errors_are_one_line(tmp_path, capsys, monkeypatch, words, argument):
    monkeypatch.chdir(tmp_path)
    Path("taken").mkdir()
    Path("empty.yaml").write_text("")
    Path("no_data.yaml").write_text("trainer: {max_epochs: 1}\n")
    Path("elsewhere.yaml").write_text("data: nowhere.yaml\n")
    refusal(main, [*words, "--cache_dir", "cache"], capsys, argument)
    assert not list(Path("taken").iterdir())


def test_help(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["morpho_mnist", "--help"])
    assert stopped.value.code == 0
    assert "--source" in capsys.readouterr().out
