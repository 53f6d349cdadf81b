"""Classifiers from outside: what they take, what they return, where they come from, and what is refused unread."""

import io
import json
import pickle
import sys
import zipfile

import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from cfgen.errors import UserError
from cfgen.external_classifier import ExternalClassifier, load_network


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
        ({"output": "probability"}, lambda out: out * 100, "is no probability: is it a logit"),
        ({}, lambda out: out * torch.nan, "nan, which is no probability"),
        ({}, lambda out: out.expand(-1, 4), "has 4 classes: say --positive with one of 0 to 3"),
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


def exported(path, network, dynamic=True, images=2):
    shapes = ({0: torch.export.Dim("n")},) if dynamic else None
    program = torch.export.export(network.eval(), (torch.rand(images, 3, 8, 8),), dynamic_shapes=shapes)
    torch.export.save(program, path)
    return path


class Convolutional(nn.Module):
    """The kinds of nodes that graphs of classifiers have: several outputs, lists, sizes, constants, infinities."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(4, 2)
        self.register_buffer("shift", torch.tensor([0.1]), persistent=False)

    def forward(self, x):
        h = self.norm(self.conv(x)).relu() + self.shift
        first, second = h.chunk(2, dim=1)
        pooled, _ = torch.max(torch.cat([first, second], dim=3).view(x.shape[0], 4, -1), dim=2)
        return self.head(pooled.masked_fill(pooled > 1e6, float("-inf"))).softmax(dim=1, dtype=torch.float64)


@pytest.mark.parametrize(("dynamic", "size"), [(True, 5), (True, 1), (False, 5)])
def test_an_exported_program_answers_as_its_module(tmp_path, dynamic, size):
    network = Convolutional().eval()
    network.norm.running_mean.uniform_(-1, 1)
    loaded = load_network(str(exported(tmp_path / "m.pt2", network, dynamic)))  # where fixed, for 2 images at a time
    x = torch.rand(size, 3, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(loaded(x), network(x))


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


class Bomb:
    """Unpickled, leaves a file behind."""

    def __init__(self, mark):
        self.mark = str(mark)

    def __reduce__(self):
        return (open, (self.mark, "w"))


def rewritten(source, target, changes):
    """A zip archive with some files replaced, by the ends of their names."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            for end, change in changes.items():
                content = change(content) if name.endswith(end) else content
            new.writestr(name, content)
    return target


@pytest.mark.parametrize("suffix", [".ckpt", ".pt2", ".onnx", ".pt", ".pth", ".pkl", ".bin", ""])
@pytest.mark.parametrize("form", ["pickle", "torch"])
def test_a_hostile_pickle_is_refused_and_not_executed(tmp_path, suffix, form):
    mark = tmp_path / "executed"
    buffer = io.BytesIO()
    pickle.dump(Bomb(mark), buffer) if form == "pickle" else torch.save(Bomb(mark), buffer)
    hostile = tmp_path / f"model{suffix}"
    hostile.write_bytes(buffer.getvalue())
    with pytest.raises(UserError):
        load_network(str(hostile))
    assert not mark.exists()
    torch.load(io.BytesIO(buffer.getvalue()), weights_only=False) if form == "torch" else pickle.loads(
        buffer.getvalue()
    )
    assert mark.exists()  # it would have been


def test_an_exported_program_cannot_run_code(tmp_path):
    """Each way in which torch.export.load would execute what a file says."""
    mark = tmp_path / "executed"
    network = Linear()
    good = exported(tmp_path / "good.pt2", network)
    bomb = io.BytesIO()
    torch.save(Bomb(mark), bomb)

    def pickled(config):
        loaded = json.loads(config)
        next(iter(loaded["config"].values()))["use_pickle"] = True
        return json.dumps(loaded).encode()

    def graph(change):
        def apply(model):
            loaded = json.loads(model)
            change(loaded)
            return json.dumps(loaded).encode()

        return {"models/model.json": apply}

    def call(target):
        def change(program):
            program["graph_module"]["graph"]["nodes"][0]["target"] = target

        return graph(change)

    hostile = {
        "is pickled": {"weights_config.json": pickled, "weight_0": lambda _: bomb.getvalue()},
        "calls torch.os.system,": call("torch.os.system"),
        "calls _operator.methodcaller,": call("_operator.methodcaller"),
        "calls torch.ops.aten.from_file.default,": call("torch.ops.aten.from_file.default"),
        "calls torch.ops.aten.save.default,": call("torch.ops.aten.save.default"),
    }
    for message, changes in hostile.items():
        with pytest.raises(UserError, match=message):
            load_network(str(rewritten(good, tmp_path / "bad.pt2", changes)))

    def shapes_and_guards(program):
        code = f"open({str(mark)!r}, 'w')"
        program["guards_code"] = [code]
        for value in program["graph_module"]["graph"]["tensor_values"].values():
            value["sizes"] = [{"as_expr": {"expr_str": code, "hint": None}}, *value["sizes"][1:]]

    # these parts are never looked at, so the rest is as good as before
    ignored = graph(shapes_and_guards) | {"sample_inputs/model.pt": lambda _: bomb.getvalue()}
    loaded = load_network(str(rewritten(good, tmp_path / "odd.pt2", ignored)))
    x = torch.rand(3, 3, 8, 8)
    torch.testing.assert_close(loaded(x), network(x).detach())
    assert not mark.exists()
    with pytest.raises(UserError, match="is not an exported program that can be read safely"):
        load_network(str(rewritten(good, tmp_path / "torn.pt2", {"weight_0": lambda content: content[:8]})))


def test_onnx_without_its_runtime(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UserError, match=r"needs onnxruntime: pip install 'cfgen\[onnx\]'"):
        load_network(str(write_onnx(tmp_path / "m.onnx", Linear())))
