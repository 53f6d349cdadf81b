"""What a user says about a classifier, and what is loaded from it."""

import pytest
import torch
from torch import nn

from cfgen.attributes import TargetKind
from cfgen.classifiers import ExternalClassifier, load_classifiers
from cfgen.command_line import CommandParser
from cfgen.effects.outcome import OneOfClasses, Value, YesNo
from cfgen.errors import UserError
from cfgen.options import add_options, from_command_line
from lightning_modules import Classifier

SHAPE = (1, 4, 4)
ANIMALS = TargetKind("animal", "categorical", ("cat", "dog", "hen"))


def linear(outputs=1):
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, outputs))


def own(classes=2, target=None):
    return Classifier((1, 28, 28), classes=classes, width=0.05, target=target)


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"layout": "hwc"}, "layout"),
        ({"output": "logits"}, "output"),
        ({"std": (0.0,)}, "std"),
        ({"threshold": 1.0}, "threshold"),
        ({"positive": ()}, "positive"),
        ({"positive": (1, 1)}, "positive"),
        ({"classes": ("cat",)}, "classes"),
        ({"classes": ("cat", "cat")}, "classes"),
        ({"classes": "cat,dog"}, "classes"),
        ({"classes": ("cat", "dog"), "positive": 1}, "classes"),
        ({"classes": ("cat", "dog"), "output": "value"}, "classes"),
        ({"positive": 0, "output": "value"}, "positive"),
        ({"threshold": 0.3, "output": "class"}, "threshold"),
    ],
)
def test_a_bad_value_names_its_argument(options, argument):
    with pytest.raises(UserError) as refusal:
        ExternalClassifier("run", **options)
    assert refusal.value.argument == argument


def test_the_command_line_gives_the_same_classifier():
    parser = CommandParser("try", "Tries the options.")
    add_options(parser, ExternalClassifier, skip=("network",))
    assert ExternalClassifier("it", **from_command_line(ExternalClassifier, parser.parse_args([]), ("network",))) == (
        ExternalClassifier("it")
    )
    words = [
        "--resize",
        "218x178",
        "--mean",
        "0.1,0.2",
        "--std",
        "2",
        "--layout",
        "nhwc",
        "--output",
        "multilabel",
        "--positive",
        "3",
        "--positive",
        "4",
    ]
    words += ["--threshold", "0.3", "--label", "hired", "--trusted"]
    values = from_command_line(ExternalClassifier, parser.parse_args(words), ("network",))
    wanted = {
        "resize": (218, 178), "mean": (0.1, 0.2), "std": (2.0,), "layout": "nhwc", "output": "multilabel",
        "positive": (3, 4), "threshold": 0.3, "label": "hired", "trusted": True,
    }  # fmt: skip
    assert ExternalClassifier("it", **values).settings == wanted
    for words in (["--resize", "0x8"], ["--mean", "a"], ["--positive", "-1"]):
        parsed = parser.parse_args(words)
        with pytest.raises(UserError) as refusal:
            from_command_line(ExternalClassifier, parsed, ("network",))
        assert refusal.value.argument == words[0].lstrip("-")


@pytest.mark.parametrize(
    ("outputs", "options", "outcome"),
    [
        (1, {"threshold": 0.3}, YesNo(0.3)),
        (2, {}, YesNo()),
        (3, {"positive": 2}, YesNo()),
        (3, {"classes": ("a", "b", "c")}, OneOfClasses(("a", "b", "c"))),
        (3, {}, OneOfClasses(("cat", "dog", "hen"))),
        (4, {}, OneOfClasses(("class 0", "class 1", "class 2", "class 3"))),
        (1, {"classes": ("no", "yes")}, OneOfClasses(("no", "yes"))),
        (1, {"output": "value"}, Value()),
    ],
)
def test_every_outcome_has_a_column_for_each_class(outputs, options, outcome):
    (loaded,) = ExternalClassifier(linear(outputs), **options).load(SHAPE, ANIMALS)
    assert loaded.outcome == outcome
    assert loaded.classes_from_data == (loaded.classes == ANIMALS.values)
    x = torch.rand(5, *SHAPE)
    loaded.check(x)
    raw = loaded.network(x)
    assert (raw.shape, raw.dtype) == ((5, len(outcome.columns)), torch.float32)
    answers = loaded.answers(*x)
    if isinstance(outcome, Value):
        assert [one["answer"] for one in answers] == [f"{value:.4g}" for value in raw[:, 0].tolist()]
        return
    assert [one["p"] for one in answers] == pytest.approx(raw.amax(1).tolist())
    chosen = outcome.answers(raw.detach().numpy(), answers[0]["answer"] if loaded.classes else "")
    wanted = answers[0]["answer"] if loaded.classes else "yes"
    assert [one["answer"] == wanted for one in answers] == (chosen == 1).tolist()


def test_names_are_unique():
    def names(*specs):
        return [one.name for one in load_classifiers(specs, SHAPE)]

    labels = ExternalClassifier(linear(3), positive=(0, 2), output="multilabel")
    assert names(linear()) == ["Sequential"]
    assert names(linear(), linear(3), linear()) == ["Sequential", "Sequential #2", "Sequential #3"]
    assert names(labels) == ["class 0", "class 2"]
    assert names(labels, labels) == [
        "Sequential, class 0", "Sequential, class 2", "Sequential, class 0 #2", "Sequential, class 2 #2"
    ]  # fmt: skip
    with pytest.raises(UserError, match="at least one"):
        names()


def test_a_classifier_of_cfgen_knows_its_input_and_its_classes():
    target = {"name": "animal", "kind": "categorical", "values": ["owl", "fox", "bee"]}
    (loaded,) = ExternalClassifier(own(3, target), mean=(0.5,), output="probability").load((1, 28, 28), ANIMALS)
    assert loaded.own
    assert (loaded.classes, loaded.classes_from_data) == (("owl", "fox", "bee"), False)
    x = torch.rand(2, 1, 28, 28)
    assert torch.equal(loaded.network.prepare(x), x)
    assert not load_classifiers([linear()], SHAPE)[0].own
    with pytest.raises(UserError) as refusal:
        ExternalClassifier(own(), output="value").load((1, 28, 28))
    assert refusal.value.argument == "output"


def test_a_run_that_is_no_classifier_is_refused():
    with pytest.raises(UserError, match="HVAE, but a Classifier is needed here") as refusal:
        ExternalClassifier(packaged("morphomnist-hvae")).load((1, 28, 28))
    assert refusal.value.argument == "classifier"


def packaged(name):
    from cfgen.checkpoints import located

    return located(name)
