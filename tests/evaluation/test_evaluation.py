"""Metrics of `cfgen evaluate` against models whose scores are known beforehand."""

import pytest
import torch
from torch import Tensor, nn

from cfgen.attributes import Schema
from cfgen.audit.run import Plan
from cfgen.audit.run import Scores as Answers
from cfgen.errors import UserError
from cfgen.evaluation import (
    Scores,
    commutativity,
    cycles,
    label_accuracy,
    measured,
    predicted,
    reversibility,
    true_counterfactual_errors,
)
from cfgen.evaluation.metrics.asked import asked_values
from cfgen.evaluation.metrics.classifier_bias import bias_values
from cfgen.evaluation.metrics.commutativity import intervention_pairs
from cfgen.metrics import CounterfactualBias
from cfgen.scm import AttributeSCM
from datamodules import Faces, MorphoMNIST


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
        self.scm, self.error = AttributeSCM(**data.scm_spec), error
        self.scm.fit(data.train_columns)

    def abduct(self, x: Tensor, a: Tensor) -> Tensor:
        return x

    def decode(self, z: Tensor, a: Tensor) -> Tensor:
        return z + self.error

    def latent(self, state: Tensor) -> Tensor:
        return state

    def prior(self, rows: int) -> Tensor:
        return torch.randn(rows, 3, 64, 64)


class Oracle(Mechanism):
    """Knows which face a state is of, and draws it with the attributes."""

    def __init__(self, faces: Faces, split: str) -> None:
        super().__init__(faces)
        self.faces, self.split = faces, split

    def abduct(self, x: Tensor, a: Tensor) -> Tensor:
        return torch.arange(len(x))

    def decode(self, z: Tensor, a: Tensor) -> Tensor:
        return self.faces.true_counterfactual(self.split, z, a).float() / 255


class Exact(Mechanism):
    """Writes the attributes over the image, and takes them off again: x = z + f(a), nothing lost."""

    def abduct(self, x: Tensor, a: Tensor) -> Tensor:
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


def means(steps) -> dict[str, float]:
    scores = Scores()
    for part in steps:
        scores.add(part)
    return {name: score.value for name, score in scores.summary().items()}


def truths(mechanism: nn.Module, faces: Faces) -> dict[str, float]:
    return means(true_counterfactual_errors(mechanism, faces, "test", faces.images("test"), faces.columns("test")))


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
    x, columns = faces.images("test"), faces.columns("test")
    perfect = means(cycles(Mechanism(faces), x, columns))
    assert perfect == {"composition_l1/1": 0, "composition_l1/10": 0, "mae_z": 0, "mse_x": 0}
    off = means(cycles(Mechanism(faces, error=0.01), x, columns))
    assert off["mse_x"] == pytest.approx(1e-4, rel=1e-3)
    assert off["mae_z"] == pytest.approx(0.01, rel=1e-3)
    assert off["composition_l1/1"] == pytest.approx(2.55, rel=1e-3)
    assert off["composition_l1/10"] == pytest.approx(25.5, rel=1e-3)


def test_exact_counterfactuals_are_reversible_and_commute(faces, digits):
    for data in (faces, digits):
        x, columns = data.images("test")[:20], {k: v[:20] for k, v in data.columns("test").items()}
        for metric in (reversibility, commutativity):
            found = means(metric(Exact(data), x, columns))
            assert len(found) == (6 if data is digits and metric is commutativity else len(data.schema.names))
            assert max(found.values()) < 1e-3
        once_more = means(reversibility(Exact(data, error=0.01), x, columns))
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
    found = means([*reversibility(model, x, columns, seed=3), *commutativity(model, x, columns, seed=3)])
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
    x, columns = digits.images("test"), digits.columns("test")
    writer = Writer(digits)
    reader = Reader(writer.scm.schema)
    x = writer.decode(x.float() / 255, writer.scm.schema.encode(columns))
    good, idle = means(predicted(writer, reader, x, columns)), means(predicted(Mechanism(digits), reader, x, columns))
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
    reader = Reader(faces.schema)
    with pytest.raises(UserError, match="nothing in common"):
        next(predicted(Mechanism(digits), reader, digits.images("test"), digits.columns("test")))


def test_label_accuracy_of_known_models(digits, faces):
    writer = Writer(digits)
    judge, columns = Reader(writer.scm.schema), digits.columns("test")
    x = writer.decode(digits.images("test").float() / 255, writer.scm.schema.encode(columns))
    assert means(label_accuracy(writer, judge, x, columns)) == {"accuracy/do(label)": 1, "accuracy/real images": 1}
    idle = means(label_accuracy(Mechanism(digits), judge, x, columns))
    assert idle == {"accuracy/do(label)": 0, "accuracy/real images": 1}
    with pytest.raises(UserError, match="judges the one categorical attribute"):
        next(label_accuracy(Mechanism(faces), judge, faces.images("test"), faces.columns("test")))


def test_measured_errors_of_a_model_that_ignores_attributes(digits):
    seen = []
    found = means(measured(Mechanism(digits), 1, seen, digits.images("test"), digits.columns("test")))
    for name in ("thickness", "intensity", "slant"):
        do, untouched = (found[f"median_abs_error/{what}/{name}"] for what in (f"do({name})", "untouched"))
        assert do == pytest.approx(untouched, abs=1e-5)
    assert len(seen) == len(found) == 15


def test_the_mean_of_bias_values_is_the_bias():
    table = torch.rand(200, 2, generator=torch.Generator().manual_seed(0))
    table[::3, 1] = torch.nan
    answers = Answers(["base", "do/Bangs=1"], table)
    values = bias_values(answers, Plan({"Bangs=1": {"Bangs": 1}}))["bias/do(Bangs=1)"]
    metric = CounterfactualBias(resamples=0)
    counted = ~table[:, 1].isnan()
    metric.update(table[counted, 0] > 0.5, table[counted, 1] > 0.5)
    assert values.nanmean().item() == pytest.approx(metric.compute()["bias"].item(), abs=1e-6)
    assert int(values.isnan().sum()) == 67
