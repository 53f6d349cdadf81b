"""Every config that comes with the package: its names exist, and it trains; configs that earlier versions saved still do."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
import yaml

from callbacks import BestCheckpoint, ImageGrids
from cfgen.checkpoints import PACKAGED, earlier_runs, load_module
from cfgen.commands import fit
from cfgen.io.classes import built, found_class
from cfgen.training.checks import check_names
from cfgen.training.cli import FitCLI
from cfgen.training.configs import config_title, packaged_configs, packaged_data
from cfgen.training.run import TrainedRun, train
from lightning_modules import CFClassifier
from tests.datamodules.celeba_folder import TABLE, make_celeba
from tests.datamodules.image_folder import make_folder

CONFIGS = sorted(packaged_configs())

# what makes a model small, by its class; the networks themselves stay those that the config names
SMALL: dict[str, dict[str, Any]] = {
    "CondALI": {"width": 0.03, "latent_dim": 8},
    "StyleALI": {"width": 0.03, "latent_dim": 8, "mapping_layers": 2},
    "DeepSCM": {"width": 0.05, "latent_dim": 4, "particles": 2, "elbo_particles": 1},
    "HVAE": {"width": 0.1, "latent_dim": 4},
    "Classifier": {"width": 0.05},
    "Predictor": {"width": 0.05},
    "CyclicEncoder": {},
    "CFClassifier": {},
}
# what a config leaves to the user, as it is a matter of the user's data
ASKED: dict[str, dict[str, Any]] = {"repair": {"do": [{"round": 1}]}}
FEW = {
    "max_epochs": 1,
    "limit_train_batches": 2,
    "limit_val_batches": 1,
    "check_val_every_n_epoch": 1,
    "log_every_n_steps": 1,
    "accelerator": "cpu",
    "enable_progress_bar": False,
    "enable_model_summary": False,
}

TinyRun = Callable[[str], TrainedRun]


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "disabled")


def resolved(config: str | Path) -> dict[str, Any]:
    """A config as it would be trained."""
    asked = [f"--model.{name}={json.dumps(value)}" for name, value in ASKED.get(str(config), {}).items()]
    return FitCLI(["--config", str(config), *asked]).dump()


def small_callbacks(callbacks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A config's callbacks, on a few images and without a network that is downloaded."""
    text = json.dumps(callbacks).replace("val/fid_inception/", "val/fid_TinyFeatures/")
    shrunk = json.loads(text)
    for callback in shrunk:
        arguments = callback.setdefault("init_args", {})
        if "images" in arguments:
            arguments["images"] = min(arguments["images"], 8)
        if "features" in arguments:
            arguments["features"] = "tests.training.tiny_features:TinyFeatures"
    return shrunk


@pytest.fixture(scope="session")
def small_data(digits_cache, tmp_path_factory) -> dict[str, dict[str, Any]]:
    """What makes data small, by its class."""
    celeba = tmp_path_factory.mktemp("celeba")
    make_celeba(celeba)
    count, names, *rows = (celeba / TABLE).read_text().splitlines()
    # in every split half of the images have an attribute: among a few drawn ones, some would change none
    for number, row in enumerate(rows):
        signs = [1 if (number // 5 + column) % 2 else -1 for column in range(40)]
        rows[number] = " ".join([row.split()[0], *map(str, signs)])
    (celeba / TABLE).write_text("\n".join([count, names, *rows]) + "\n")
    pictures = tmp_path_factory.mktemp("pictures") / "mine"
    make_folder(pictures)
    packed = str(tmp_path_factory.mktemp("packed"))
    return {
        "MorphoMNIST": {"source": "embedded", "limit": 300, "cache_dir": str(digits_cache), "batch_size": 8},
        "CelebA": {"data_dir": str(celeba), "cache_dir": packed, "batch_size": 4},
        "ImageTable": {"data_dir": str(pictures), "cache_dir": packed, "batch_size": 4, "image_size": 16},
        "Faces": {"count": 60, "cache_dir": packed, "batch_size": 4},
    }


@pytest.fixture(scope="session")
def tiny_trained(small_data, tmp_path_factory) -> TinyRun:
    """Trains a packaged config for two steps on tiny data, once; the runs it builds on likewise."""
    root, trained = tmp_path_factory.mktemp("tiny"), {}

    def tiny(config: str) -> TrainedRun:
        if config not in trained:
            whole = resolved(config)
            model, data = whole["model"], whole["data"]
            kind = model["class_path"].rpartition(".")[2]
            earlier = earlier_runs(model["class_path"])
            builds_on = {key: str(tiny(model["init_args"][key]).folder) for key in earlier}
            trained[config] = train(
                config,
                runs_dir=root,
                model=SMALL[kind] | builds_on | ASKED.get(config, {}),
                data=small_data[data["class_path"].rpartition(".")[2]],
                trainer=FEW | {"callbacks": small_callbacks(whole["trainer"]["callbacks"])},
            )
        return trained[config]

    return tiny


# what a network of one's own takes and returns is kept with that network
OF_THE_NETWORK = ("resize", "mean", "std", "layout", "output", "positive")


@pytest.mark.parametrize("config", CONFIGS)
def test_every_config_trains(config, tiny_trained):
    run = tiny_trained(config)
    assert json.loads((run.folder / "finished.json").read_text()) == {"epochs": 1, "steps": 2}
    assert (run.epochs, run.steps) == (1, 2)
    assert any(name.startswith("train/") for name in run.metrics)
    # what is measured on a digit that no pen has drawn yet may be anything
    losses = {name: value for name, value in run.metrics.items() if "median_abs_error/" not in name}
    assert all(math.isfinite(value) for value in losses.values()), losses
    callbacks = [built(one) for one in run.config["trainer"]["callbacks"]]
    (best,) = (callback for callback in callbacks if isinstance(callback, BestCheckpoint))
    assert best.monitor in run.metrics
    grids = [callback for callback in callbacks if isinstance(callback, ImageGrids)]
    assert len(list(run.folder.glob("images/*.png"))) == 3 * len(grids)
    # the checkpoint is whole: it loads without the earlier runs, as the class and with the settings of the config
    kind = found_class(run.config["model"]["class_path"], pl.LightningModule, "the config")
    for name in ("best.ckpt", "last.ckpt"):
        module = load_module(run.folder / name, pl.LightningModule)
        assert type(module) is kind
        assert all(parameter.isfinite().all() for parameter in module.parameters())
    for key, value in run.config["model"]["init_args"].items():
        if key not in getattr(kind, "earlier_runs", ()) and not (kind is CFClassifier and key in OF_THE_NETWORK):
            assert plain(module.hparams[key]) == plain(value), key
    assert not list(run.folder.glob("*.part"))


def plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple | list) else value


@pytest.mark.parametrize("config", CONFIGS)
def test_every_config_resolves(config, monkeypatch):
    """As it ships: every class, option, attribute and monitored FID that it names exists."""
    monkeypatch.setattr("callbacks.fid.feature_network", lambda features: torch.nn.Identity())  # no download
    settings = resolved(config)
    assert settings["model"]["class_path"].startswith("lightning_modules.")
    check_names([built(one) for one in settings["trainer"]["callbacks"]], built(settings["data"]))


@pytest.mark.parametrize("path", [*packaged_configs().values(), *packaged_data().values()], ids=lambda path: path.stem)
def test_every_config_says_in_a_line_what_it_is(path):
    """The line that `cfgen fit --help` shows: a whole sentence that fits beside the name."""
    title = config_title(path)
    assert title.endswith(".")
    assert len(title) <= 110


@pytest.mark.parametrize("name", sorted(path.parent.name for path in PACKAGED.glob("*/config.yaml")))
def test_the_configs_of_packaged_models_replay(name, capsys):
    saved = yaml.safe_load((PACKAGED / name / "config.yaml").read_text())
    with pytest.raises(SystemExit) as stopped:
        fit.main(["--config", str(PACKAGED / name / "config.yaml"), "--print_config"])
    assert stopped.value.code == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    for section in ("model", "data"):
        assert printed[section]["class_path"] == saved[section]["class_path"]
        assert printed[section]["init_args"].items() >= saved[section]["init_args"].items()
    assert printed["name"] == saved["name"]
    assert printed["trainer"]["max_epochs"] == saved["trainer"]["max_epochs"]


OLD_CONFIG = """
seed_everything: 3
trainer:
  max_epochs: 1
  limit_train_batches: 1
  limit_val_batches: 0
  accelerator: cpu
  num_sanity_val_steps: 0
  enable_progress_bar: false
  enable_model_summary: false
model: {model}
data:
  class_path: datamodules.MorphoMNIST
  init_args: {{source: embedded, limit: 300, batch_size: 8, cache_dir: {cache}}}
name: old_name
"""


@pytest.mark.parametrize(
    ("model", "kind", "networks"),
    [
        (
            "{class_path: lightning_modules.CondALI, init_args: {width: 0.03, r1_gamma: 2.0, modulated: true}}",
            "CondALI", {"generator": "modulated", "encoder": "he", "discriminator": "plain"},
        ),
        (
            "{class_path: lightning_modules.CondALI, init_args: {width: 0.03, r1_gamma: 0.0, modulated: false}}",
            "CondALI", {"generator": "paper", "encoder": "paper", "discriminator": "paper"},
        ),
        (
            "{class_path: lightning_modules.StyleALI, init_args: {width: 0.03, mapping_layers: 1, r1_gamma: 0.0, modulated: false}}",
            "StyleALI", {"generator": "style", "encoder": "paper", "discriminator": "paper"},
        ),
        ("{class_path: lightning_modules.AttributeReader, init_args: {width: 0.1}}", "Predictor", {}),
    ],
    ids=["modulated", "paper", "style", "reader"],
)  # fmt: skip
def test_configs_that_earlier_versions_saved_still_train(model, kind, networks, tmp_path, digits_cache):
    (tmp_path / "config.yaml").write_text(OLD_CONFIG.format(model=model, cache=digits_cache))
    run = train(tmp_path / "config.yaml", runs_dir=tmp_path)
    assert run.folder == tmp_path / "old_name" / "001"
    module = load_module(run.folder, pl.LightningModule)
    assert type(module).__name__ == kind
    assert {key: module.hparams[key] for key in networks} == networks
    # and what is saved now replays
    assert resolved(run.folder / "config.yaml") == run.config
