"""A model folder from a stranger: commands refuse it in one line and run nothing of it."""

import json
import shutil
import sys
from pathlib import Path

import pytest
import torch
import yaml
from PIL import Image
from safetensors.torch import load_file, save_file

import cfgen
from cfgen import checkpoints
from cfgen.__main__ import main
from cfgen.audit._material import model_scores
from cfgen.audit.report._page import scores_of
from cfgen.commands import evaluate, export, generate
from cfgen.commands.audit import main as audit
from cfgen.commands.calibrate import main as calibrate
from cfgen.commands.verify import main as verify_command
from cfgen.errors import UserError
from cfgen.io.checksums import CHECKSUMS
from cfgen.runs.card import CALIBRATION
from cfgen.runs.data import run_data
from cfgen.runs.targets import trained_target
from cfgen.runs.verification import verify
from tests.fakes import FACES, SHAPE, Painted, Painter, fitted, saved
from tests.refusals import refusal

EVIL = "from pathlib import Path\nPath('PWNED').touch()\nclass X: pass\n"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A copy of a packaged model without checksums, in an empty working directory with a picture."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    made = shutil.copytree(checkpoints.PACKAGED / "morphomnist-csali", tmp_path / "m")
    (made / CHECKSUMS).unlink()
    digit = Image.new("L", (28, 28))
    digit.paste(200, (12, 5, 16, 23))
    digit.save("x.png")
    return made


def edit(path: Path, change) -> None:
    """Changes the values of a JSON or YAML file."""
    content = yaml.safe_load(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def name_data(folder: Path, class_path: str, **arguments) -> None:
    edit(folder / "config.yaml", lambda c: c.update(data={"class_path": class_path, "init_args": arguments}))


COMMANDS = {
    "generate": (generate.main, ["m", "--do", "thickness=3", "--images", "x.png", "--given", "label=3"]),
    "evaluate": (evaluate.main, ["m", "--count", "3"]),
    "audit": (audit, ["--model", "m", "--classifier", "m", "--do", "thickness=3"]),
    "calibrate": (calibrate, ["m", "--count", "3"]),
    "export": (export.main, ["m", "out"]),
    "verify": (verify_command, ["m"]),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("trusted", [[], ["--trusted"]])
def test_a_config_runs_nothing(folder, capsys, command, trusted):
    """`data` in config.yaml is called with its arguments: it has to be data."""
    main, words = COMMANDS[command]
    name_data(folder, "subprocess.Popen", args=["touch", "PWNED"])
    refusal(main, [*words, *trusted], capsys)
    name_data(folder, "pathlib.Path.touch", self="PWNED")
    refusal(main, [*words, *trusted], capsys)
    name_data(folder, "sys.exit")
    refusal(main, [*words, *trusted], capsys)
    assert not Path("PWNED").exists()
    assert not Path("out").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_module_beside_the_model_is_not_imported(folder, capsys, monkeypatch, command):
    """In the stranger's own folder: neither what its files name nor what has the name of a package."""
    main, words = COMMANDS[command]
    monkeypatch.chdir(folder)
    shutil.copy("../x.png", ".")
    words = ["." if word == "m" else word for word in words]
    for name in ("evil.py", "tensorboardX.py", "wandb_core.py"):
        Path(name).write_text(EVIL)
    name_data(Path(), "evil.X")
    said = refusal(main, words, capsys)
    # audit refuses the classifier first, verify prints a table
    assert "--trusted" in said or command in ("audit", "verify")
    edit(Path("model.json"), lambda card: card.update(class_path="evil.X"))
    refusal(main, words, capsys)
    assert not Path("PWNED").exists()
    assert str(folder) not in sys.path


def test_a_class_that_ends_the_process_when_it_is_imported(folder, capsys):
    edit(folder / "model.json", lambda card: card.update(class_path="unittest.__main__.X"))
    assert main(["generate", "m", "--do", "thickness=3"]) == 2


def test_a_classifiers_run_is_asked_what_it_answers_without_running_it(folder):
    name_data(folder, "subprocess.Popen", args=["touch", "PWNED"])
    assert trained_target(folder) is None
    assert not Path("PWNED").exists()


def test_places_in_an_exported_config_are_not_used(folder, tmp_path):
    name_data(folder, "datamodules.Faces", cache_dir=str(tmp_path / "elsewhere"), count=20)
    assert run_data(folder).cache_dir != tmp_path / "elsewhere"


def test_an_export_does_not_go_where_the_config_says(folder, tmp_path, capsys):
    for name in (str(tmp_path / "elsewhere" / "x"), "../x", "a\nb", " "):
        edit(folder / "config.yaml", lambda config, name=name: config.update(name=name))
        refusal(export.main, ["m"], capsys, "folder")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe", b"- 1\n", b"data: 3\n", b"data: {class_path: X}\n", b"data: {class_path: .X}\n", b"data: {class_path: [1]}\n",
     b"data: {class_path: datamodules.MorphoMNIST, init_args: {seed: -4}}\n", b"data: {class_path: datamodules.MorphoMNIST, init_args: 3}\n",
     b"data: {class_path: datamodules.MorphoMNIST, init_args: {nothing: 3}}\n", b"data: {class_path: datamodules.nothing.X}\n"],
)  # fmt: skip
def test_configs_that_are_none(folder, capsys, content):
    (folder / "config.yaml").write_bytes(content)
    refusal(evaluate.main, ["m", "--count", "3"], capsys)
    refusal(export.main, ["m", "out"], capsys)
    assert not verify(folder).passed
    assert not Path("out").exists()


@pytest.mark.parametrize(
    "change",
    [{"mechanism": {}}, {"mechanism": 3}, {"image_shape": [1, 28]}, {"image_shape": [1, 64, 64]}, {"betas": [1]}, {"scm": {}},
     {"scm": {"attributes": {"../../x": {"kind": "binary"}}, "edges": [], "mechanisms": {}}}, {"nothing": 1}],
)  # fmt: skip
def test_cards_that_do_not_fit(folder, capsys, change):
    edit(folder / "model.json", lambda card: card["hyper_parameters"].update(change))
    refusal(generate.main, ["m", "--do", "thickness=3"], capsys)


def test_a_module_inside_a_module_is_held_to_the_same(folder, capsys):
    inner = {"class_path": "subprocess.Popen", "init_args": {"args": ["touch", "PWNED"]}}
    edit(folder / "model.json", lambda card: card["hyper_parameters"].update(mechanism=inner))
    refusal(generate.main, ["m", "--do", "thickness=3"], capsys)
    refusal(generate.main, ["m", "--do", "thickness=3", "--trusted"], capsys)
    assert not Path("PWNED").exists()


@pytest.mark.parametrize(
    "wrong", [[], {"images": "x", "mse_x": 1.0, "standard_errors": 3}, {"about": {"mse_x": 3}, "mse_x": 1.0}]
)
def test_scores_that_are_none(folder, capsys, wrong):
    (folder / "metrics.json").write_text(json.dumps(wrong))
    code = export.main(["m", "out", "--examples", "0"])
    assert code == (0 if wrong else 2)
    found = model_scores(cfgen.load(folder))
    assert scores_of(found, {"thickness"}) == ([("mse_x", 1.0)] if wrong and "about" not in wrong else [])


@pytest.mark.parametrize("wrong", [[], {}, {"keep_residual": False, "drawn": [3]}])
def test_calibrations_that_are_none(folder, capsys, wrong):
    (folder / CALIBRATION).write_text(json.dumps(wrong))
    refusal(export.main, ["m", "out"], capsys)
    assert not Path("out").exists()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite(folder, capsys, value, tmp_path):
    state = load_file(folder / "model.safetensors")
    name = next(name for name in state if name.endswith("weight"))
    state[name].view(-1)[3] = value
    save_file(state, folder / "model.safetensors")
    assert "not finite" in refusal(generate.main, ["m", "--do", "thickness=3"], capsys)
    assert not verify(folder).passed
    painter = fitted(Painter, Painted(FACES))
    with torch.no_grad():
        painter.stripes[0, 0, 0, 0] = value
    with pytest.raises(UserError, match="not finite"):
        cfgen.load(saved(painter, tmp_path / "x.ckpt"))


def test_pictures_are_refused_before_they_are_decoded(folder, capsys, monkeypatch):
    Image.new("L", (9000, 9000)).save("large.png")
    words = ["m", "--do", "thickness=3", "--given", "label=3", "--images"]
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda self: pytest.fail("it was decoded"))
    assert "pixels" in refusal(generate.main, [*words, "large.png"], capsys, "images")


def test_one_s_own_classes_need_trust_or_an_import(tmp_path, monkeypatch):
    """A model and data from a package of one's own, in another process than the one that trained them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    Path("mine_alone.py").write_text(
        "from tests.fakes import Painted, Painter\nclass Mine(Painter): pass\nclass Data(Painted): pass\n"
    )
    painter = fitted(Painter, Painted(FACES))
    path = saved(painter, tmp_path / "last.ckpt")
    contents = torch.load(path, weights_only=True)
    torch.save(contents | {"class_path": "mine_alone.Mine"}, path)
    Path("config.yaml").write_text("data: {class_path: mine_alone.Data}\n")
    with pytest.raises(UserError, match="--trusted.*trusted=True"):
        cfgen.load(path)
    assert "mine_alone" not in sys.modules
    model = cfgen.load(path, trusted=True)
    assert type(model.module).__name__ == "Mine"
    assert model.generate([{"Bangs": 1}], index=[0]).images.shape == (1, *SHAPE)
    sys.modules.pop("mine_alone")
    assert generate.main(["last.ckpt", "--do", "Bangs=1", "--trusted"]) == 0
    sys.modules.pop("mine_alone")
    with pytest.raises(UserError, match="trusted=True"):
        cfgen.load(path)
