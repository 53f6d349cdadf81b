"""`audit` as a notebook calls it: what it takes, what it returns, and what it refuses."""

import json

import pytest
import torch
from matplotlib.figure import Figure

from cfgen.audit.library import audit as audit_with_predictor
from cfgen.errors import UserError
from cfgen.runs.model import TrainedModel, load_trained
from lightning_modules import Predictor
from tests.audit.shifting import CLASSIFIER, Reddish, Shift, rows

DO = [{"Black_Hair": 1, "Pale_Skin": 1}, "Young=0", "Young=1"]


@pytest.fixture(scope="module")
def model(run):
    return load_trained(run)


def audit(model, classifier, **options):
    """Without a predictor, unless a test asks for one."""
    return audit_with_predictor(model, classifier, **{"predictor": None} | options)


@pytest.fixture(scope="module")
def result(model):
    return audit(model, Reddish(), do=DO, among=["Smiling=1"], explain=["Bangs"], count=40, label="Attractive")


def test_it_prints_nothing_and_gives_tables_figures_and_facts(model, result, capsys):
    again = audit(model, CLASSIFIER, do=DO, among=[{"Smiling": 1}], explain=["Bangs"], count=40, batch_size=9)
    assert capsys.readouterr() == ("", "")
    frame = result.to_frame()
    assert frame["change"].unique().tolist() == ["horizontal_flip", "brightness", "Black_Hair=1,Pale_Skin=1", *DO[1:]]
    assert frame["among"].unique().tolist() == ["everyone", "Smiling=1"]
    assert frame["n"].max() == 40
    # named as a function or given as a network, with another batch size: the same answers
    torch.testing.assert_close(again.scores.values, result.scores.values, equal_nan=True)
    assert again.to_frame()["bias"].equals(frame["bias"])
    assert [one.attribute for one in result.importance] == ["Bangs"]
    assert 0 < result.accuracy < 1
    assert again.accuracy is None  # nobody says what its yes means
    assert all(isinstance(figure, Figure) for figure in result.figures.values())
    assert {"fairness_do", "fairness_affine", "attribute_ranking", "causal_graph"} <= result.figures.keys()
    assert result.figures is result.figures  # made once
    values = json.loads(json.dumps(result.to_dict()))
    assert values["options"]["do"] == DO
    assert values["options"]["classifier"] == "Reddish"
    assert values["command"] is None
    assert values["warnings"] == result.warnings


def test_a_folder_holds_what_the_result_says(result, here):
    folder = result.save(here / "new/found")
    assert [row["change"] for row in rows(folder)] == result.to_frame()["change"].tolist()
    assert [row["attribute"] for row in rows(folder, "importance.csv")] == ["Bangs"]
    assert json.loads((folder / "audit.json").read_text())["label"] == "Attractive"
    assert (folder / "report.html").read_text() == result.report_html()
    assert {path.stem for path in folder.glob("*.png")} == result.figures.keys()
    newest = max(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    assert newest.name == "report.html"
    before = sorted(folder.iterdir())
    with pytest.raises(UserError) as refusal:
        result.save(folder)
    assert refusal.value.argument == "folder"
    assert sorted(folder.iterdir()) == before
    (here / "empty").mkdir()
    assert (result.save(here / "empty") / "report.html").is_file()


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"do": []}, "do"),
        ({"do": [{}]}, "do"),
        ({"do": [3]}, "do"),
        ({"do": [{"Young": [0, 1]}]}, "do"),
        ({"do": ["Young"]}, "do"),
        ({"among": [{"Yong": 0}]}, "among"),
        ({"explain": "Yong"}, "explain"),
        ({"explain_count": 0}, "explain_count"),
        ({"threshold": 1.0}, "threshold"),
        ({"seed": -1}, "seed"),
        ({"count": 0}, "count"),
        ({"batch_size": 0}, "batch_size"),
        ({"split": "train"}, "split"),
        ({"layout": "hwc"}, "layout"),
        ({"output": "logits"}, "output"),
        ({"std": (0.0,)}, "std"),
        ({"positive": 5}, "positive"),
        ({"predictor": "nowhere"}, "predictor"),
    ],
)
def test_the_argument_at_fault_is_named(model, options, argument):
    with pytest.raises(UserError) as refusal:
        audit(model, Reddish(), **{"do": ["Young=0"], "count": 5, "explain": ()} | options)
    assert refusal.value.argument == argument
    assert "--" not in str(refusal.value)


def test_one_intervention_needs_no_list(model):
    for do in ("Bangs=1", {"Bangs": 1}):
        result = audit(model, Reddish(), do=do, explain=(), count=5)
        assert list(result.plan.do) == ["Bangs=1"]


def test_a_model_without_its_data_is_refused(data):
    with pytest.raises(UserError) as refusal:
        audit(TrainedModel(Shift(data.scm_spec, data.image_shape)), Reddish(), do=["Young=0"])
    assert refusal.value.argument == "model"


def test_a_predictor_may_be_an_object(model, data):
    torch.manual_seed(0)
    predictor = Predictor(data.scm_spec, data.image_shape, width=0.05).eval()
    result = audit(model, Reddish(), do=["Bangs=1"], explain=(), count=20, predictor=predictor)
    (row,) = (row for row in result.bias if row.do)
    assert 0 <= row.effect.strength.seen <= 1
    assert len(result.facts["predictor"]["sha256"]) == 64


def test_the_users_network_can_be_trained_afterwards(model):
    network = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(3, 1))
    audit(model, network, do=["Bangs=1"], explain=(), count=5)
    assert all(parameter.requires_grad for parameter in network.parameters())
