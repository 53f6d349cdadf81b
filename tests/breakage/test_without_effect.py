"""What would have no effect beside the other arguments is refused by the functions themselves, before any image is made."""

import pytest
import torch

from cfgen.audit import audit
from cfgen.classifiers import ExternalClassifier, YesProbability, load_classifiers
from cfgen.errors import UserError
from cfgen.evaluation import evaluate
from cfgen.evaluation.judges import Judges
from cfgen.evaluation.run import choose
from cfgen.evaluation.subject import subjects_of
from cfgen.runs.generation import generate
from cfgen.runs.model import load_trained
from lightning_modules import Classifier
from tests.audit.worlds import Bright
from tests.fakes import ReadStripes, Stripes

DO = {"Bangs": 1}
SHAPE = (1, 28, 28)


def stripes() -> Stripes:
    return Stripes([1.0, 1.0, 1.0, 0.0])


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"explain": (), "explain_count": 5}, "explain_count"),
        ({"do": [DO, "Bangs=1"]}, "do"),
        ({"do": ["Bangs=1", "Bangs=1.0"]}, "do"),
        ({"do": ["Bangs=1,Pale_Skin=0", "Pale_Skin=0,Bangs=1"]}, "do"),
        ({"among": ["Black_Hair=1", {"Black_Hair": 1}]}, "among"),
        ({"explain": ["Bangs", "Bangs"]}, "explain"),
        ({"subgroups": ["Bangs", "Bangs"]}, "subgroups"),
        ({"local": [1, 1]}, "local"),
        ({"curves": ["Bangs", "Bangs"]}, "curve"),
        ({"focus": ["no", "no"]}, "class"),
        ({"adjust": ["year", "year"]}, "adjust"),
        ({"strengths": [0.5]}, "strengths"),  # there is no such option
        ({"hold": ["Black_Hair"]}, "hold"),
        ({"models": ["run"]}, "model"),
        ({"models": ["run/last.ckpt"]}, "model"),
        ({"models": ["other", "./other"]}, "model"),
    ],
)
def test_of_an_audit(options, argument):
    with pytest.raises(UserError) as refusal:
        audit(load_trained("run"), Bright(), **{"do": [DO], "predictor": None} | options)
    assert refusal.value.argument == argument


def test_of_a_classifier():
    with pytest.raises(UserError) as refusal:
        ExternalClassifier(Bright(), threshold=0.3, output="class")
    assert refusal.value.argument == "threshold"


@pytest.mark.parametrize(
    "given", [{"resize": (32, 32)}, {"mean": (0.5,)}, {"std": (2.0,)}, {"layout": "nhwc"}, {"output": "probability"}]
)
def test_how_a_classifier_of_ours_is_asked_is_known(given):
    own = Classifier(SHAPE, classes=2, width=0.05)
    (argument,) = given
    with pytest.raises(UserError) as refusal:
        load_classifiers([ExternalClassifier(own, **given)] * 2, SHAPE)
    assert refusal.value.argument == argument
    # beside one of somebody else's it is about that one
    ours, theirs = load_classifiers([ExternalClassifier(one, **given) for one in (own, Bright())], SHAPE)
    x = torch.rand(3, *SHAPE)
    assert torch.equal(ours.network.prepare(x), x)
    assert torch.equal(theirs.network.prepare(x), YesProbability(Bright(), **given).prepare(x))
    assert (ours.network.output, theirs.network.output) == ("logit", given.get("output", "logit"))


def test_a_classifier_of_ours_can_be_asked_in_its_own_size():
    own = Classifier(SHAPE, classes=2, width=0.05)
    (one,) = load_classifiers([ExternalClassifier(own, resize=(28, 28))], SHAPE)
    assert one.network.prepare(torch.rand(3, 1, 14, 14)).shape == (3, 1, 28, 28)


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"classifier": stripes()}, "classifier"),
        ({"predictor": "judge"}, "predictor"),
        ({"values": 3}, "values"),
        ({"metrics": ["cycles", "cycles"]}, "metrics"),
    ],
)
def test_of_an_evaluation(options, argument):
    if "predictor" in options:
        options = {"predictor": ReadStripes(load_trained("run").schema)}
    with pytest.raises(UserError) as refusal:
        evaluate("run", **{"metrics": ["cycles"]} | options)
    assert refusal.value.argument == argument


def test_judges_of_metrics_that_are_asked_for_have_a_part_in_them():
    judge = ReadStripes(load_trained("run").schema)
    plain = evaluate("run", metrics=["cycles"]).scores.keys()
    found = {
        "bias/": evaluate("run", metrics=["cycles", "bias"], classifier=stripes()),
        "predicted/": evaluate("run", metrics=["cycles", "effectiveness"], predictor=judge),
    }
    for prefix, evaluation in found.items():
        more = evaluation.scores.keys() - plain
        assert more
        assert all(name.startswith(prefix) for name in more)


def test_a_network_that_is_named_is_used_whatever_the_metrics_are():
    (subject,) = subjects_of(["run"], "test", None)
    assert {metric.name for metric in choose(["cycles"], subject, Judges(fid=object()))} == {"cycles", "fid"}


def test_of_counterfactuals():
    model = load_trained("run")
    for options, argument in (({"do": [DO, {"Bangs": 1.0}]}, "do"), ({"do": [DO], "given": DO}, "given")):
        with pytest.raises(UserError) as refusal:
            generate(model, **options)
        assert refusal.value.argument == argument
