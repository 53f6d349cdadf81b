"""Laws of an evaluation: what is decoded, what values depend on, what is refused; and that a metric is one file."""

from collections import Counter
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from cfgen.errors import UserError
from cfgen.evaluation import evaluate
from cfgen.evaluation.metrics.bias import ClassifierBias
from cfgen.evaluation.metrics.commutativity import Commutativity
from cfgen.evaluation.metrics.cycles import Cycles
from cfgen.evaluation.metrics.effectiveness_measured import EffectivenessMeasured
from cfgen.evaluation.metrics.effectiveness_predicted import EffectivenessPredicted
from cfgen.evaluation.metrics.labels import LabelAccuracy
from cfgen.evaluation.metrics.minimality import Minimality
from cfgen.evaluation.metrics.reversibility import Reversibility
from cfgen.evaluation.metrics.truth import Truth
from cfgen.evaluation.threads import in_threads
from cfgen.processes import Processes
from tests.evaluation.scoring import (
    ROWS,
    Share,
    judged_digits,
    judged_faces,
    painted_run,
    passed,
    subject_of,
    table_of,
)
from tests.fakes import FACES, Drawing, Painted, Painter, fitted
from tests.processes import Pool

OF_DIGITS = [
    EffectivenessMeasured,
    EffectivenessPredicted,
    LabelAccuracy,
    Cycles,
    Reversibility,
    Commutativity,
    Minimality,
]
OF_FACES = [EffectivenessPredicted, Truth, Cycles, Reversibility, Commutativity, Minimality, ClassifierBias]


class Counting(Drawing):
    """Counts what is decoded, by the bits of what was drawn for the image, and of the attributes."""

    decoded: ClassVar[Counter[bytes]] = Counter()
    abducted = 0

    def abduct(self, x: Tensor, a: Tensor, noise=None):
        Counting.abducted += len(x)
        return super().abduct(x, a, noise)

    def decode(self, z, a: Tensor) -> Tensor:
        for row in range(len(a)):
            Counting.decoded[z["drawn"][0][row].numpy().tobytes() + a[row].numpy().tobytes()] += 1
        return super().decode(z, a)

    def latent(self, state) -> Tensor:
        return state["z"]


CASES = [pytest.param(OF_DIGITS, judged_digits, id="digits"), pytest.param(OF_FACES, judged_faces, id="faces")]


@pytest.mark.parametrize(("chosen", "made"), CASES)
def test_values_depend_on_the_image_and_the_seed_alone(chosen, made):
    """Neither on the batch size nor on the number of processes, also where the mechanism draws its states."""
    subject, judges = made(Counting)
    whole = table_of(chosen, subject, judges, seed=2, batch_size=ROWS, values=2)
    assert len(whole.slices) > 20
    assert not whole.values[:, 0].isnan().all()
    for batch_size in (7, 50, 256):
        table = table_of(chosen, subject, judges, seed=2, batch_size=batch_size, values=2)
        torch.testing.assert_close(table.values, whole.values, equal_nan=True, rtol=1e-4, atol=1e-5)
    halves = [table_of(chosen, subject, judges, seed=2, processes=Share(i, 2), batch_size=9, values=2) for i in (0, 1)]
    together = halves[0].values + halves[1].values
    torch.testing.assert_close(together, whole.values, equal_nan=True, rtol=1e-4, atol=1e-5)
    other = table_of(chosen, subject, judges, seed=3, values=2)
    assert not torch.allclose(other.values, whole.values, equal_nan=True)


@pytest.mark.parametrize(("chosen", "made"), CASES)
def test_each_counterfactual_is_decoded_once(chosen, made):
    """However many metrics ask for it; and each image is abducted once, each counterfactual at most once more."""
    subject, judges = made(Counting)
    attributes = len(subject.schema.names)
    askers = [metric for metric in chosen if metric not in (Cycles, Reversibility, Commutativity)]
    Counting.decoded.clear()
    Counting.abducted = 0
    table_of(askers, subject, judges, batch_size=32)
    assert max(Counting.decoded.values()) == 1
    reconstructed = ROWS * any(metric in (Truth, ClassifierBias) for metric in askers)
    assert Counting.decoded.total() == ROWS * attributes + reconstructed
    assert Counting.abducted == ROWS
    Counting.abducted = 0
    table_of([*askers, Reversibility, Commutativity], subject, judges, batch_size=32)
    assert Counting.abducted == ROWS * (1 + attributes)


def test_composition_starts_from_the_reconstruction():
    subject, judges = judged_faces(Counting)
    Counting.decoded.clear()
    table_of([Truth, Cycles], subject, judges)
    assert Counting.decoded.total() == ROWS * (len(FACES) + 10 + 1)  # x_r is the first of ten cycles; one latent


def test_latents_are_drawn_an_image_at_a_time():
    subject, judges = judged_faces(Counting)
    first = subject_of(subject.mechanism, subject.data, count=10)
    few, many = (table_of([Cycles], one, judges)["mae_z"] for one in (first, subject))
    torch.testing.assert_close(few, many[:10])


def test_threads_change_nothing():
    """As many batches side by side as torch has threads, in their order, and torch is left as it was."""
    threads = torch.get_num_threads()
    subject, judges = judged_digits(Counting)
    try:
        torch.set_num_threads(1)
        one = table_of(OF_DIGITS, subject, judges, batch_size=16)
        torch.set_num_threads(3)
        assert list(in_threads(lambda k: (k, torch.get_num_threads()), range(20), 3)) == [(k, 1) for k in range(20)]
        several = table_of(OF_DIGITS, subject, judges, batch_size=16)
        assert torch.get_num_threads() == 3
        with pytest.raises(ZeroDivisionError):
            list(in_threads(lambda k: 1 / k, range(5), 3))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(threads)
    torch.testing.assert_close(several.values, one.values, equal_nan=True, rtol=1e-5, atol=1e-6)


def scored(folder: str, devices: int):
    """In a process of its own: all scores, one of them a FID, and the names of the figures."""
    processes = Processes("cpu", devices)
    result = evaluate(
        folder, count=31, batch_size=6, fid="tests.evaluation.scoring:Bands", processes=processes, seeds=2
    )
    return processes.share, result.to_dict(), sorted(result.figures)


@pytest.mark.xdist_group("two_processes")
def test_two_processes_score_like_one(tmp_path, two_processes: Pool):
    run = painted_run(tmp_path / "001", Drawing)
    _, one, drawn = scored(str(run), 1)
    (first, two, _), (second, other, others) = two_processes.run(scored, str(run), 2)
    assert [first, second] == [(0, 2), (1, 2)]
    assert two == other
    assert drawn == others
    assert one.keys() == two.keys()
    for name, value in one.items():
        if isinstance(value, float):
            assert two[name] == pytest.approx(value, rel=1e-4, abs=1e-5), name
    assert "fid_Bands/generated" in one


def test_more_processes_than_images():
    subject, judges = judged_digits(Counting)
    one = subject_of(subject.mechanism, subject.data, count=1)
    assert passed([Cycles], one, judges, processes=Share(1, 2)).table.values.abs().sum() == 0


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"metrics": ["cycle"]}, "metrics"),
        ({"metrics": "cycles"}, "metrics"),
        ({"split": "train"}, "split"),
        ({"count": 0}, "count"),
        ({"seeds": 0}, "seeds"),
        ({"seed": -1}, "seed"),
        ({"values": 0}, "values"),
        ({"fid": "nothing"}, "fid"),
        ({"fid": "tests.evaluation.scoring:Bands", "count": 1}, "fid"),
        ({"classifier": "nowhere"}, "classifier"),
        ({"predictor": "nowhere"}, "predictor"),
    ],
)
def test_bad_arguments_are_named(tmp_path, options, argument):
    run = painted_run(tmp_path / "001")
    with pytest.raises(UserError) as refusal:
        evaluate(run, **options)
    assert refusal.value.argument == argument
    assert not (run / "metrics.json").exists()


def test_a_model_without_data_is_refused(tmp_path):
    from cfgen.runs.model import TrainedModel

    for model in (TrainedModel(fitted(Painter, Painted(rows=ROWS))), tmp_path / "nowhere"):
        with pytest.raises(UserError) as refusal:
            evaluate(model)
        assert refusal.value.argument == "model"
