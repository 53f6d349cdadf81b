"""Options checked before torch is imported: what is known is what the classes themselves take."""

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest
import pytorch_lightning as pl

import datamodules
import lightning_modules
from cfgen.commands import fit
from cfgen.errors import UserError
from cfgen.training.configs import find_config, packaged_configs, with_packaged_data
from cfgen.training.options import LINKED, assignments, check_options, constructor_options
from lightning_modules import CondALI, StyleALI

LIGHT = """
import contextlib, io, json, sys
from cfgen.commands import fit
words, code = json.loads(sys.argv[1]), int(sys.argv[2])
err = io.StringIO()
with contextlib.redirect_stderr(err):
    assert fit.main(words) == code, err.getvalue()
assert err.getvalue().count("\\n") == (1 if code else 0)
assert err.getvalue().startswith("error: --" if code else ""), err.getvalue()
print(sorted({"torch", "pytorch_lightning", "numpy"} & set(sys.modules)))
"""


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--help"], 0),
        (["--confg", "quickstart"], 2),
        (["--config", "quikstart"], 2),
        (["--config", "quickstart", "--trainer.max_epoch", "2"], 2),
        (["--config", "celeba_csali", "--model.weigth_x", "2"], 2),
        (["--config", "celeba_csali", "--data.imagesize=32"], 2),
        (["--config", "celeba_csali", "--data.image_size=wide"], 2),
        (["--config", "celeba_csali", "--trainer.max_epochs", "many"], 2),
    ],
)
def test_help_and_wrong_names_are_answered_without_torch(words, code):
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", LIGHT, json.dumps(words), str(code)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_options_read_from_source_are_those_of_the_classes():
    assert set(constructor_options("pytorch_lightning.Trainer")) == set(inspect.signature(pl.Trainer).parameters)
    for package in (lightning_modules, datamodules):
        for name in package.__all__:
            parameters = inspect.signature(getattr(package, name)).parameters
            options = constructor_options(f"{package.__name__}.{name}")
            if name == "StyleALI":  # which passes **options on
                parameters = inspect.signature(CondALI).parameters | inspect.signature(StyleALI).parameters
            assert options is None or set(options) == set(parameters) - LINKED - {"options"}, name
    assert constructor_options("lightning_modules.CondALI")
    assert constructor_options("datamodules.Faces")
    assert constructor_options("my_code.MyModel") is None


@pytest.mark.parametrize("config", packaged_configs())
def test_every_value_of_a_packaged_config_can_be_set(config):
    import yaml

    content = yaml.safe_load(find_config(config).read_text())
    words = ["--config", config]
    words += [f"--model.{key}=1" for key in content["model"].get("init_args", {})]
    words += [f"--trainer.{key}=1" for key in content["trainer"]]
    check_options(words)
    with pytest.raises(UserError) as refusal:
        check_options([*words, "--model.no_such_thing=1"])
    assert refusal.value.argument == "model.no_such_thing"


@pytest.mark.parametrize(
    ("words", "argument"),
    [
        (["--config", "quickstart", "--model", "lightning_modules.DeepSCM", "--model.r1_gamma", "1"], "model.r1_gamma"),
        (["--config", "quickstart", "--model.class_path=lightning_modules.DeepSCM", "--model.r1_gamma=1"], "model.r1_gamma"),
        (["--config", "celeba_csali", "--data", "faces", "--data.crop", "100"], "data.crop"),
        (["--config", "celeba_csali", "--model.init_args.wieght_x=3"], "model.init_args.wieght_x"),
        (["--config", "celeba_csali", "--config", "other.yaml", "--model.weight_x=3"], "model.weight_x"),
    ],
)  # fmt: skip
def test_the_class_that_is_named_last_decides(words, argument, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("other.yaml").write_text("model: part.yaml\n")
    Path("part.yaml").write_text("class_path: lightning_modules.CondALI\n")
    with pytest.raises(UserError) as refusal:
        check_options(words)
    assert refusal.value.argument == argument


@pytest.mark.parametrize(
    "words",
    [
        ["--config", "quickstart", "--model.help", "lightning_modules.DeepSCM"],
        ["--trainer.help"],
        ["--config", "quickstart", "--print_config=skip_null"],
        ["--config", "quickstart", "--trainer.callbacks+", "callbacks.FID", "--trainer.callbacks.images", "5"],
        ["--config", "quickstart", "--model", "my_code.MyModel", "--model.anything", "1"],
        ["-c", "quickstart", "--data", '{"class_path": "my_code.MyData", "init_args": {"a": 1}}', "--data.a=2"],
        ["--config", "quickstart", "--trainer.max_epochs", "null", "--trainer.devices", "auto", "--model.lr=1e-3"],
        ["--config", "quickstart", "--trainer.max_epochs", "2.5"],  # a number, if not a whole one
        ["--config", "broken.yaml"],  # the parser says what is wrong with it
    ],
)
def test_what_cannot_be_told_is_left_to_the_parser(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("broken.yaml").write_text("model: [\n")
    check_options(words)
    assert next(assignments(words))[0] in ("config", "trainer.help")


@pytest.mark.parametrize("words", [["--data", "celeba_young"], ["--data=celeba_young.yaml"]])
def test_parts_of_data_go_by_name(words):
    part = str(Path(__file__).parents[2] / "configs" / "data" / "celeba_young.yaml")
    assert with_packaged_data(["--config", "celeba_csali", *words])[-1].removeprefix("--data=") == part


def test_help_names_every_option_and_config(capsys):
    assert fit.main(["--help"]) == fit.main(["--config", "quickstart", "-h"]) == 0
    page = capsys.readouterr().out
    for name in (
        "config",
        "name",
        "runs_dir",
        "ckpt_path",
        "seed_everything",
        "timeout_minutes",
        "model",
        "data",
        "print_config",
    ):
        assert f"  --{name} " in page or f", --{name} " in page
    for name in packaged_configs():
        assert f"  {name} " in page
    assert "celeba_styleali ──► celeba_csali" in page
    assert max(map(len, page.splitlines())) <= 130
