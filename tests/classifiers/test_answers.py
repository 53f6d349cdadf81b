"""Classifiers from outside: what they take and what they return."""

import pytest
import torch
from torch import nn

from cfgen.classifiers import ExternalClassifier, YesProbability
from cfgen.classifiers._network import FixedBatch
from cfgen.errors import UserError
from lightning_modules import Classifier


class Linear(nn.Module):
    """Logits of flattened images, as many as `classes`."""

    def __init__(self, classes=1):
        super().__init__()
        self.drop, self.layer = nn.Dropout(0.5), nn.Linear(3 * 8 * 8, classes)

    def forward(self, x):
        return self.layer(self.drop(x.flatten(1)))


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.fixture
def x():
    return torch.rand(5, 3, 8, 8)


@pytest.fixture
def images():
    """As many as are asked before an audit."""
    return torch.rand(64, 3, 8, 8)


class Wrapped(nn.Module):
    def __init__(self, network, change):
        super().__init__()
        self.network, self.change = network, change

    def forward(self, x):
        return self.change(self.network(x))


def test_every_output_kind_reads_as_the_same_probability(x):
    network = Linear().eval()
    logit = network(x)[:, 0]
    forms = {
        ("logit", None): lambda out: out,
        ("logit", 1): lambda out: out[:, 0],
        ("probability", None): lambda out: out.sigmoid(),
        ("probability", 1): lambda out: torch.cat([1 - out.sigmoid(), out.sigmoid()], dim=1),
        ("logit", 2): lambda out: torch.cat([-50 + 0 * out, 0 * out, out], dim=1),
    }
    for (output, positive), change in forms.items():
        found = YesProbability(Wrapped(network, change), output=output, positive=positive)(x)
        torch.testing.assert_close(found[:, 0], logit.sigmoid())
    pair = YesProbability(Wrapped(network, lambda out: torch.cat([0 * out, out], dim=1)))(x)
    torch.testing.assert_close(pair[:, 0], logit.sigmoid())
    no = YesProbability(network, positive=0)(x)
    torch.testing.assert_close(no[:, 0], (-logit).sigmoid())
    classes = YesProbability(Wrapped(network, lambda out: (out[:, 0] > 0).long()), output="class")(x)
    assert classes[:, 0].tolist() == (logit > 0).float().tolist()


def test_preprocessing_is_what_was_said():
    seen = []

    def keep(images):
        seen.append(images)
        return images.flatten(1).mean(dim=1)

    mean, std = (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)
    x = torch.full((2, 3, 4, 4), 0.4)
    YesProbability(Wrapped(nn.Identity(), keep), resize=(6, 8), mean=mean, std=std, layout="nhwc")(x)
    assert seen[0].shape == (2, 6, 8, 3)
    for channel in range(3):
        expected = torch.full((2, 6, 8), (0.4 - mean[channel]) / std[channel])
        torch.testing.assert_close(seen[0][..., channel], expected)


@pytest.mark.parametrize(
    ("options", "change", "argument"),
    [
        ({"output": "probability"}, lambda out: out * 100, "output"),
        ({"output": "probability", "positive": 0}, lambda out: torch.cat([out.sigmoid(), out], 1), "output"),
        ({}, lambda out: out * torch.nan, "mean"),
        ({}, lambda out: out / 0, "mean"),
        ({"positive": 0}, lambda out: torch.cat([out, out.abs() / 0], 1), "mean"),
        ({"output": "multilabel"}, lambda out: out.expand(-1, 2), "positive"),
        ({"output": "multilabel", "positive": 1}, lambda out: out, "positive"),
        ({}, lambda out: out.expand(-1, 4), "positive"),
        ({"positive": 9}, lambda out: out.expand(-1, 4), "positive"),
        ({"positive": 2}, lambda out: out, "positive"),
        ({"output": "class"}, lambda out: out.expand(-1, 4), "output"),
        ({}, lambda out: out[:2], "classifier"),
        ({}, lambda out: {"logits": out}, "classifier"),
        ({"mean": (0.1, 0.2)}, lambda out: out, "mean"),
        ({"std": (0.1, 0.2)}, lambda out: out, "std"),
        ({"resize": (9, 9)}, lambda out: out, "classifier"),
        ({"std": (0.0,)}, lambda out: out, "std"),
        ({"layout": "hwc"}, lambda out: out, "layout"),
        ({"output": "logits"}, lambda out: out, "output"),
    ],
)
def test_what_does_not_fit_names_the_argument(x, options, change, argument):
    with pytest.raises(UserError) as refusal:
        YesProbability(
            Wrapped(Linear(), change), options.get("positive"), **ExternalClassifier("it", **options).inputs
        ).check(x)
    assert refusal.value.argument == argument
    assert "--" not in str(refusal.value)
    assert "\n" not in str(refusal.value)


def classes(out):
    return (out[:, 0] > 0).long()


ALL_KINDS = {
    "logit": [
        lambda out: out,
        lambda out: torch.cat([0 * out, out], 1),
        lambda out: torch.cat([0 * out, out.sigmoid()], 1),
    ],
    "multilabel": [lambda out: out, lambda out: torch.cat([out, -out], 1)],
    "probability": [lambda out: out.sigmoid(), lambda out: torch.cat([0 * out, out], 1).softmax(1)],
    "class": [classes, lambda out: classes(out).float(), lambda out: classes(out).bool()],
}


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_a_kind_that_is_said_rightly_passes(images, kind):
    positive = 0 if kind == "multilabel" else None
    for change in ALL_KINDS[kind]:
        YesProbability(Wrapped(Linear(), change), output=kind, positive=positive).check(images)


@pytest.mark.parametrize(
    ("given", "change", "right"),
    [
        ("logit", lambda out: out.sigmoid(), "probability"),
        ("logit", lambda out: torch.cat([0 * out, out], 1).softmax(1), "probability"),
        ("logit", lambda out: (out * torch.linspace(1, 2, 40)).sigmoid(), "probability"),
        ("multilabel", lambda out: (out * torch.linspace(1, 2, 40)).sigmoid(), "probability"),
        ("logit", classes, "class"),
        ("multilabel", classes, "class"),
        ("probability", classes, "class"),
        ("probability", lambda out: out, "logit"),
        ("probability", lambda out: torch.cat([-out, out.sigmoid()], 1), "logit"),
        ("class", lambda out: out[:, 0], "logit"),
        ("class", lambda out: out[:, 0].sign() * torch.nan, "logit"),
        ("class", lambda out: out[:, 0] / 0, "logit"),
    ],
)
def test_a_wrong_kind_of_output_is_refused_with_the_right_one(images, given, change, right):
    """Each of these would be audited without complaint, and most with the same answer for every image."""
    positive = 1 if change(torch.zeros(2, 1)).ndim == 2 else None
    with pytest.raises(UserError, match=rf"Its output may\s+be {right}") as refusal:
        YesProbability(Wrapped(Linear(), change), output=given, positive=positive).check(images)
    assert refusal.value.argument == "output"


def test_logits_of_cfgens_own_may_be_small(images):
    """An untrained classifier of a run says nothing of use, and is no mistake of the user's."""

    class Untrained(Classifier):
        def forward(self, x):
            return 0.5 + 0.1 * x.mean((1, 2, 3))

    YesProbability(Untrained((1, 28, 28), classes=2, width=0.05)).check(images)
    with pytest.raises(UserError, match="Its output may be probability"):
        YesProbability(Wrapped(nn.Identity(), lambda x: 0.5 + 0.1 * x.mean((1, 2, 3)))).check(images)


def test_independent_labels_are_read_each_for_itself(images):
    """A sigmoid of the label's own logit, whatever the other labels say; where they exclude one another, a softmax."""
    heads = Linear(40).eval()
    logits = heads(images).detach()
    labels = YesProbability(heads, output="multilabel", positive=31)
    labels.check(images)
    torch.testing.assert_close(labels(images)[:, 0], 1 / (1 + (-logits[:, 31]).exp()))
    exclusive = YesProbability(heads, output="logit", positive=31)(images)
    torch.testing.assert_close(exclusive[:, 0], logits[:, 31].exp() / logits.exp().sum(1))
    only = Linear().eval()
    for positive in (None, 0):  # of one label, the column and not "no"
        found = YesProbability(only, output="multilabel", positive=positive)(images)
        torch.testing.assert_close(found, only(images).sigmoid())


@pytest.mark.parametrize("logits", [1, 2])
def test_one_image_alone_is_answered_as_among_others(images, logits):
    """Also by a network that ends in squeeze(), whose answer for one image has no batch."""
    network = Linear(logits).eval()
    squeezing = YesProbability(Wrapped(network, torch.squeeze))
    squeezing.check(images[:1])
    expected = YesProbability(network)(images)
    torch.testing.assert_close(squeezing(images), expected)
    torch.testing.assert_close(torch.cat([squeezing(image[None]) for image in images]), expected)
    # and one at a time, as programs exported for one image are asked
    torch.testing.assert_close(YesProbability(FixedBatch(Wrapped(network, torch.squeeze), 1))(images), expected)


BY_CHANCE = (lambda out: out + torch.randn_like(out), "the second time")
BY_THE_BATCH = (lambda out: 10 * (out - out.mean(0)), "beside other images")


@pytest.mark.parametrize(("change", "when"), [BY_CHANCE, BY_THE_BATCH])
@pytest.mark.parametrize("count", [2, 9, 64])
def test_an_answer_by_chance_or_by_the_batch_is_refused(images, change, when, count):
    with pytest.raises(UserError, match=when) as refusal:
        YesProbability(Wrapped(Linear(), change)).check(images[:count])
    assert refusal.value.argument == "classifier"


def test_an_answer_by_the_groups_of_a_fixed_batch_is_refused(images):
    with pytest.raises(UserError, match="beside other images") as refusal:
        YesProbability(FixedBatch(Wrapped(Linear(), BY_THE_BATCH[0]), 2)).check(images)
    assert refusal.value.argument == "classifier"
