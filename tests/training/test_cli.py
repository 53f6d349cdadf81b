"""`cfgen fit` as a user types it, with a model and data of the user's own."""

import csv
import sys
from pathlib import Path

import pytest
import torch
import yaml

from cfgen.__main__ import main as cfgen
from cfgen.commands import fit
from cfgen.errors import UserError

OWN_CODE = '''
import torch
import pytorch_lightning as pl
from torch.utils.data import DataLoader, TensorDataset

class OwnData(pl.LightningDataModule):
    def __init__(self, rows: int = 32, edges: list = []):
        super().__init__()
        from cfgen.scm import AttributeSCM
        self.rows = rows
        self.scm_spec = {"attributes": {"t": {"kind": "continuous"}, "b": {"kind": "binary"}}, "edges": edges}
        self.image_shape = (1, 2, 2)

    def setup(self, stage):
        print("DATA WAS READ")

    def train_dataloader(self):
        x = torch.linspace(0, 1, self.rows * 4).reshape(-1, 4)
        return DataLoader(TensorDataset(x), batch_size=8, shuffle=True)

class OwnModel(pl.LightningModule):
    def __init__(self, scm: dict, image_shape: tuple, width: float = 1.0):
        super().__init__()
        from cfgen.scm import AttributeSCM
        self.save_hyperparameters()
        self.scm = AttributeSCM(**scm)
        self.net = torch.nn.Linear(4, 4)

    def training_step(self, batch, _):
        loss = (self.net(batch[0]) * self.hparams.width - batch[0]).square().mean()
        self.log("train/loss", loss, on_step=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)

class PlainModel(OwnModel):
    """One that knows nothing of attributes."""
    def __init__(self, width: float = 1.0):
        super().__init__({"attributes": {"b": {"kind": "binary"}}}, (1, 2, 2), width)
'''

OWN_CONFIG = """
model: {class_path: own_code.OwnModel, init_args: {width: 0.5}}
data: {class_path: own_code.OwnData}
trainer:
  accelerator: cpu
  max_epochs: 2
  log_every_n_steps: 1
  enable_progress_bar: false
  callbacks:
    - class_path: pytorch_lightning.callbacks.ModelCheckpoint
      init_args: {save_last: true, save_top_k: 0}
"""


@pytest.fixture
def workplace(tmp_path, monkeypatch) -> Path:
    (tmp_path / "own_code.py").write_text(OWN_CODE)
    (tmp_path / "own.yaml").write_text(OWN_CONFIG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("WANDB_MODE", "disabled")
    yield tmp_path
    sys.modules.pop("own_code", None)


def weights(path: Path) -> dict[str, torch.Tensor]:
    state = torch.load(path, weights_only=True)["state_dict"]
    return {key: value for key, value in state.items() if key.startswith("net.")}


def test_every_run_has_a_folder_of_its_own(workplace):
    for _ in range(2):
        assert fit.main(["--config", "own.yaml"]) == 0
    folders = [workplace / "runs/own/001", workplace / "runs/own/002"]
    for folder in folders:
        assert {"config.yaml", "last.ckpt", "metrics.csv"} <= {p.name for p in folder.iterdir()}
    rows = list(csv.DictReader((folders[0] / "metrics.csv").open()))
    assert {row["name"] for row in rows} >= {"train/loss"}
    first, second = (weights(folder / "last.ckpt") for folder in folders)
    assert all(torch.equal(first[key], second[key]) for key in first)  # the same seed gives the same run


def test_a_config_without_checkpoints_leaves_some_all_the_same(workplace):
    assert fit.main(["--config", "own.yaml", "--trainer.callbacks", "[]"]) == 0
    assert {"best.ckpt", "last.ckpt"} <= {path.name for path in (workplace / "runs/own/001").iterdir()}
    first, second = (weights(workplace / f"runs/own/001/{name}.ckpt") for name in ("best", "last"))
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_a_single_callback_and_none_at_all_wanted(workplace):
    lonely = "pytorch_lightning.callbacks.TQDMProgressBar"
    assert (
        fit.main(["--config", "own.yaml", "--trainer.callbacks", lonely, "--trainer.enable_progress_bar", "true"]) == 0
    )
    assert (workplace / "runs/own/001/last.ckpt").is_file()
    assert (
        fit.main(["--config", "own.yaml", "--trainer.callbacks", "[]", "--trainer.enable_checkpointing", "false"]) == 0
    )
    assert not list((workplace / "runs/own/002").glob("*.ckpt"))


def test_own_code_is_found_beside_the_config_and_its_errors_are_told(workplace, monkeypatch, capsys):
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(workplace))])
    assert cfgen(["fit", "--config", "own.yaml", "--trainer.max_epochs", "1"]) == 0
    (workplace / "torn.py").write_text("import nothing_of_that_name\n")
    assert cfgen(["fit", "--config", "own.yaml", "--data", "torn.Data"]) == 2
    assert "No module named 'nothing_of_that_name'" in capsys.readouterr().err


def test_the_saved_config_replays_the_run(workplace):
    assert fit.main(["--config", "own.yaml", "--model.width", "0.25", "--seed_everything", "3"]) == 0
    saved = workplace / "runs/own/001/config.yaml"
    assert yaml.safe_load(saved.read_text())["model"]["init_args"] == {"width": 0.25}
    assert fit.main(["--config", str(saved)]) == 0
    first, second = (weights(workplace / f"runs/own/00{i}/last.ckpt") for i in (1, 2))
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_resume_goes_on_in_the_same_folder(workplace):
    assert fit.main(["--config", "own.yaml", "--trainer.max_epochs", "1"]) == 0
    assert fit.main(["--config", "own.yaml", "--ckpt_path", "last"]) == 0
    assert [p.name for p in (workplace / "runs/own").iterdir()] == ["001"]
    assert torch.load(workplace / "runs/own/001/last.ckpt", weights_only=True)["global_step"] == 8
    assert fit.main(["--config", "own.yaml", "--ckpt_path", "runs/own/001/last.ckpt", "--trainer.max_epochs", "3"]) == 0
    assert torch.load(workplace / "runs/own/002/last.ckpt", weights_only=True)["global_step"] == 12


def test_configs_merge_and_print(workplace, capsys):
    (workplace / "more.yaml").write_text("trainer: {max_epochs: 7}\nmodel: {init_args: {width: 2.0}}\n")
    with pytest.raises(SystemExit) as stopped:
        fit.main(["--config", "own.yaml", "--config", "more.yaml", "--trainer.max_steps", "9", "--print_config"])
    assert stopped.value.code == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    assert printed["trainer"]["max_epochs"] == 7
    assert printed["trainer"]["max_steps"] == 9
    assert printed["model"]["init_args"]["width"] == 2.0


def test_a_model_that_takes_no_attributes_trains_too(workplace):
    assert fit.main(["--config", "own.yaml", "--model", "own_code.PlainModel"]) == 0


@pytest.mark.parametrize(
    ("words", "argument"),
    [
        ([], "config"),
        (["--config", "quikstart"], "config"),
        (["own.yaml"], "config"),
        (["--config", "own.yaml", "--model.widht", "2"], "model.widht"),
        (["--config", "own.yaml", "--trainer.max_epoch", "2"], "trainer.max_epoch"),
        (["--config", "own.yaml", "--sed_everything", "2"], "sed_everything"),
        (["--config", "own.yaml", "--seed_everything", "-2"], "seed_everything"),
        (["--config", "own.yaml", "--model.width", "wide"], "model.width"),
        (["--config", "own.yaml", "--model", "lightning_modules.CondAlly"], None),
        (["--config", "own.yaml", "--data", "datamodule.Morpho"], None),
        (["--config", "own.yaml", "--data.edges", '[["t", "bb"]]'], None),
        (["--config", "own.yaml", "--trainer.accelerator", "gpux"], None),
        (["--config", "own.yaml", "--ckpt_path", "nowhere.ckpt"], "ckpt_path"),
        (["--config", "own.yaml", "--ckpt_path", "last"], "ckpt_path"),
        (["--config", "own.yaml", "--ckpt_path", "torn.ckpt"], "ckpt_path"),
        (["--config", "own.yaml", "--name", "a/b"], "name"),
        (["--trainer.max_epochs", "2"], "config"),
        (["--config", "broken.yaml"], "config"),
        (["--config", "typo.yaml"], "config"),
    ],
)  # fmt: skip
def test_bad_input_gets_one_line_before_data_is_read(workplace, capsys, words, argument):
    (workplace / "broken.yaml").write_text("model: [\n")
    (workplace / "typo.yaml").write_text("modle: 3\n")
    (workplace / "torn.ckpt").write_bytes(b"PK not a checkpoint")
    with pytest.raises(UserError) as refusal:
        fit.fit(words)
    assert refusal.value.argument == argument
    assert fit.main(words) == 2
    out, err = capsys.readouterr()
    assert "DATA WAS READ" not in out
    assert err.startswith(f"error: --{argument}: " if argument else "error: ")
    assert err.count("\n") == 1
    assert not (workplace / "runs").exists()


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        (["--model", "lightning_modules.CondAlly"], "lightning_modules.CondALI"),
        (["--model.widht", "2"], "width"),
        (["--config", "typo.yaml"], "model"),
        (["--data.edges", '[["t", "bb"]]'], "b"),
    ],
)
def test_a_wrong_name_is_answered_with_the_nearest(workplace, words, nearest):
    (workplace / "typo.yaml").write_text("modle: 3\n")
    with pytest.raises(UserError, match=f"Did you mean '{nearest}'"):
        fit.fit(["--config", "own.yaml", *words])


def test_the_one_command_and_the_modules_are_the_same(workplace, capsys):
    assert cfgen(["fit", "--config", "own.yaml"]) == 0
    memory, *others = capsys.readouterr().out.splitlines()
    assert memory.startswith("memory: a training step could not be tried out in advance")  # its batches are its own
    assert others[:2] == ["run folder: runs/own/001", "DATA WAS READ"]
    assert (workplace / "runs/own/001/finished.json").is_file()


@pytest.mark.parametrize("words", [["--data", "celeba_young"], ["--data=celeba_young.yaml"]])
def test_parts_of_data_go_by_name(words, capsys, tmp_path, monkeypatch):
    """Appendix O's graph through config alone, from any directory."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        fit.main(["--config", "celeba_csali_cpu", *words, "--print_config"])
    assert stopped.value.code == 0
    data = yaml.safe_load(capsys.readouterr().out)["data"]["init_args"]
    assert data["edges"] == [["Young", "Gray_Hair"], ["Young", "Eyeglasses"], ["Young", "Receding_Hairline"]]
