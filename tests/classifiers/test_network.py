"""Where classifiers come from: functions, ONNX files, programs of torch.export; and which files are not read."""

import io
import pickle
import sys

import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from cfgen.classifiers import YesProbability, load_network
from cfgen.classifiers._network import FixedBatch
from cfgen.errors import UserError


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.fixture
def x():
    return torch.rand(5, 3, 8, 8)


def refusal_of(what, **options):
    with pytest.raises(UserError) as refusal:
        load_network(what, **options)
    assert refusal.value.argument == "classifier"
    assert "\n" not in str(refusal.value)
    assert "--" not in str(refusal.value)
    return str(refusal.value)


BROKEN = {
    "def model(:\n": "SyntaxError",
    "1 / 0": "ZeroDivisionError",
    "import not_there": "ModuleNotFoundError",
    "import sys; sys.exit(3)": "SystemExit",
    "def model(depth): pass": "TypeError",
    "def model(): open('weights.pt')": "FileNotFoundError",
    "def model(): pass": "NoneType",
}


@pytest.mark.parametrize("number", range(len(BROKEN)))
def test_a_function_that_gives_no_network_is_refused_in_a_line(tmp_path, monkeypatch, number):
    code, reason = list(BROKEN.items())[number]
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"broken_{number}.py").write_text(code)
    assert reason in refusal_of(f"broken_{number}:model")


def test_a_function_of_ones_own(tmp_path, monkeypatch, x):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine_for_audit.py").write_text(
        "from torch import nn\n"
        "def model():\n    return nn.Sequential(nn.Flatten(), nn.Dropout(0.9), nn.Linear(192, 1))\n"
        "def words():\n    return 'no'\n"
    )
    classifier = YesProbability(load_network("mine_for_audit:model"))
    torch.testing.assert_close(classifier(x), classifier(x))  # evaluation mode: nothing is dropped
    assert "str" in refusal_of("mine_for_audit:words")
    assert "Did you mean 'model'?" in refusal_of("mine_for_audit:modle")
    refusal_of("not_there:model")
    refusal_of("nowhere")


def test_loading_leaves_the_path_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "only_here.py").write_text("def model(): pass\n")
    before = list(sys.path)
    assert "ModuleNotFoundError" in refusal_of("only_here:model")
    assert sys.path == before


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3 * 8 * 8, 1)

    def forward(self, x):
        return self.layer(x.flatten(1))


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
    assert "pip install 'cfgen[onnx]'" in refusal_of(str(write_onnx(tmp_path / "m.onnx", Linear())))


class Convolutional(nn.Module):
    """Runs on images of any size, and keeps a constant."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(8, 2)
        self.register_buffer("shift", torch.tensor([0.1]), persistent=False)

    def forward(self, x):
        return self.head((self.norm(self.conv(x)).relu() + self.shift).amax((2, 3)))


def exported(path, network, dynamic=True):
    shapes = ({0: torch.export.Dim("n")},) if dynamic else None
    torch.export.save(torch.export.export(network, (torch.rand(2, 3, 8, 8),), dynamic_shapes=shapes), path)
    return path


@pytest.mark.parametrize(("dynamic", "size"), [(True, 5), (True, 1), (False, 5)])
def test_a_trusted_program_answers_as_its_module(tmp_path, dynamic, size):
    network = Convolutional().eval()
    network.norm.running_mean.uniform_(-1, 1)
    loaded = load_network(exported(tmp_path / "m.pt2", network, dynamic), trusted=True)
    assert isinstance(loaded, FixedBatch) is not dynamic  # where fixed, for 2 images at a time
    x = torch.rand(size, 3, 8, 8)
    with torch.no_grad():
        expected = network(x).softmax(1)[:, 1]
        torch.testing.assert_close(YesProbability(loaded)(x)[:, 0], expected)
    YesProbability(loaded).check(torch.rand(64, 3, 8, 8))


def test_a_program_is_refused_for_images_that_it_was_not_exported_for(tmp_path):
    """The network itself would run on images of any size, and answer something else."""
    loaded = load_network(exported(tmp_path / "m.pt2", Convolutional().eval()), trusted=True)
    x = torch.rand(9, 3, 16, 16)
    for options in ({}, {"resize": (8, 8), "layout": "nhwc"}):
        with pytest.raises(UserError) as refusal:
            YesProbability(loaded, **options).check(x)
        assert refusal.value.argument == "classifier"
        assert "\n" not in str(refusal.value)
    YesProbability(loaded, resize=(8, 8)).check(x)


def test_a_program_of_two_inputs_is_refused(tmp_path):
    class Both(nn.Module):
        def forward(self, x, y):
            return (x + y).mean((1, 2, 3))

    pair = (torch.rand(2, 3, 8, 8), torch.rand(2, 3, 8, 8))
    torch.export.save(torch.export.export(Both(), pair), tmp_path / "m.pt2")
    refusal_of(tmp_path / "m.pt2", trusted=True)


@pytest.mark.parametrize("layer", [nn.Dropout(0.2), nn.BatchNorm1d(192)])
@pytest.mark.parametrize("dynamic", [True, False])
def test_a_program_exported_in_training_mode_is_refused(tmp_path, layer, dynamic):
    network = nn.Sequential(nn.Flatten(), layer, nn.Linear(192, 1))
    path = exported(tmp_path / "m.pt2", network.train(), dynamic)
    classifier = YesProbability(load_network(path, trusted=True))
    with pytest.raises(UserError, match="training mode") as refusal:
        classifier.check(torch.rand(64, 3, 8, 8))
    assert refusal.value.argument == "classifier"


@pytest.mark.parametrize("content", [b"", b"not a program", pickle.dumps({"a": 1})])
def test_a_file_that_is_no_program_is_refused_in_a_line(tmp_path, capfd, content):
    path = tmp_path / "m.pt2"
    path.write_bytes(content)
    assert str(path) in refusal_of(path, trusted=True)
    assert capfd.readouterr() == ("", "")


class Bomb:
    """Unpickled, leaves a file behind."""

    def __init__(self, mark):
        self.mark = str(mark)

    def __reduce__(self):
        return (open, (self.mark, "w"))


@pytest.mark.parametrize("suffix", [".ckpt", ".pt2", ".onnx", ".pt", ".pth", ".pkl", ".bin", ""])
@pytest.mark.parametrize("form", ["pickle", "torch"])
def test_a_hostile_pickle_is_refused_and_not_executed(tmp_path, suffix, form):
    mark = tmp_path / "executed"
    buffer = io.BytesIO()
    pickle.dump(Bomb(mark), buffer, protocol=2) if form == "pickle" else torch.save(Bomb(mark), buffer)
    hostile = tmp_path / f"model{suffix}"
    hostile.write_bytes(buffer.getvalue())
    refusal_of(str(hostile))
    assert not mark.exists()
    torch.load(io.BytesIO(buffer.getvalue()), weights_only=False) if form == "torch" else pickle.loads(
        buffer.getvalue()
    )
    assert mark.exists()  # it would have been


def test_a_program_is_not_read_unless_it_is_trusted(tmp_path, monkeypatch):
    path = exported(tmp_path / "m.pt2", Convolutional().eval())
    monkeypatch.setattr(torch.export, "load", lambda *_, **__: pytest.fail("it was read"))
    assert "ONNX" in refusal_of(path)
