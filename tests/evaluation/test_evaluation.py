"""Metrics of `cfgen evaluate` against models whose scores are known beforehand."""

import json

import pytest
import torch
from torch import Tensor, nn

from cfgen import evaluate, fit
from cfgen.evaluation import cycles, true_counterfactual_errors
from cfgen.scm import AttributeSCM
from datamodules import Faces


@pytest.fixture(scope="module")
def faces(tmp_path_factory) -> Faces:
    data = Faces(count=100, cache_dir=str(tmp_path_factory.mktemp("faces")))
    data.prepare_data()
    data.setup()
    return data


class Mechanism(nn.Module):
    """Images come back from their state as they were, whatever the attributes; with an error where one is asked for."""

    def __init__(self, faces: Faces, error: float = 0.0) -> None:
        super().__init__()
        self.scm, self.error = AttributeSCM(**faces.scm_spec), error
        self.scm.fit(faces.train_columns)

    def abduct(self, x: Tensor, a: Tensor) -> Tensor:
        return x

    def decode(self, z: Tensor, a: Tensor) -> Tensor:
        return z + self.error

    def latent(self, state: Tensor) -> Tensor:
        return state

    def prior(self, rows: int) -> Tensor:
        return torch.randn(rows, 3, 64, 64)


class Oracle(Mechanism):
    """Knows which face a state is of, and draws it with the attributes."""

    def __init__(self, faces: Faces, split: str) -> None:
        super().__init__(faces)
        self.faces, self.split = faces, split

    def abduct(self, x: Tensor, a: Tensor) -> Tensor:
        return torch.arange(len(x))

    def decode(self, z: Tensor, a: Tensor) -> Tensor:
        return self.faces.true_counterfactual(self.split, z, a).float() / 255


def truths(mechanism: nn.Module, faces: Faces) -> dict[str, float]:
    x, columns = faces.images("test"), faces.columns("test")
    sums: dict[str, float] = {}
    for part in true_counterfactual_errors(mechanism, faces, "test", x, columns):
        for name, value in part.items():
            sums[name] = sums.get(name, 0.0) + value / len(x)
    return sums


def test_a_model_that_ignores_attributes_scores_what_doing_nothing_scores(faces):
    found = truths(Mechanism(faces), faces)
    for name in faces.schema.names:
        assert found[f"true_error/do({name})"] == pytest.approx(found[f"true_error/untouched({name})"], abs=1e-4)
        assert found[f"true_error/effect({name})"] == pytest.approx(found[f"true_error/untouched({name})"], abs=1e-4)
        assert found[f"true_error/do({name})"] > 0
        assert found[f"true_error/changed({name})"] == 0


def test_the_truth_itself_has_no_error(faces):
    found = truths(Oracle(faces, "test"), faces)
    for name in set(faces.schema.names) - {"Young"}:  # whose effects the model's SCM draws from an estimate
        assert found[f"true_error/do({name})"] == pytest.approx(0, abs=1e-3)
        assert found[f"true_error/effect({name})"] == pytest.approx(0, abs=1e-3)
        assert found[f"true_error/changed({name})"] == pytest.approx(1)


def test_the_effect_is_apart_from_what_the_reconstruction_lost(faces):
    found = truths(Mechanism(faces, error=0.1), faces)
    for name in faces.schema.names:
        assert found[f"true_error/effect({name})"] == pytest.approx(found[f"true_error/untouched({name})"], abs=1e-3)
        assert found[f"true_error/do({name})"] > found[f"true_error/untouched({name})"] + 10


def test_cycles_of_known_errors(faces):
    x, columns = faces.images("test"), faces.columns("test")
    perfect = cycles(Mechanism(faces), x, columns)
    assert perfect == {"composition_l1/1": 0, "composition_l1/10": 0, "mae_z": 0, "mse_x": 0}
    off = cycles(Mechanism(faces, error=0.01), x, columns)
    assert off["mse_x"] == pytest.approx(1e-4, rel=1e-3)
    assert off["mae_z"] == pytest.approx(0.01, rel=1e-3)
    assert off["composition_l1/1"] == pytest.approx(2.55, rel=1e-3)
    assert off["composition_l1/10"] == pytest.approx(25.5, rel=1e-3)


def test_the_command_on_faces(faces, tmp_path, monkeypatch, capsys):
    """From `cfgen fit` to Table 2's figures and the distance from the truth."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "disabled")
    options = ["--data.count", "100", "--data.cache_dir", str(faces.cache_dir), "--data.batch_size", "20"]
    options += ["--model.width", "0.02", "--model.latent_dim", "4", "--trainer.max_epochs", "1"]
    assert fit.main(["--config", "faces_styleali", *options, "--trainer.enable_progress_bar", "false"]) == 0
    assert evaluate.main(["runs/faces_styleali", "--fid", "tests_features:Colours"]) == 2
    assert "tests_features" in capsys.readouterr().err
    (tmp_path / "colours.py").write_text(
        "import torch\nclass Colours(torch.nn.Module):\n    num_features = 3\n    def forward(self, x):\n        return x.mean((2, 3))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert evaluate.main(["runs/faces_styleali", "--fid", "colours:Colours"]) == 0
    out = capsys.readouterr().out
    assert "Distance from the true counterfactual" in out
    metrics = json.loads((tmp_path / "runs/faces_styleali/001/metrics.json").read_text())
    assert {"mse_x", "mae_z", "fid_Colours/generated", "true_error/do(Bangs)", "composition_l1/1"} <= metrics.keys()
    assert metrics["images"] == 10
