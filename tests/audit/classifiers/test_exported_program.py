"""Exported programs as classifiers: they answer as their modules do, and nothing in a file is run."""

import io
import json
import pickle
import zipfile

import pytest
import torch
from torch import nn

from cfgen.audit.classifiers.external import ExternalClassifier, load_network
from cfgen.errors import UserError


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def exported(path, network, dynamic=True, images=2):
    shapes = ({0: torch.export.Dim("n")},) if dynamic else None
    program = torch.export.export(network, (torch.rand(images, 3, 8, 8),), dynamic_shapes=shapes)
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


def test_images_of_another_shape_than_exported_for(tmp_path):
    """A network with pooling would run on images of any size, and answer something else."""
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 1))
    loaded = load_network(str(exported(tmp_path / "m.pt2", network)))
    x = torch.rand(9, 3, 16, 16)
    shapes = r"exported for images of shape \(N, 3, 8, 8\), not \(N, {}\): --resize and --layout say"
    with pytest.raises(UserError, match=shapes.format("3, 16, 16")):
        ExternalClassifier(loaded).check(x)
    with pytest.raises(UserError, match=shapes.format("8, 8, 3")):
        ExternalClassifier(loaded, (8, 8), layout="nhwc").check(x)
    resized = nn.functional.interpolate(x, (8, 8), mode="bilinear", antialias=True)
    torch.testing.assert_close(ExternalClassifier(loaded, (8, 8))(x), network(resized)[:, 0].sigmoid().detach())

    sides = {0: torch.export.Dim("n"), 2: torch.export.Dim("height", min=4), 3: torch.export.Dim("width", min=4)}
    program = torch.export.export(network, (torch.rand(2, 3, 8, 9),), dynamic_shapes=(sides,))
    torch.export.save(program, tmp_path / "any.pt2")
    loaded = load_network(str(tmp_path / "any.pt2"))
    torch.testing.assert_close(ExternalClassifier(loaded)(x), network(x)[:, 0].sigmoid().detach())
    with pytest.raises(UserError, match=r"shape \(N, 3, any, any\), not \(N, 1, 16, 16\)"):
        loaded(x[:, :1])


@pytest.mark.parametrize("layer", [nn.Dropout(0.2), nn.BatchNorm1d(192)])
@pytest.mark.parametrize("dynamic", [True, False])
def test_a_program_exported_in_training_mode_is_refused(tmp_path, layer, dynamic):
    network = nn.Sequential(nn.Flatten(), layer, nn.Linear(192, 1))
    x = torch.rand(64, 3, 8, 8)
    for training in (True, False):
        path = exported(tmp_path / f"{training}.pt2", network.train(training), dynamic)
        classifier = ExternalClassifier(load_network(str(path)))
        if training:
            with pytest.raises(UserError, match="answers differ for the same images .*training mode. Call .eval"):
                classifier.check(x)
        else:
            classifier.check(x)


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
    network = nn.Sequential(nn.Flatten(), nn.Linear(192, 1))
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
