"""Classifiers from outside: what they take, what they return, and where they come from."""

import re
import sys

import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from cfgen.audit.classifiers.external import ExternalClassifier, FixedBatch, load_network
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
        found = ExternalClassifier(Wrapped(network, change), output=output, positive=positive)(x)
        torch.testing.assert_close(found, logit.sigmoid())
    pair = ExternalClassifier(Wrapped(network, lambda out: torch.cat([0 * out, out], dim=1)))(x)
    torch.testing.assert_close(pair, logit.sigmoid())
    no = ExternalClassifier(network, positive=0)(x)
    torch.testing.assert_close(no, (-logit).sigmoid())
    classes = ExternalClassifier(Wrapped(network, lambda out: (out[:, 0] > 0).long()), output="class")(x)
    assert classes.tolist() == (logit > 0).float().tolist()


def test_preprocessing_is_what_was_said():
    seen = []

    def keep(images):
        seen.append(images)
        return images.flatten(1).mean(dim=1)

    mean, std = (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)
    x = torch.full((2, 3, 4, 4), 0.4)
    ExternalClassifier(Wrapped(nn.Identity(), keep), resize=(6, 8), mean=mean, std=std, layout="nhwc")(x)
    assert seen[0].shape == (2, 6, 8, 3)
    for channel in range(3):
        expected = torch.full((2, 6, 8), (0.4 - mean[channel]) / std[channel])
        torch.testing.assert_close(seen[0][..., channel], expected)


@pytest.mark.parametrize(
    ("options", "change", "message"),
    [
        ({"output": "probability"}, lambda out: out * 100, "is no probability: is it --output logit"),
        (
            {"output": "probability", "positive": 0},
            lambda out: torch.cat([out.sigmoid(), out], 1),
            "is it --output logit",
        ),
        ({}, lambda out: out * torch.nan, "returns nan: are --mean and --std what it takes"),
        ({}, lambda out: out / 0, "returns -?inf: are --mean and --std what it takes"),
        ({"positive": 0}, lambda out: torch.cat([out, out.abs() / 0], 1), "returns (nan|inf): are --mean and --std"),
        ({"output": "multilabel"}, lambda out: out.expand(-1, 2), "has 2 labels: say --positive with one of 0 to 1"),
        ({"output": "multilabel", "positive": 1}, lambda out: out, "has 1 labels: say --positive with one of 0 to 0"),
        (
            {},
            lambda out: out.expand(-1, 4),
            "has 4 classes: say --positive with one of 0 to 3, and --output multilabel if",
        ),
        ({"positive": 9}, lambda out: out.expand(-1, 4), "has 4 classes: say --positive"),
        ({"positive": 2}, lambda out: out, "--positive is 0 or 1, not 2"),
        ({"output": "class"}, lambda out: out.expand(-1, 4), "is it --output logit"),
        ({}, lambda out: out[:2], r"returns \(2, 1\) for 5 images"),
        ({}, lambda out: {"logits": out}, "returns dict for 5 images"),
        ({"mean": (0.1, 0.2)}, lambda out: out, "one for each of the 3 channels"),
        ({"resize": (9, 9)}, lambda out: out, r"fails on images of shape \(5, 3, 9, 9\) .*--resize, --layout"),
        ({"std": (0.0,)}, lambda out: out, "std is above 0"),
        ({"layout": "hwc"}, lambda out: out, "unknown layout 'hwc'"),
    ],
)
def test_what_does_not_fit_is_said_in_a_line(x, options, change, message):
    with pytest.raises(UserError, match=message):
        ExternalClassifier(Wrapped(Linear(), change), **options).check(x)


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
        ExternalClassifier(Wrapped(Linear(), change), output=kind, positive=positive).check(images)


@pytest.mark.parametrize(
    ("said", "change", "hint"),
    [
        ("logit", lambda out: out.sigmoid(), "is it --output probability"),
        ("logit", lambda out: torch.cat([0 * out, out], 1).softmax(1), "is it --output probability"),
        ("logit", lambda out: (out * torch.linspace(1, 2, 40)).sigmoid(), "is it --output probability"),
        ("multilabel", lambda out: (out * torch.linspace(1, 2, 40)).sigmoid(), "is it --output probability"),
        (
            "logit",
            classes,
            "whole numbers (torch.int64), which are no logit: classes, one for each image, are --output class",
        ),
        ("multilabel", classes, "are --output class"),
        ("probability", classes, "are --output class"),
        ("probability", lambda out: out, "is it --output logit"),
        ("probability", lambda out: torch.cat([-out, out.sigmoid()], 1), "is it --output logit"),
        ("class", lambda out: out[:, 0], "is it --output logit"),
        (
            "class",
            lambda out: out[:, 0].sign() * torch.nan,
            "a class is a whole number, and the classifier returns nan",
        ),
        ("class", lambda out: out[:, 0] / 0, "a class is a whole number, and the classifier returns"),
    ],
)
def test_a_kind_that_is_said_wrongly_is_named(images, said, change, hint):
    """Each of these would be audited without complaint, and most with the same answer for every image."""
    positive = 1 if change(torch.zeros(2, 1)).ndim == 2 else None
    with pytest.raises(UserError, match=re.escape(hint)):
        ExternalClassifier(Wrapped(Linear(), change), output=said, positive=positive).check(images)


def test_logits_of_cfgens_own_may_be_small(images):
    """An untrained classifier of a run says nothing of use, and is no mistake of the user's."""

    class Untrained(Classifier):
        def forward(self, x):
            return 0.5 + 0.1 * x.mean((1, 2, 3))

    ExternalClassifier(Untrained((1, 28, 28), classes=2, width=0.05)).check(images)
    with pytest.raises(UserError, match="is it --output probability"):
        ExternalClassifier(Wrapped(nn.Identity(), lambda x: 0.5 + 0.1 * x.mean((1, 2, 3)))).check(images)


def test_independent_labels_are_read_each_for_itself(images):
    """A sigmoid of the label's own logit, whatever the other labels say; where they exclude one another, a softmax."""
    heads = Linear(40).eval()
    logits = heads(images).detach()
    labels = ExternalClassifier(heads, output="multilabel", positive=31)
    labels.check(images)
    torch.testing.assert_close(labels(images), 1 / (1 + (-logits[:, 31]).exp()))
    exclusive = ExternalClassifier(heads, output="logit", positive=31)(images)
    torch.testing.assert_close(exclusive, logits[:, 31].exp() / logits.exp().sum(1))
    only = Linear().eval()
    for positive in (None, 0):  # of one label, the column and not "no"
        found = ExternalClassifier(only, output="multilabel", positive=positive)(images)
        torch.testing.assert_close(found, only(images)[:, 0].sigmoid())


@pytest.mark.parametrize("logits", [1, 2])
def test_one_image_alone_is_answered_as_among_others(images, logits):
    """Also by a network that ends in squeeze(), whose answer for one image has no batch."""
    network = Linear(logits).eval()
    squeezing = ExternalClassifier(Wrapped(network, torch.squeeze))
    squeezing.check(images[:1])
    expected = ExternalClassifier(network)(images)
    torch.testing.assert_close(squeezing(images), expected)
    torch.testing.assert_close(torch.cat([squeezing(image[None]) for image in images]), expected)
    # and one at a time, as programs exported for one image are asked
    torch.testing.assert_close(ExternalClassifier(FixedBatch(Wrapped(network, torch.squeeze), 1))(images), expected)


BY_CHANCE = (lambda out: out + torch.randn_like(out), "when asked again")
BY_THE_BATCH = (lambda out: 10 * (out - out.mean(0)), "beside other images")


@pytest.mark.parametrize(("change", "when"), [BY_CHANCE, BY_THE_BATCH])
@pytest.mark.parametrize("count", [2, 9, 64])
def test_an_answer_by_chance_or_by_the_batch_is_refused(images, change, when, count):
    with pytest.raises(UserError, match=f"answers differ for the same images {when}.*training mode. Call .eval"):
        ExternalClassifier(Wrapped(Linear(), change)).check(images[:count])


def test_an_answer_by_the_groups_of_a_fixed_batch_is_refused(images):
    with pytest.raises(UserError, match="answers differ for the same images beside other images"):
        ExternalClassifier(FixedBatch(Wrapped(Linear(), BY_THE_BATCH[0]), 2)).check(images)


BROKEN = {
    "def model(:\n": r"cannot import broken_0 \(SyntaxError: ",
    "1 / 0": r"cannot import broken_1 \(ZeroDivisionError: division by zero\)",
    "import not_there": r"cannot import broken_2 \(ModuleNotFoundError: No module named 'not_there'\)",
    "import sys; sys.exit(3)": r"cannot import broken_3 \(SystemExit: 3\)",
    "def model(depth): pass": r"calling it without arguments fails \(TypeError: model\(\) missing .*'depth'\)",
    "def model(): open('weights.pt')": r"calling it without arguments fails \(FileNotFoundError: .*weights.pt",
    "def model(): pass": "the function returns NoneType, not an nn.Module",
}


@pytest.mark.parametrize("number", range(len(BROKEN)))
def test_a_function_that_gives_no_network_is_said_in_a_line(tmp_path, monkeypatch, number):
    code, message = list(BROKEN.items())[number]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / f"broken_{number}.py").write_text(code)
    with pytest.raises(UserError, match=f"^--classifier broken_{number}:model: {message}"):
        load_network(f"broken_{number}:model")


def test_a_function_of_ones_own(tmp_path, monkeypatch, x):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine_for_audit.py").write_text(
        "from torch import nn\n"
        "def model():\n    return nn.Sequential(nn.Flatten(), nn.Dropout(0.9), nn.Linear(192, 1))\n"
        "def words():\n    return 'no'\n"
    )
    classifier = ExternalClassifier(load_network("mine_for_audit:model"))
    torch.testing.assert_close(classifier(x), classifier(x))  # evaluation mode: nothing is dropped
    with pytest.raises(UserError, match="returns str, not an nn.Module"):
        load_network("mine_for_audit:words")
    with pytest.raises(UserError, match="unknown function 'modle'. Did you mean 'model'"):
        load_network("mine_for_audit:modle")
    with pytest.raises(UserError, match="cannot import not_there"):
        load_network("not_there:model")
    with pytest.raises(UserError, match="no classifier at nowhere: give a cfgen run"):
        load_network("nowhere")


def write_onnx(path, network, batch="n"):
    weight = numpy_helper.from_array(network.layer.weight.detach().numpy(), "w")
    bias = numpy_helper.from_array(network.layer.bias.detach().numpy(), "b")
    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w", "b"], ["y"], transB=1),
    ]
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 8, 8])
    answer = helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 1])
    graph = helper.make_graph(nodes, "classifier", [image], [answer], [weight, bias])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


@pytest.mark.parametrize("batch", ["n", 2])
def test_an_onnx_file_answers_as_its_module(tmp_path, x, batch):
    network = Linear().eval()
    loaded = load_network(str(write_onnx(tmp_path / "m.onnx", network, batch)))
    torch.testing.assert_close(loaded(x), network(x).detach(), rtol=1e-4, atol=1e-5)


def test_onnx_without_its_runtime(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UserError, match=r"needs onnxruntime: pip install 'cfgen\[onnx\]'"):
        load_network(str(write_onnx(tmp_path / "m.onnx", Linear())))
