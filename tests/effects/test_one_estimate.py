"""The same images and answers have one estimate, whoever asks for it: an audit, the Bias callback, a model's calibration and the
repair's penalty."""

import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from callbacks import Bias
from callbacks.bias_split import BiasSplit
from cfgen.audit.strength import effects_on_readings, read_pictures
from cfgen.audit.strength._calibrate import _measure
from cfgen.effects import Effect, Sample, SampleAnswers, estimate_effect
from cfgen.interventions import Set
from datamodules.base import Split
from lightning_modules.weighted_gap import WeightedGap
from tests.fakes import FACES, SHAPE, Painted, Painter, Stripes, fitted, stripes
from tests.quiet_trainer import quiet_trainer

DO = {"Pale_Skin": 1}
N_DRAWN = 900  # of the images of a split, mechanisms draw these


class Skins(Painted):
    """Images whose skin is pale with a probability that depends on bangs: `with_bangs` and `without_bangs`."""

    def __init__(self, with_bangs: float, without_bangs: float, rows: int = 1500) -> None:
        super().__init__(rows=rows)
        self.with_bangs, self.without_bangs = with_bangs, without_bangs

    def split(self, generator: torch.Generator) -> Split:
        hair, bangs, u = torch.rand(3, self.rows, generator=generator)
        columns = {"Black_Hair": (hair < 0.5).float(), "Bangs": (bangs < 0.4).float()}
        columns["Pale_Skin"] = (
            u < self.without_bangs + (self.with_bangs - self.without_bangs) * columns["Bangs"]
        ).float()
        columns = {name: columns[name] for name in FACES}
        a = torch.stack(list(columns.values()), dim=1)
        x = self.background(generator) + torch.einsum("nk,kchw->nchw", a, stripes(3, SHAPE, 0.5))
        return Split((x * 255).round().to(torch.uint8), columns, columns["Black_Hair"].long())


class World(NamedTuple):
    """Data, a classifier that looks at all three attributes, and three mechanisms that draw pale skin too weakly."""

    data: Skins
    classifier: Stripes
    mechanisms: list[Painter]

    @classmethod
    def with_shares(cls, with_bangs: float, without_bangs: float) -> "World":
        data = Skins(with_bangs, without_bangs)
        mechanisms = [fitted(Painter, data, strength=[0.5, strength, 0.5]) for strength in (0.14, 0.15, 0.16)]
        classifier = Stripes((1.0, 0.7, 0.5, 0.0))
        classifier.do, classifier.mechanisms = [DO], mechanisms
        return cls(data, classifier, mechanisms)


WORLDS = {
    "overlap": (0.3, 0.5),
    "overlap of a part": (0.001, 0.5),  # hardly any image with bangs has pale skin
    "no overlap": (0.99, 0.001),  # pale skin goes with bangs
}


def by_audit(world: World, n_drawn: int = N_DRAWN, half: bool = True) -> Effect:
    """`estimate_effect` as an audit calls it, with answers from the definitions of the pictures.

    With `half`, pictures are in half precision, as the callback keeps them.
    """
    data, classifier = world.data, world.classifier
    columns, x = data.columns("val"), data.images("val").float() / 255
    a = data.schema.encode(columns)
    a_c = a.clone()
    a_c[:, list(FACES).index("Pale_Skin")] = 1
    skip = (columns["Pale_Skin"] == 1) | (torch.arange(len(x)) >= n_drawn)

    def answers(pictures: torch.Tensor) -> np.ndarray:
        return classifier.predict(pictures.half().float() if half else pictures).double().numpy()

    base, counterfactual = [], []
    for mechanism in world.mechanisms:
        z = mechanism.abduct(x, a)
        base.append(answers(mechanism.decode(z, a)))
        counterfactual.append(np.where(skip, np.nan, answers(mechanism.decode(z, a_c))))
    real = classifier.predict(x).double().numpy()
    sample = Sample(data.schema, world.mechanisms[0].scm.graph, columns)
    effect = estimate_effect(
        sample, Set.from_values(data.schema, DO), SampleAnswers(real, np.stack(base), np.stack(counterfactual))
    )
    assert effect is not None
    return effect


def by_callback(world: World) -> Effect:
    split = BiasSplit(world.data, "val", world.mechanisms, {"pale": DO}, N_DRAWN, seed=0)
    with torch.inference_mode():
        estimate = split.estimate(quiet_trainer(Path(), max_epochs=1), world.classifier, split.pictures((0, 1)))
    return estimate.effects["pale"]


class Reader:
    """A predictor whose reading of every attribute is the answer of a classifier."""

    def __init__(self, world: World) -> None:
        self.schema, self.image_shape, self.classifier = world.data.schema, SHAPE, world.classifier

    def read(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return dict.fromkeys(self.schema.names, self.classifier.predict(x).float())


CALLERS = {"callback": by_callback}


@pytest.fixture(params=WORLDS, scope="module")
def case(request) -> tuple[str, World, Effect]:
    world = World.with_shares(*WORLDS[request.param])
    with torch.inference_mode():
        return request.param, world, by_audit(world)


def test_the_worlds_differ_in_overlap(case):
    name, _, effect = case
    if name == "no overlap":
        assert effect.combined is None
        assert effect.problem
        assert effect.headline is effect.model_only
        assert effect.headline.half < 0.2
    else:
        assert effect.combined is not None
        assert effect.headline is effect.combined
        assert abs(effect.headline.value - effect.model_only.value) > 0.05  # the mechanisms draw too little
    assert (0.25 < effect.share_compared < 0.9) == (name == "overlap of a part")


@pytest.mark.parametrize("caller", CALLERS)
def test_every_caller_reports_the_estimate_of_the_audit(case, caller):
    _, world, expected = case
    require_same(CALLERS[caller](world), expected)


def require_same(effect: Effect, expected: Effect) -> None:
    assert effect.problem == expected.problem
    assert effect.adjusted_for == expected.adjusted_for
    assert effect.share_compared == expected.share_compared
    assert effect.n_target == expected.n_target
    assert effect.n_with_value == expected.n_with_value
    assert (effect.combined is None) == (expected.combined is None)
    for one, other in ((effect.headline, expected.headline), (effect.model_only, expected.model_only)):
        assert one.value == pytest.approx(other.value, abs=1e-9)
        assert one.interval == pytest.approx(other.interval, abs=1e-9)


def test_the_calibration_has_the_gap_of_the_audit(case):
    """A calibration is about one model, which draws all images; what the predictor reads is the classifier's answer."""
    name, world, _ = case
    only = world._replace(mechanisms=world.mechanisms[:1])
    with torch.inference_mode():
        expected = by_audit(only, n_drawn=world.data.rows, half=False)
    columns, intervention = world.data.columns("val"), Set.from_values(world.data.schema, DO)
    sample = Sample(world.data.schema, only.mechanisms[0].scm.graph, columns)
    readings = read_pictures(only.mechanisms[0], Reader(world), world.data.images("val"), sample, [intervention])
    effects = effects_on_readings(sample, intervention, readings)
    assert list(effects) == list(FACES)
    for effect in effects.values():
        require_same(effect, expected)
    gap = _measure(sample, intervention, readings).gap
    if name == "no overlap":
        assert expected.gap is None
        assert (gap.readings, gap.differ, gap.rms, gap.chance) == (0, 0, 0, 0)
    else:
        assert expected.gap is not None
        assert (gap.readings, gap.differ) == (3, 3 * (not expected.gap.holds(0)))
        assert [gap.rms, gap.chance] == pytest.approx([abs(expected.gap.value), expected.gap.se])


def test_the_callback_logs_it_and_warns_where_it_is_not_about_all_images(case):
    name, world, expected = case
    trainer = quiet_trainer(Path(), num_sanity_val_steps=0, callbacks=[Bias(images=N_DRAWN)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        (logged,) = trainer.validate(world.classifier, datamodule=world.data, verbose=False)
    assert logged["val/bias/Pale_Skin"] == pytest.approx(expected.headline.value, abs=1e-6)
    assert logged["val/bias_generator/Pale_Skin"] == pytest.approx(expected.model_only.value, abs=1e-6)
    texts = [str(warning.message) for warning in caught if "Bias: " in str(warning.message)]
    share = f"an estimate for {100 * expected.share_compared:.0f} % of the images that would change"
    assert (
        texts
        == {
            "overlap": [],
            "overlap of a part": [f"Bias: Pale_Skin has {share}, because the others lack overlap"],
            "no overlap": [f"Bias: Pale_Skin has a model-only estimate, because {expected.problem}"],
        }[name]
    )


def test_the_penalty_of_the_repair_is_about_the_same_images(case):
    """It cannot cross-fit; where the estimate from real images exists, its gap on these very images is nearly that estimate."""
    name, world, expected = case
    data = world.data
    columns = data.columns("val")
    sample, intervention = Sample(data.schema, world.mechanisms[0].scm.graph, columns), Set.from_values(data.schema, DO)
    if name == "no overlap":
        assert sample.comparison(intervention).problem == expected.problem
        return
    answers = world.classifier.predict(data.images("val").float() / 255).float()
    gap = WeightedGap(sample, [intervention])(1e3 * answers - 500, data.schema.encode(columns))
    assert expected.real is not None
    assert gap.item() == pytest.approx(expected.real.value, abs=0.3 * expected.real.half)
