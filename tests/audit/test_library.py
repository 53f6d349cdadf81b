"""`audit` as a notebook calls it: what it takes, what it returns, and what it refuses."""

import json
import math

import numpy as np
import pytest
import torch

from cfgen.audit import audit as audit_with_predictor
from cfgen.audit import write_report
from cfgen.classifiers import ExternalClassifier
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
    classifier = ExternalClassifier(Reddish(), label="Attractive")
    return audit(model, classifier, do=DO, among=["Smiling=1"], explain=["Bangs"], count=40)


def test_it_prints_nothing_and_gives_tables_and_facts(model, result, capsys):
    again = audit(model, CLASSIFIER, do=DO, among=[{"Smiling": 1}], explain=["Bangs"], count=40, batch_size=9)
    assert capsys.readouterr() == ("", "")
    frame = result.to_frame()
    assert frame["change"].unique().tolist() == ["horizontal_flip", "brightness", "Black_Hair=1,Pale_Skin=1", *DO[1:]]
    assert frame["among"].unique().tolist() == ["everyone", "Smiling=1"]
    assert frame["n"].max() == 40
    # named as a function or given as a network, with another batch size: the same answers
    for picture, raw in result.answers.tables["Reddish"].items():
        np.testing.assert_allclose(again.answers[CLASSIFIER, picture], raw, rtol=1e-5, atol=1e-6)
    assert again.to_frame()["bias"].equals(frame["bias"])
    assert [one.attribute for one in result.importance] == ["Bangs"]
    assert 0 < result.first.accuracy < 1
    assert math.isnan(again.first.accuracy)  # nobody says what its yes means
    values = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert values["warnings"] == result.warnings
    assert [one["name"] for one in values["classifiers"]] == ["Reddish"]
    assert json.loads(json.dumps(result.provenance))["options"]["do"] == DO
    assert result.provenance["device"] == "1 x cpu"
    assert "command" not in result.provenance  # no command was typed
    assert not {"options", "seconds", "device", "versions"} & values.keys()  # results alone


def test_results_alone_are_the_same_for_the_same_questions(model, result):
    classifier = ExternalClassifier(Reddish(), label="Attractive")
    again = audit(model, classifier, do=DO, among=["Smiling=1"], explain=["Bangs"], count=40)
    assert json.dumps(again.to_dict()) == json.dumps(result.to_dict())


def test_a_folder_holds_what_the_result_says(result, here):
    folder = write_report(result, here / "new/found")
    assert [row["change"] for row in rows(folder)] == result.to_frame()["change"].tolist()
    assert [row["attribute"] for row in rows(folder, "importance.csv")] == ["Bangs"]
    assert json.loads((folder / "audit.json").read_text())["label"] == "Attractive"
    assert json.loads((folder / "provenance.json").read_text())["options"] == result.provenance["options"]
    figures = {path.stem for path in folder.glob("*.png")}
    assert {"estimates", "fairness_do", "fairness_affine", "attribute_ranking", "causal_graph"} <= figures
    newest = max(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    assert newest.name == "report.html"
    before = sorted(folder.iterdir())
    for write in (result.save, lambda folder: write_report(result, folder)):
        with pytest.raises(UserError) as refusal:
            write(folder)
        assert refusal.value.argument == "folder"
    assert sorted(folder.iterdir()) == before
    (here / "empty").mkdir()
    tables = result.save(here / "empty")
    assert {path.name for path in tables.iterdir()} == set(result.files())
    for name in result.files():
        assert (tables / name).read_bytes() == (folder / name).read_bytes(), name


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"do": []}, "do"),
        ({"do": [{}]}, "do"),
        ({"do": [3]}, "do"),
        ({"do": [{"Young": [0, 1]}]}, "do"),
        ({"do": ["Young"]}, "do"),
        ({"do": ["Young=0", {"Young": 0}]}, "do"),
        ({"do": ["Young=0,Bangs=1", "Bangs=1.0,Young=0"]}, "do"),
        ({"among": [{"Yong": 0}]}, "among"),
        ({"explain": "Yong"}, "explain"),
        ({"explain_count": 0}, "explain_count"),
        ({"seed": -1}, "seed"),
        ({"count": 0}, "count"),
        ({"batch_size": 0}, "batch_size"),
        ({"split": "train"}, "split"),
        ({"predictor": "nowhere"}, "predictor"),
        ({"doo": ["Young=0"]}, "doo"),
        ({"local": [5], "explain": "all"}, "local"),
    ],
)
def test_the_argument_at_fault_is_named(model, options, argument):
    with pytest.raises(UserError) as refusal:
        audit(model, Reddish(), **{"do": ["Young=0"], "count": 5, "explain": ()} | options)
    assert refusal.value.argument == argument
    assert "--" not in str(refusal.value)


@pytest.mark.parametrize(
    ("settings", "argument"),
    [
        ({"threshold": 1.0}, "threshold"),
        ({"layout": "hwc"}, "layout"),
        ({"output": "logits"}, "output"),
        ({"std": (0.0,)}, "std"),
        ({"positive": 5}, "positive"),
        ({"mean": (0.1, 0.2)}, "mean"),
    ],
)
def test_the_setting_of_a_classifier_at_fault_is_named(model, settings, argument):
    with pytest.raises(UserError) as refusal:
        audit(model, ExternalClassifier(Reddish(), **settings), do=["Young=0"], count=5, explain=())
    assert refusal.value.argument == argument
    assert "--" not in str(refusal.value)


def test_an_image_beyond_those_that_are_ranked_can_be_explained(model):
    result = audit(model, Reddish(), do=["Young=0"], count=20, explain=["Bangs"], explain_count=5, local=[17])
    assert [(line.image, line.attribute) for line in result.first.local] == [(17, "Bangs")]
    assert [line.n for line in result.importance] == [5]


def test_one_intervention_needs_no_list(model):
    for do in ("Bangs=1", {"Bangs": 1}):
        result = audit(model, Reddish(), do=do, explain=(), count=5)
        assert [one.name for one in result.questions.interventions] == ["Bangs=1"]


def test_a_model_without_its_data_is_refused(data):
    with pytest.raises(UserError) as refusal:
        audit(TrainedModel(Shift(data.scm_spec, data.image_shape)), Reddish(), do=["Young=0"])
    assert refusal.value.argument == "model"


def test_a_predictor_may_be_an_object(model, data):
    torch.manual_seed(0)
    predictor = Predictor(data.scm_spec, data.image_shape, width=0.05).eval()
    result = audit(model, Reddish(), do=["Bangs=1"], explain=(), count=20, predictor=predictor)
    (row,) = result.first.findings
    assert 0 <= row.strength.seen <= 1
    assert len(result.questions.facts["predictor"]["sha256"]) == 64


def test_the_users_network_can_be_trained_afterwards(model):
    network = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(3, 1))
    audit(model, network, do=["Bangs=1"], explain=(), count=5)
    assert all(parameter.requires_grad for parameter in network.parameters())
