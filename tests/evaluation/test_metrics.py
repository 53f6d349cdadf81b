"""Metrics of `cfgen evaluate` against models whose scores are known beforehand."""

import pytest
import torch
from torch import Tensor, nn

from cfgen.attributes import Schema
from cfgen.errors import UserError
from cfgen.evaluation.judges import Judges
from cfgen.evaluation.metrics.bias import ClassifierBias
from cfgen.evaluation.metrics.commutativity import Commutativity, intervention_pairs
from cfgen.evaluation.metrics.cycles import Cycles
from cfgen.evaluation.metrics.effectiveness_measured import EffectivenessMeasured
from cfgen.evaluation.metrics.effectiveness_predicted import EffectivenessPredicted
from cfgen.evaluation.metrics.labels import LabelAccuracy
from cfgen.evaluation.metrics.reversibility import Reversibility
from cfgen.evaluation.metrics.truth import Truth
from cfgen.metrics import CounterfactualBias
from cfgen.metrics.asked import asked_values
from cfgen.scm import AttributeSCM
from datamodules import Faces, MorphoMNIST
from tests.evaluation.scoring import means, passed, subject_of
from tests.fakes import Painted, Painter, Stripes, fitted


@pytest.fixture(scope="module")
def faces(tmp_path_factory) -> Faces:
    data = Faces(count=100, cache_dir=str(tmp_path_factory.mktemp("faces")))
    data.prepare_data()
    data.setup()
    return data


@pytest.fixture(scope="module")
def digits(digits_cache) -> MorphoMNIST:
    data = MorphoMNIST(limit=300, cache_dir=str(digits_cache))
    data.prepare_data()
    data.setup()
    return data


class Mechanism(nn.Module):
    """Images come back from their state as they were, whatever the attributes; with an error where one is asked for."""

    def __init__(self, data, error: float = 0.0) -> None:
        super().__init__()
        self.scm, self.error, self.image_shape = AttributeSCM(**data.scm_spec), error, data.image_shape
        self.scm.fit(data.train_columns)

    def abduct(self, x: Tensor, a: Tensor, noise=None) -> Tensor:
        return x

    def decode(self, z: Tensor, a: Tensor) -> Tensor:
        return z + self.error

    def own_reconstruction(self, z: Tensor, a: Tensor) -> Tensor:
        return self.decode(z, a)

    def latent(self, state: Tensor) -> Tensor:
        return state

    def prior(self, a: Tensor, noise=None) -> Tensor:
        return noise.normal(*self.image_shape)


class Oracle(Mechanism):
    """Knows which face a state is of, and draws it with the attributes."""

    def __init__(self, faces: Faces, split: str) -> None:
        super().__init__(faces)
        self.faces, self.split = faces, split

    def abduct(self, x: Tensor, a: Tensor, noise=None) -> Tensor:
        return torch.arange(len(x))

    def decode(self, z: Tensor, a: Tensor) -> Tensor:
        return self.faces.true_counterfactual(self.split, z, a).float() / 255


class Exact(Mechanism):
    """Writes the attributes over the image, and takes them off again: x = z + f(a), nothing lost."""

    def abduct(self, x: Tensor, a: Tensor, noise=None) -> Tensor:
        return x - self.paint(a)

    def decode(self, z: Tensor, a: Tensor) -> Tensor:
        return z + self.paint(a) + self.error

    def paint(self, a: Tensor) -> Tensor:
        return (a @ torch.linspace(-1, 1, a.shape[1]).to(a))[:, None, None, None]


class Lossy(Exact):
    """The same, with pixels that have to stay in [0, 1]: what leaves it is lost, and the order matters."""

    def decode(self, z: Tensor, a: Tensor) -> Tensor:
        return super().decode(z, a).clamp(0, 1)


class Writer(Mechanism):
    """Writes the attribute vector into the first pixels: what is asked for can be read off exactly."""

    def decode(self, z: Tensor, a: Tensor) -> Tensor:
        image = z.clone()
        image.flatten(1)[:, : a.shape[1]] = a
        return image


class Reader:
    """Reads what `Writer` wrote, and counts as a classifier of labels too."""

    classes = 10

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def read(self, x: Tensor) -> dict[str, Tensor]:
        return self.schema.decode(x.flatten(1)[:, : self.schema.size])

    def predict(self, x: Tensor) -> Tensor:
        return self.read(x)["label"].long()


def truths(mechanism: nn.Module, faces: Faces) -> dict[str, float]:
    return means([Truth], subject_of(mechanism, faces))


def test_a_model_that_ignores_attributes_scores_what_doing_nothing_scores(faces):
    found = truths(Mechanism(faces), faces)
    for name in faces.schema.names:
        assert found[f"true_error/do({name})"] == pytest.approx(found[f"true_error/untouched({name})"], abs=1e-4)
        assert found[f"true_error/effect({name})"] == pytest.approx(found[f"true_error/untouched({name})"], abs=1e-4)
        assert found[f"true_error/do({name})"] > 0
        assert found[f"true_error/changed({name})"] == 0


def test_the_truth_itself_has_no_error(faces):
    found = truths(Oracle(faces, "test"), faces)
    for name in set(faces.schema.names) - {"Young"}:  # whose effects the model's SCM draws from an estimate
        assert found[f"true_error/do({name})"] == pytest.approx(0, abs=1e-3)
        assert found[f"true_error/effect({name})"] == pytest.approx(0, abs=1e-3)
        assert found[f"true_error/changed({name})"] == pytest.approx(1)


def test_the_effect_is_apart_from_what_the_reconstruction_lost(faces):
    found = truths(Mechanism(faces, error=0.1), faces)
    for name in faces.schema.names:
        assert found[f"true_error/effect({name})"] == pytest.approx(found[f"true_error/untouched({name})"], abs=1e-3)
        assert found[f"true_error/do({name})"] > found[f"true_error/untouched({name})"] + 10


def test_cycles_of_known_errors(faces):
    perfect = means([Cycles], subject_of(Mechanism(faces), faces))
    names = {"composition_l1/1", "composition_l1/10", "mse_x"}
    assert perfect == dict.fromkeys({*names, *(f"{name}/network" for name in names), "mae_z"}, 0)
    off = means([Cycles], subject_of(Mechanism(faces, error=0.01), faces))
    assert off["mse_x"] == pytest.approx(1e-4, rel=1e-3)
    assert off["mae_z"] == pytest.approx(0.01, rel=1e-3)
    assert off["composition_l1/1"] == pytest.approx(2.55, rel=1e-3)
    assert off["composition_l1/10"] == pytest.approx(25.5, rel=1e-3)


def test_exact_counterfactuals_are_reversible_and_commute(faces, digits):
    for data in (faces, digits):
        for metric in (Reversibility, Commutativity):
            found = means([metric], subject_of(Exact(data), data, count=20))
            assert len(found) == (6 if data is digits and metric is Commutativity else len(data.schema.names))
            assert max(found.values()) < 1e-3
        once_more = means([Reversibility], subject_of(Exact(data, error=0.01), data, count=20))
        assert list(once_more.values()) == pytest.approx([2 * 2.55] * len(once_more), rel=1e-3)  # made and wrong twice


def test_reversibility_and_commutativity_against_single_images(digits):
    """Step by step, as the definitions say, one image at a time."""
    x, columns = digits.images("test")[:12], {k: v[:12] for k, v in digits.columns("test").items()}
    model = Lossy(digits)
    scm, asked = model.scm, asked_values(columns, model.scm.schema, seed=3)
    a = scm.schema.encode(columns)

    def after(do: list[str]) -> Tensor:
        return scm.counterfactual_vector(a, {k: asked[k] for k in do}, torch.Generator().manual_seed(3))

    there, apart = [], []
    for i in range(12):
        image, row = x[i : i + 1].float() / 255, slice(i, i + 1)
        a_k, a_j, a_both = after(["thickness"])[row], after(["label"])[row], after(["thickness", "label"])[row]
        x_k, x_j = (model.decode(model.abduct(image, a[row]), vector) for vector in (a_k, a_j))
        back = model.decode(model.abduct(x_k, a_k), a[row])
        there.append((255 * back - 255 * image).abs().mean().item())
        x_kj, x_jk = model.decode(model.abduct(x_k, a_k), a_both), model.decode(model.abduct(x_j, a_j), a_both)
        apart.append((255 * x_kj - 255 * x_jk).abs().mean().item())
    found = means([Reversibility, Commutativity], subject_of(model, digits, count=12), seed=3)
    assert found["reversibility_l1/do(thickness)"] == pytest.approx(sum(there) / 12, rel=1e-4)
    assert found["commutativity_l1/do(thickness),do(label)"] == pytest.approx(sum(apart) / 12, rel=1e-4)
    assert min(sum(there), sum(apart)) > 1


def test_pairs_of_interventions():
    assert len(intervention_pairs("abcdef")) == 15
    ring = intervention_pairs("abcdefg")
    assert len(ring) == 7
    assert ring[0] == ("a", "b")
    assert ring[-1] == ("g", "a")


def test_what_is_asked_is_another_value_of_the_data(faces, digits):
    columns = digits.columns("test")
    asked = asked_values(columns, digits.schema, seed=1)
    assert not (asked["label"] == columns["label"]).any()
    low, high = digits.schema.bounds("thickness")
    assert asked["thickness"].sort().values.tolist() == columns["thickness"].clamp(low, high).sort().values.tolist()
    assert not torch.equal(asked["thickness"], asked_values(columns, digits.schema, seed=2)["thickness"])
    binary = faces.columns("test")
    assert all(torch.equal(1 - binary[k], v) for k, v in asked_values(binary, faces.schema, 0).items())


def test_a_predictor_sees_what_was_written_and_what_was_not(digits):
    writer = Writer(digits)
    judges = Judges(predictors={"reader": Reader(writer.scm.schema)})
    x = writer.decode(digits.images("test").float() / 255, writer.scm.schema.encode(digits.columns("test")))
    good, idle = (
        means([EffectivenessPredicted], subject_of(model, digits, x=x), judges) for model in (writer, Mechanism(digits))
    )
    for j in digits.schema.names:
        perfect = 1.0 if j == "label" else pytest.approx(0, abs=1e-3)
        assert all(
            good[f"predicted/{do}/{j}"] == perfect for do in ("floor", *(f"do({k})" for k in digits.schema.names))
        )
        assert idle[f"predicted/do({j})/{j}"] == pytest.approx(idle[f"predicted/untouched/{j}"], abs=1e-4)
    assert idle["predicted/untouched/label"] == 0
    assert idle["predicted/untouched/thickness"] > 0.1
    assert idle["predicted/do(slant)/thickness"] == pytest.approx(idle["predicted/floor/thickness"], abs=1e-4)


def test_a_predictor_of_other_attributes_is_refused(digits, faces):
    with pytest.raises(UserError) as refusal:
        EffectivenessPredicted.missing(
            subject_of(Mechanism(digits), digits), Judges(predictors={"reader": Reader(faces.schema)})
        )
    assert refusal.value.argument == "predictor"


def test_label_accuracy_of_known_models(digits, faces):
    writer = Writer(digits)
    judges = Judges(classifier=Reader(writer.scm.schema))
    x = writer.decode(digits.images("test").float() / 255, writer.scm.schema.encode(digits.columns("test")))
    good, idle = (means([LabelAccuracy], subject_of(m, digits, x=x), judges) for m in (writer, Mechanism(digits)))
    assert good == {"accuracy/do(label)": 1, "accuracy/real images": 1}
    assert idle == {"accuracy/do(label)": 0, "accuracy/real images": 1}
    with pytest.raises(UserError) as refusal:
        LabelAccuracy.missing(subject_of(Mechanism(faces), faces), judges)
    assert refusal.value.argument == "classifier"


def test_measured_errors_of_a_model_that_ignores_attributes(digits):
    found = means([EffectivenessMeasured], subject_of(Mechanism(digits), digits))
    for name in ("thickness", "intensity", "slant"):
        do, untouched = (found[f"median_abs_error/{what}/{name}"] for what in (f"do({name})", "untouched"))
        assert do == pytest.approx(untouched, abs=1e-5)
    assert len(found) == 15


def test_several_values_are_several_askings(digits):
    """Each value is asked as one seed after the other would, and real images count once."""
    subject = subject_of(Exact(digits), digits)
    several = passed([EffectivenessMeasured], subject, seed=1, values=3).table
    single = [passed([EffectivenessMeasured], subject, seed=seed).table for seed in (3, 4, 5)]
    for name in ("thickness", "intensity", "slant"):
        key = f"median_abs_error/do({name})/{name}"
        assert torch.equal(several[key], torch.stack([table[key] for table in single], dim=1))
        assert torch.equal(several[f"median_abs_error/floor/{name}"], single[0][f"median_abs_error/floor/{name}"])
        assert torch.equal(
            several[f"median_abs_error/untouched/{name}"], single[0][f"median_abs_error/untouched/{name}"]
        )


def test_the_bias_is_that_of_the_answers():
    """Halves of one flip: an image counts under the value it gets, and the mean over images is Eq. 5."""
    data = Painted(rows=60)
    mechanism, classifier = fitted(Painter, data), Stripes([3.1, -1.3, 2.7, 0.13])
    table = passed([ClassifierBias], subject_of(mechanism, data), Judges(classifier=classifier)).table
    columns = data.columns("test")
    a = data.schema.encode(columns)
    x = data.images("test") / 255
    for number, name in enumerate(data.schema.names):
        a_c = a.clone()
        a_c[:, number] = 1 - a_c[:, number]
        with torch.no_grad():
            before, after = (classifier.predict(mechanism.decode(mechanism.abduct(x, a), to)) for to in (a, a_c))
        for value in (1, 0):
            counted = columns[name] != value
            metric = CounterfactualBias(resamples=0)
            metric.update(before[counted], after[counted])
            values = table[f"bias/do({name}={value})"]
            assert values.nanmean().item() == pytest.approx(metric.compute()["bias"].item(), abs=1e-6)
            assert torch.equal(values.isnan(), ~counted)


def test_a_classifier_of_yes_or_no_needs_binary_attributes(digits):
    with pytest.raises(UserError) as refusal:
        ClassifierBias.missing(subject_of(Mechanism(digits), digits), Judges(classifier=Stripes([1.0, 1.0, 1.0, 0.0])))
    assert refusal.value.argument == "classifier"
