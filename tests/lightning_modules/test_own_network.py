"""The repair of a network of the user's own: what it takes and returns, whose code runs, and weights that its own code loads."""

import csv
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file
from torch import nn

from callbacks.bias_split import BiasSplit
from cfgen.checkpoints import load_module
from cfgen.commands import audit, fit
from cfgen.effects import Sample
from cfgen.errors import UserError
from cfgen.interventions import Set
from cfgen.io.classes import naming_functions, trusting
from lightning_modules import CFClassifier, Classifier, OwnNetwork
from lightning_modules.weighted_gap import WeightedGap
from tests.audit.herd import STRENGTH, Herd, herd_run
from tests.fakes import SHAPE, Painter, fitted
from tests.quiet_trainer import quiet_trainer

MY_MODELS = """
import torch
from torch import nn

class Mine(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 5, 4), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.1))
        self.head = nn.Linear(4 * 49, outputs)
        self.tied = self.head.bias

    def forward(self, x):
        assert x.shape[1:] == (32, 32, 1), x.shape
        return self.head(self.body(x.permute(0, 3, 1, 2)))

def made(outputs):
    torch.manual_seed(0)
    return Mine(outputs)

def build():
    return made(3)

def binary():
    return made(1)

def frozen():
    return made(3).requires_grad_(False)
"""
TAKES = {"resize": [32, 32], "mean": [0.3], "std": [0.2], "layout": "nhwc"}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("WANDB_MODE", "disabled")
    Path("my_models.py").write_text(MY_MODELS)
    return tmp_path


def prepared(x):
    """As the network takes images, by hand."""
    larger = nn.functional.interpolate(x, (32, 32), mode="bilinear", antialias=True, align_corners=False)
    return ((larger - 0.3) / 0.2).permute(0, 2, 3, 1)


def test_the_repair_by_command_writes_weights_that_the_users_code_loads(here, capsys):
    run = herd_run(here / "model", rows=200)
    config = {
        "model": {
            "class_path": "lightning_modules.CFClassifier",
            "init_args": {
                "mechanism": str(run),
                "do": [{"old": 1}],
                "gap_weight": 1.0,
                "lr": 0.003,
                "keep_residual": True,
            },
        },
        "data": {"class_path": "tests.audit.herd.Herd", "init_args": {"rows": 200}},
        "trainer": {
            "max_epochs": 2,
            "accelerator": "cpu",
            "num_sanity_val_steps": 0,
            "enable_progress_bar": False,
            "callbacks": [
                {"class_path": "callbacks.Bias", "init_args": {"accuracy": 0.2, "images": 60}},
                {"class_path": "callbacks.BestCheckpoint", "init_args": {"monitor": "val/bias/where_accurate"}},
            ],
        },
    }
    Path("repair.yaml").write_text(yaml.safe_dump(config))
    words = ["--config", "repair.yaml", "--model.classifier", "my_models:build", "--model.resize", "[32,32]"]
    words += ["--model.mean", "[0.3]", "--model.std", "[0.2]", "--model.layout", "nhwc"]
    assert fit.main(words) == 0, capsys.readouterr().err
    folder = Path("runs/repair/001")
    import my_models

    network = my_models.build()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    state = load_file(folder / "repaired.safetensors")
    network.load_state_dict(state, strict=True)
    assert any(not torch.equal(before[name], value) for name, value in state.items())
    data = Herd(rows=200)
    data.setup()
    x = data.images("test")[:30].float() / 255
    repaired = load_module(folder, Classifier, trusted=True).eval()
    with torch.no_grad():
        torch.testing.assert_close(network.eval()(prepared(x)), repaired(x))
    names = {row["name"] for row in csv.DictReader((folder / "metrics.csv").open())}
    assert {"val/bias/old/0", "val/bias/old/2", "val/bias/max_abs", "val/accuracy"} <= names
    # the checkpoint names the user's function: a stranger's would run its code
    with pytest.raises(UserError, match="--trusted"):
        load_module(folder, Classifier)
    words = [
        "--model",
        "model",
        "--classifier",
        "runs/repair",
        "--do",
        "old=1",
        "--predictor",
        "none",
        "--accelerator",
        "cpu",
    ]
    words += ["--explain", "none", "--out", "found"]
    assert audit.main(words) == 2
    assert audit.main([*words, "--trusted"]) == 0
    capsys.readouterr()
    for wrong, option in (("my_models:nothing", "model.classifier"), ("my_models:frozen", "model.classifier")):
        assert fit.main(["--config", "repair.yaml", "--model.classifier", wrong, "--model.resize", "[32,32]",
                         "--model.layout", "nhwc"]) == 2  # fmt: skip
        assert f"error: --{option}: " in capsys.readouterr().err
    assert fit.main(["--config", "repair.yaml", "--model.classifier", "my_models:build"]) == 2  # it takes other images
    assert "error: --model.classifier: " in capsys.readouterr().err
    assert not Path("runs/repair/002").exists()


def test_outputs_are_logits_whatever_the_network_returns(here):
    x = torch.rand(5, *SHAPE)
    with naming_functions(["tests.audit.herd:Animals", "tests.audit.herd:Probable", "tests.audit.herd:DogOrNot"]):
        three = OwnNetwork("tests.audit.herd:Animals", SHAPE)
        probable = OwnNetwork("tests.audit.herd:Probable", SHAPE, output="probability")
        dog = OwnNetwork("tests.audit.herd:DogOrNot", SHAPE)
        one = OwnNetwork("tests.audit.herd:Animals", SHAPE, positive=1)
        for output in ("class", "value"):
            with pytest.raises(UserError) as refusal:
                OwnNetwork("tests.audit.herd:Animals", SHAPE, output=output)
            assert refusal.value.argument == "output"
    assert (three.classes, probable.classes, dog.classes, one.classes) == (3, 3, 2, 2)
    torch.testing.assert_close(probable(x).softmax(1), three(x).softmax(1), atol=1e-4, rtol=0)
    torch.testing.assert_close(dog(x).sigmoid(), three(x).softmax(1)[:, 1])
    torch.testing.assert_close(one(x), dog(x))


def test_code_runs_only_where_it_was_named_or_is_trusted(here):
    with pytest.raises(UserError, match="was not called"):
        OwnNetwork("my_models:build", SHAPE, **TAKES)
    with naming_functions(["my_models:binary"]), pytest.raises(UserError, match="was not called"):
        OwnNetwork("my_models:build", SHAPE, **TAKES)
    with trusting():
        assert OwnNetwork("my_models:build", SHAPE, **TAKES).classes == 3


def test_classes_that_the_data_does_not_have_are_refused_before_training(here, tmp_path):
    data = Herd(rows=60)
    painter = here / "painter.ckpt"
    from tests.fakes import saved

    saved(fitted(Painter, data, strength=STRENGTH), painter)
    with trusting():
        module = CFClassifier(SHAPE, "my_models:binary", str(painter), do=[{"old": 1}], **TAKES)
    with pytest.raises(UserError, match="goes up to 2") as refusal:
        quiet_trainer(tmp_path, max_epochs=1).fit(module, datamodule=data)
    assert refusal.value.argument == "classifier"


def test_the_gap_of_two_classes_is_that_of_yes_and_its_negative():
    data = Herd(rows=300)
    scm = fitted(Painter, data, strength=STRENGTH).scm
    a, logit = data.schema.encode(data.train_columns), torch.randn(300, generator=torch.Generator().manual_seed(0))
    sample, old = Sample(data.schema, scm.graph, data.train_columns), Set.from_values(data.schema, {"old": 1})
    one, two = WeightedGap(sample, [old]), WeightedGap(sample, [old], outputs=2)
    yes = one(logit, a)
    both = two(torch.stack([torch.zeros(300), logit], dim=1), a)
    torch.testing.assert_close(both, torch.cat([-yes, yes]), atol=1e-5, rtol=0)


class Fixed(Classifier):
    """Says the class that the first attribute's stripe tells."""

    def __init__(self, classes):
        super(Classifier, self).__init__()
        self.classes = classes
        self.nothing = nn.Parameter(torch.zeros(1))

    def predict(self, x):
        return (x[:, 0, :4].mean((1, 2)) - x[:, 0, -4:].mean((1, 2)) > STRENGTH / 2).long()


def test_bias_in_training_of_several_classes_is_that_of_each_against_the_rest():
    data = Herd(rows=300)
    painter = fitted(Painter, data, strength=STRENGTH)
    split = BiasSplit(data, "val", [painter], {"old": {"old": 1}}, 100, 0)
    trainer = quiet_trainer(None, max_epochs=1)
    binary, several = (split.estimate(trainer, Fixed(classes), split.pictures((0, 1))) for classes in (2, 3))
    bias = {name: effect.headline.value for name, effect in (binary.effects | several.effects).items()}
    assert bias["old"] == pytest.approx(1)
    assert bias["old/1"] == pytest.approx(bias["old"])
    assert bias["old/0"] == pytest.approx(-bias["old"])
    assert bias["old/2"] == pytest.approx(0, abs=1e-6)
    assert several.accuracy == binary.accuracy
