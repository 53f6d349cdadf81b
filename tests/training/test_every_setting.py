"""No setting of `cfgen fit` is ignored: each is passed on to what it is of, or refused with what to do."""

import ast
import inspect
from pathlib import Path

import pytest
import pytorch_lightning as pl
from pytorch_lightning.cli import LightningCLI
from pytorch_lightning.plugins.environments import LightningEnvironment

import callbacks
import datamodules
import lightning_modules
from callbacks import Autosave, BestCheckpoint, ParameterSummary
from cfgen.commands import fit
from cfgen.errors import UserError
from cfgen.runs.folders import AtomicCheckpointIO
from cfgen.training import run
from cfgen.training.cli import FitCLI
from cfgen.training.options import TOP_LEVEL, check_options
from datamodules import MorphoMNIST

CONFIG = ["--config", "quickstart"]
# of the Trainer, as it is typed and as it must arrive
PASSED_ON = {
    "accelerator": ("cpu", "cpu"),
    "strategy": ("ddp", "ddp"),
    "devices": ("2", "2"),
    "num_nodes": ("2", 2),
    "precision": ("64-true", "64-true"),
    "callbacks": ("[]", [BestCheckpoint, Autosave]),
    "fast_dev_run": ("3", 3),
    "max_epochs": ("7", 7),
    "min_epochs": ("2", 2),
    "max_steps": ("11", 11),
    "min_steps": ("3", 3),
    "max_time": ("00:01:00:00", "00:01:00:00"),
    "limit_train_batches": ("5", 5),
    "limit_val_batches": ("4", 4),
    "overfit_batches": ("2", 2),
    "val_check_interval": ("3", 3),
    "check_val_every_n_epoch": ("2", 2),
    "num_sanity_val_steps": ("1", 1),
    "log_every_n_steps": ("9", 9),
    "enable_checkpointing": ("true", True),
    "enable_progress_bar": ("false", False),
    "enable_model_summary": ("false", False),
    "accumulate_grad_batches": ("2", 2),
    "gradient_clip_val": ("0.5", 0.5),
    "gradient_clip_algorithm": ("value", "value"),
    "deterministic": ("true", True),
    "benchmark": ("true", True),
    "inference_mode": ("false", False),
    "use_distributed_sampler": ("false", False),
    "profiler": ("simple", "simple"),
    "detect_anomaly": ("true", True),
    "plugins": ("pytorch_lightning.plugins.environments.LightningEnvironment", [LightningEnvironment, AtomicCheckpointIO]),
    "sync_batchnorm": ("true", True),
    "reload_dataloaders_every_n_epochs": ("2", 2),
    "enable_autolog_hparams": ("false", False),
}  # fmt: skip
REFUSED = {
    "logger": ["true", "false", "pytorch_lightning.loggers.CSVLogger"],
    "default_root_dir": ["elsewhere"],
    "barebones": ["true"],
    "limit_test_batches": ["3", "0.5"],
    "limit_predict_batches": ["3"],
    "model_registry": ["shelf"],
}


class Arrived(Exception):
    """What the Trainer is made with."""

    def __init__(self, settings):
        self.settings = settings


@pytest.fixture
def made(monkeypatch):
    """What the Trainer of these words is made with; it is not made."""

    def arrive(self, config, extra):
        raise Arrived(config)

    def settings(*words):
        cli = FitCLI([*CONFIG, "--data.limit=100", *words])
        with pytest.raises(Arrived) as arrived:
            cli.build()
        return arrived.value.settings

    monkeypatch.setattr(LightningCLI, "_instantiate_trainer", arrive)
    return settings


def kinds(value):
    """Objects by their classes, which can be compared."""
    return [type(one) for one in value] if isinstance(value, list) else value


def test_every_setting_of_the_trainer_is_known_here():
    """A version of Lightning with another setting fails here until it is known what becomes of it."""
    assert PASSED_ON.keys() | REFUSED.keys() == set(inspect.signature(pl.Trainer).parameters)
    assert not PASSED_ON.keys() & REFUSED.keys()


def test_settings_of_the_trainer_reach_it(made):
    plain = made()
    settings = made(*(f"--trainer.{name}={typed}" for name, (typed, _) in PASSED_ON.items()))
    assert {name: kinds(settings[name]) for name in PASSED_ON} == {
        name: value for name, (_, value) in PASSED_ON.items()
    }
    same = [name for name in PASSED_ON if kinds(settings[name]) == kinds(plain[name])]
    assert not same  # or arriving would show nothing
    assert kinds(plain["callbacks"])[-1] is ParameterSummary
    assert kinds(plain["plugins"]) == [AtomicCheckpointIO]


def test_a_way_to_write_checkpoints_of_ones_own_takes_the_place_of_ours(made):
    (own,) = made("--trainer.plugins=pytorch_lightning.plugins.io.TorchCheckpointIO")["plugins"]
    assert type(own) is not AtomicCheckpointIO


@pytest.mark.parametrize(("name", "typed"), [(name, typed) for name, several in REFUSED.items() for typed in several])
def test_settings_without_effect_are_refused(name, typed, tmp_path):
    config = tmp_path / "own.yaml"
    value = f"{{class_path: {typed}, init_args: {{save_dir: x}}}}" if "." in typed and typed[0].isalpha() else typed
    config.write_text(f"trainer: {{{name}: {value}}}\n")
    for words in ([f"--trainer.{name}={value}"], ["--config", str(config)]):
        with pytest.raises(UserError) as refusal:
            FitCLI([*CONFIG, *words])
        assert refusal.value.argument == f"trainer.{name}"


@pytest.mark.parametrize(("name", "value"), [("image_shape", "[3, 5, 5]"), ("scm", "{attributes: {}, edges: []}")])
def test_what_comes_from_the_data_cannot_be_given(name, value, tmp_path):
    config = tmp_path / "own.yaml"
    config.write_text(f"model: {{init_args: {{{name}: {value}}}}}\n")
    with pytest.raises(UserError) as refusal:
        FitCLI([*CONFIG, "--config", str(config)])
    assert refusal.value.argument == f"model.{name}"
    with pytest.raises(UserError) as refusal:
        check_options([*CONFIG, f"--model.{name}={value}"])
    assert refusal.value.argument == f"model.{name}"


def test_a_folder_is_refused_where_none_is_read(tmp_path):
    with pytest.raises(UserError) as refusal:
        MorphoMNIST(data_dir=str(tmp_path))
    assert refusal.value.argument == "data_dir"
    with pytest.raises(UserError) as refusal:
        FitCLI([*CONFIG, f"--data.data_dir={tmp_path}"]).build()
    assert refusal.value.argument == "data.data_dir"
    assert MorphoMNIST(source="mnist", data_dir=str(tmp_path)).data_dir == tmp_path


GIVEN = {  # at the top level: as it is typed, and what the resolved config then says
    "config": (["--config", "own.yaml"], {"trainer": {"max_epochs": 1}}),
    "name": (["--name", "trial"], {"name": "trial"}),
    "runs_dir": (["--runs_dir", "elsewhere"], {"runs_dir": "elsewhere"}),
    "check_memory": (["--check_memory", "false"], {"check_memory": False}),
    "timeout_minutes": (["--timeout_minutes", "5"], {"timeout_minutes": 5.0}),
    "ckpt_path": (["--ckpt_path", "last"], {"ckpt_path": "last"}),
    "seed_everything": (["--seed_everything", "7"], {"seed_everything": 7}),
    "model": (["--model", "lightning_modules.Classifier", "--model.classes", "10"], {"model": {}}),
    "data": (["--data", "faces"], {"data": {"class_path": "datamodules.Faces"}}),
    "trainer": (["--trainer.max_epochs", "1"], {"trainer": {"max_epochs": 1}}),
}


def test_every_option_at_the_top_has_an_entry():
    top = {action.dest for action in FitCLI(CONFIG).parser._actions if "." not in action.dest}
    assert top - {"print_shtab"} == set(TOP_LEVEL)  # which `check_options` refuses
    assert set(TOP_LEVEL) == GIVEN.keys() | {"help", "print_config"}


@pytest.mark.parametrize("option", GIVEN)
def test_options_at_the_top_change_the_config(option, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("own.yaml").write_text("trainer: {max_epochs: 1}\n")
    words, expected = GIVEN[option]
    plain, found = FitCLI(CONFIG).config, FitCLI([*CONFIG, *words]).config
    assert found[option] != plain[option]
    for section, value in expected.items():
        for key, inner in value.items() if isinstance(value, dict) else ():
            assert found[section][key] == inner != plain[section][key]
        assert isinstance(value, dict) or found[section] == value != plain[section]


def test_help_and_print_config_print(capsys):
    assert fit.main(["--help"]) == 0
    page = capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        FitCLI([*CONFIG, "--print_config"])
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    assert "max_epochs: 22" in printed
    assert page != printed


def test_trusted_is_passed_on(monkeypatch):
    heard = []
    monkeypatch.setattr(run, "train_from_words", lambda words, tell, trusted: heard.append((words, trusted)))
    assert fit.main([*CONFIG, "--trusted"]) == fit.main(CONFIG) == 0
    assert heard == [(CONFIG, True), (CONFIG, False)]


@pytest.mark.parametrize(
    ("words", "argument"),
    [
        (["--name="], "name"),
        (["--name", ""], "name"),
        (["--runs_dir="], "runs_dir"),
        (["--ckpt_path="], "ckpt_path"),
        (["--config="], "config"),
        (["--data.cache_dir="], "data.cache_dir"),
        (["--model.lr", " "], "model.lr"),
        (["--trainer.max_epochs="], "trainer.max_epochs"),
        (["--name", "a", "--name", "b"], "name"),
        (["--seed_everything=1", "--seed_everything", "2"], "seed_everything"),
        (["--trainer.max_epochs=1", "--trainer.max_epochs=2"], "trainer.max_epochs"),
        (["--model.lr=1", "--model.init_args.lr=2"], "model.init_args.lr"),
        (["--data", "faces", "--data.class_path=datamodules.CelebA"], "data.class_path"),
        (["--trainer.callbacks=[]", "--trainer.callbacks=[]"], "trainer.callbacks"),
    ],
)
def test_no_value_and_several_are_refused(words, argument):
    with pytest.raises(UserError) as refusal:
        check_options([*CONFIG, *words])
    assert refusal.value.argument == argument


def test_configs_and_items_of_lists_are_given_as_often_as_wanted():
    item = ["--trainer.callbacks+", "callbacks.FID", "--trainer.callbacks.images", "5"]
    check_options([*CONFIG, *CONFIG, *item, *item])


@pytest.mark.parametrize("package", [callbacks, datamodules, lightning_modules], ids=lambda one: one.__name__)
def test_every_argument_of_a_class_is_read(package):
    """By its constructor, or as one of `hparams`: none is taken and left lying."""
    for name in package.__all__:
        kind = getattr(package, name)
        if not isinstance(kind, type) or "__init__" not in vars(kind):
            continue
        tree = ast.parse(Path(inspect.getfile(kind)).read_text())
        (own,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == kind.__name__)
        (constructor,) = (node for node in own.body if getattr(node, "name", "") == "__init__")
        read = {node.id for node in ast.walk(constructor) if isinstance(node, ast.Name)}
        read |= {node.attr for node in ast.walk(own) if isinstance(node, ast.Attribute)}
        assert set(inspect.signature(kind.__init__).parameters) <= read | {"self"}, name
