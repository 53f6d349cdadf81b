"""A predictor that is trained on the spot: what it sees, that it is kept, and when it is trained again."""

import pytest
import torch

from cfgen.checkpoints import load_module
from cfgen.counterfactual import as_unit_float
from cfgen.processes import Processes
from cfgen.runs import own_predictor as subject
from cfgen.runs.model import TrainedModel
from cfgen.runs.own_predictor import FILE, FOLDER, accuracies, own_predictor
from datamodules.base import Split
from lightning_modules import Predictor
from tests.fakes import DIGITS, FACES, Painted, Painter, ReadStripes, fitted

ATTRIBUTES = FACES | {"thickness": DIGITS["thickness"]}


class Shifted(Painted):
    """The same training images; others to validate and test on."""

    def read_splits(self):
        splits = super().read_splits()
        return splits | {
            name: Split(255 - splits[name].images, splits[name].columns, splits[name].y) for name in ("val", "test")
        }


class Rare(Painted):
    """One attribute in twenty images has, and noise that hides what is painted."""

    def drawn(self, name, generator):
        return (torch.rand(self.rows, generator=generator) < 0.05).float()

    def background(self, generator):
        return 0.4 * torch.rand(self.rows, *self.image_shape, generator=generator)


FEW = {28: subject.Recipe(epochs=12)}  # enough for stripes


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(subject, "RECIPES", FEW)


def model_of(data, folder):
    module = fitted(Painter, data)
    TrainedModel(module).save(folder)
    return TrainedModel(module, folder, folder)


@pytest.fixture(scope="module")
def data():
    data = Painted(ATTRIBUTES)
    data.setup()
    return data


@pytest.fixture(scope="module")
def kept(data, tmp_path_factory):
    """A model, the predictor that was trained beside it, and torch's random numbers before and after."""
    model = model_of(data, tmp_path_factory.mktemp("own") / "model")
    with torch.inference_mode(), pytest.MonkeyPatch.context() as patch:  # whoever asks may be in inference mode
        patch.setattr(subject, "RECIPES", FEW)
        torch.manual_seed(5)
        before = torch.get_rng_state()
        own = own_predictor(model, data)
    return model, own, torch.equal(before, torch.get_rng_state())


def weights(own):
    return torch.cat([value.flatten() for value in own.predictor.state_dict().values()])


def test_reads_what_there_is_to_read(kept, data):
    _, own, _ = kept
    assert own.trained
    assert own.accuracy.keys() == ATTRIBUTES.keys()
    assert min(own.accuracy.values()) > 0.75  # a coin has 0.5, and 0 of thickness
    assert own.accuracy == accuracies(own.predictor, data)
    assert not own.predictor.training


def test_leaves_random_numbers_and_the_terminal_alone(kept, data, tmp_path, capfd):
    _, own, untouched = kept
    assert untouched
    torch.manual_seed(99)
    again = own_predictor(model_of(data, tmp_path / "other"), data)
    assert again.trained
    assert torch.equal(weights(again), weights(own))
    assert capfd.readouterr() == ("", "")


def test_is_kept_beside_the_model(kept, data, monkeypatch):
    model, own, _ = kept
    monkeypatch.setattr(subject, "train", lambda *args: pytest.fail("it was trained again"))
    again = own_predictor(model, data)
    assert not again.trained
    assert again.path == own.path == model.folder / FOLDER / FILE
    assert torch.equal(weights(again), weights(own))
    assert again.accuracy == own.accuracy
    given = load_module(own.path.parent, Predictor)  # as commands load what --predictor names
    assert given.schema.spec == own.predictor.schema.spec
    assert [path for path in own.path.parent.iterdir() if path.suffix == ".part"] == []


def test_sees_training_images_alone(kept, data, tmp_path):
    _, own, _ = kept
    other = Shifted(ATTRIBUTES)
    other.setup()
    again = own_predictor(model_of(data, tmp_path / "model"), other)
    assert torch.equal(weights(again), weights(own))
    assert again.accuracy != own.accuracy


@pytest.mark.parametrize("what", ["other images", "other recipe", "torn", "foreign", "nothing"])
def test_what_does_not_fit_is_trained_again(kept, data, tmp_path, monkeypatch, what):
    _, own, _ = kept
    model = model_of(data, tmp_path / "model")
    path = tmp_path / "model" / FOLDER / FILE
    path.parent.mkdir()
    path.write_bytes(own.path.read_bytes())
    monkeypatch.setattr(subject, "RECIPES", {28: subject.Recipe(epochs=1)})
    if what == "other images":
        data = Painted(ATTRIBUTES, rows=60)
        data.setup()
    elif what == "torn":
        path.write_bytes(own.path.read_bytes()[:-200])
    elif what == "foreign":
        torch.save({"fingerprint": 3}, path)
    elif what == "nothing":
        path.unlink()
    first, second = own_predictor(model, data), own_predictor(model, data)
    assert first.trained
    assert not second.trained
    assert torch.equal(weights(first), weights(second))


def test_where_nothing_can_be_kept_it_is_trained_all_the_same(data, tmp_path, monkeypatch):
    monkeypatch.setattr(subject, "RECIPES", {28: subject.Recipe(epochs=1)})
    model = model_of(data, tmp_path / "model")
    (tmp_path / "model" / FOLDER).write_text("a file where the folder should be")
    for one in (model, TrainedModel(model.module)):
        own = own_predictor(one, data)
        assert own.trained
        assert own.path is None


@pytest.mark.parametrize(("rows", "strength"), [(600, 0.02), (1200, 0.06)])
def test_a_rare_attribute_is_not_passed_over(tmp_path, monkeypatch, rows, strength):
    """Where a predictor cannot be sure, it does not just say what is most frequent; where it can learn, it does."""
    data = Rare({"Hat": FACES["Bangs"]}, rows=rows, strength=strength)
    data.setup()
    monkeypatch.setattr(subject, "RECIPES", {28: subject.Recipe(epochs=4)})
    fair = own_predictor(model_of(data, tmp_path / "model"), data)
    monkeypatch.setattr(subject, "prior_logits", lambda a, schema: 0.0)
    plain = own_predictor(model_of(data, tmp_path / "other"), data)
    images = as_unit_float(data.images("val"))
    seen, passed_over = (own.predictor.read(images)["Hat"] for own in (fair, plain))
    assert passed_over.mean() == 0
    assert plain.accuracy["Hat"] == 0.5
    if strength < 0.05:  # hidden by noise: it guesses, and its accuracy is chance
        assert 0.1 < seen.mean() < 0.9
    else:
        assert 0 < seen.mean() < 0.9
        assert fair.accuracy["Hat"] > 0.65  # 0.84 to 0.87 for three seeds


def test_accuracies_are_of_what_both_know(data):
    eyes = ReadStripes(data.schema)
    assert accuracies(eyes, data) == {name: pytest.approx(1, abs=1e-3) for name in ATTRIBUTES}


def in_a_process(folder):
    data = Painted(ATTRIBUTES, rows=120)
    data.setup()
    model = model_of(data, folder) if not folder.exists() else TrainedModel(fitted(Painter, data), folder, folder)
    processes = Processes("cpu", 2)
    asked = []
    original = subject.train
    subject.train = lambda *args: (asked.append(processes.rank), original(*args))
    try:
        own = own_predictor(model, data, processes=processes)
    finally:
        subject.train = original
    return asked, own.trained, own.accuracy, weights(own)


@pytest.mark.slow
@pytest.mark.xdist_group("two_processes")
def test_with_two_processes_the_first_trains(two_processes, tmp_path):
    data = Painted(ATTRIBUTES, rows=120)
    data.setup()
    model_of(data, tmp_path / "model")
    (mine, trained, accuracy, first), (others, also, same, second) = two_processes.run(in_a_process, tmp_path / "model")
    assert (mine, others) == ([0], [])
    assert (trained, also) == (True, True)
    assert accuracy == same
    assert torch.equal(first, second)
