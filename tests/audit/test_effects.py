"""What real images say beside what the generator says: verdicts, combined estimates and their truth, in a world that is known."""

import json
import math

import pytest
import torch
from PIL import Image

from cfgen.audit import audit
from cfgen.audit.report._words import effect_kind
from cfgen.commands import audit as audit_command
from cfgen.effects import Sample, SampleAnswers, estimate_effect
from cfgen.errors import UserError
from cfgen.interventions import Set
from cfgen.runs.model import load_trained
from cfgen.scm import AttributeSCM
from datamodules.base import Split
from tests.audit.shifting import Reddish
from tests.audit.worlds import Bright, SeesDamage, Wetness, Workshop, exported, trained, true_effect
from tests.fakes import SHAPE, ReadStripes, stripes

DAMAGE = {"damaged": 1}


@pytest.fixture(scope="module")
def plain():
    return Workshop()


@pytest.fixture(scope="module")
def model(plain, tmp_path_factory):
    return load_trained(exported(trained(plain), plain, tmp_path_factory.mktemp("good") / "model"))


@pytest.fixture(scope="module")
def blind(plain, tmp_path_factory):
    """A generator whose training never showed it what damage looks like."""
    return exported(trained(plain, blind_to="damaged"), plain, tmp_path_factory.mktemp("blind") / "model")


def row_flips(model):
    """How many answers truly flip to yes and to no, in the model's own test images."""
    data = Workshop()
    data.setup()
    of = data.columns("test")["damaged"] == 0
    x = data.images("test")[of] / 255
    before, after = Bright()(x) > 0, Bright()(x + stripes(3, SHAPE, 0.3)[1]) > 0
    return (~before & after).float().mean().item(), (before & ~after).float().mean().item()


def only(result, cohort="everyone", number=0):
    """The row of the only intervention."""
    (row,) = (row for row in result.classifiers[number].findings if row.cohort == cohort)
    return row


def predictor(model):
    return ReadStripes(model.schema, strength=0.3)


def test_a_good_generator_agrees_with_real_images_and_both_hold_the_truth(model):
    row = only(audit(model, Bright(), do=[DAMAGE], explain=(), predictor=predictor(model)))
    truth, effect = true_effect(Bright(), DAMAGE), row.effect
    assert row.verdict.code == "agrees"
    assert row.verdict.good
    assert effect.real.holds(truth)
    assert effect.combined.holds(truth)
    assert effect.combined.half <= effect.real.half + 1e-9
    assert row.strength.value == pytest.approx(1, abs=0.05)
    assert effect.kind == "total"
    assert effect.adjusted_for == ["old", "wet"]
    (up_low, up_high), (down_low, down_high) = effect.bounds
    assert up_low <= effect.headline.value + 1e-9
    flips_up, flips_down = row_flips(model)
    assert up_low <= flips_up <= up_high
    assert 0 <= down_low <= flips_down <= down_high


@pytest.mark.slow
def test_a_generator_that_does_not_draw_it_is_found_out_and_the_estimate_still_holds(blind, here, capsys):
    """By a predictor that the audit trains itself; in the console, the report, the CSV and the JSON."""
    words = [
        "--model",
        str(blind),
        "--classifier",
        "tests.audit.worlds:Bright",
        "--do",
        "damaged=1",
        "--explain",
        "none",
    ]
    words += ["--accelerator", "cpu", "--label", "bright"]
    assert audit_command.main([*words, "--out", "found", "--strict"]) == 3
    out = capsys.readouterr().out
    truth = true_effect(Bright(), DAMAGE)
    facts = json.loads((here / "found/audit.json").read_text())
    (found,) = facts["classifiers_audited"][0]["interventions"]
    assert found["verdict"]["code"] == "not_drawn"
    assert not facts["trusted"]
    assert truth > 0.2
    assert abs(found["generator"]["value"]) < 0.05
    assert found["combined"]["low"] <= truth <= found["combined"]["high"]
    assert facts["predictor"]["accuracy"]["damaged"] > 0.9
    words_of_verdict = found["verdict"]["words"]
    assert words_of_verdict.lower() in (here / "found/report.html").read_text().lower()
    assert "not drawn" in out
    assert words_of_verdict in out  # with what to do next
    assert "not_drawn" in (here / "found/bias.csv").read_text()
    assert audit_command.main([*words, "--out", "again"]) == 0  # only with --strict is a verdict an exit code


def test_a_hidden_common_cause_is_told_and_adjusting_for_it_mends_it(tmp_path):
    data = Workshop(rows=3000, hidden=True)
    model = load_trained(exported(trained(data), data, tmp_path / "model"))
    # an exact generator: the disagreement is the graph's
    with torch.no_grad():
        model.module.stripes.copy_(trained(Workshop()).stripes)
    truth = true_effect(Bright(), DAMAGE, hidden=True)
    ask = {"do": [DAMAGE], "explain": (), "predictor": predictor(model)}
    hidden = only(audit(model, Bright(), **ask))
    assert not hidden.effect.combined.holds(truth)
    assert hidden.verdict.code == "disagree"
    assert "missing from the graph" in hidden.verdict.advice
    result = audit(model, Bright(), adjust=["camera"], **ask)
    mended = only(result)
    assert mended.effect.combined.holds(truth)
    assert mended.verdict.code == "agrees"
    assert mended.effect.adjusted_for[-1] == "camera"
    assert any("camera" in text for text in result.questions.facts["assumed"])
    for wrong in ("damaged", "flash"):
        with pytest.raises(UserError) as refusal:
            audit(model, Bright(), adjust=[wrong], **ask)
        assert refusal.value.argument == "adjust"


def test_the_total_effect_and_the_direct_one(model):
    ask = {"do": [{"old": 1}], "explain": (), "predictor": None}
    total, direct = (only(audit(model, Bright(), hold=hold, **ask)).effect for hold in ((), ("damaged",)))
    truths = [true_effect(Bright(), {"old": 1}, hold=hold) for hold in ((), ("damaged",))]
    assert truths[0] > truths[1] + 0.03
    assert [effect.kind for effect in (total, direct)] == ["total", "direct"]
    assert direct.held == ["damaged"]
    assert "damaged" in direct.adjusted_for
    assert "damaged" not in total.adjusted_for
    for effect, truth in zip((total, direct), truths, strict=True):
        assert effect.combined.holds(truth)
        assert effect.model_only.value == pytest.approx(truth, abs=0.06)
    with pytest.raises(UserError) as refusal:
        audit(model, Bright(), hold=["wet"], **ask)
    assert refusal.value.argument == "hold"


def test_two_classifiers_are_compared_on_the_same_images(model):
    networks = [Bright(), Bright(), Wetness(), SeesDamage()]
    result = audit(model, networks, do=[DAMAGE], explain=(), predictor=None)
    assert [one.name for one in result.classifiers] == ["Bright", "Bright #2", "Wetness", "SeesDamage"]
    same, wet, sees = (one.estimate for one in result.differences)
    assert same.value == 0
    assert not same.influence.any()
    assert same.half < 0.01  # what few images leave possible of any answer
    assert wet.value == pytest.approx(only(result, number=2).effect.headline.value - only(result).effect.headline.value)
    assert wet.holds(-true_effect(Bright(), DAMAGE))
    assert sees.holds(1 - true_effect(Bright(), DAMAGE))
    assert set(result.to_frame()["classifier"]) == {one.name for one in result.classifiers}


def test_the_disagreement_of_several_models_widens_the_interval(model, blind):
    ask = {"do": [DAMAGE], "explain": (), "predictor": None}
    one = only(audit(model, Bright(), **ask)).effect
    both = only(audit(model, Bright(), models=[blind], **ask)).effect
    assert len(both.models) == 2
    assert both.model_only.value == pytest.approx(sum(each.value for each in both.models) / 2)
    assert both.model_only.half > 3 * one.model_only.half
    assert both.combined.holds(true_effect(Bright(), DAMAGE))
    assert both.combined.half < both.model_only.half


def test_what_real_images_cannot_say_is_said(model):
    """A cohort chosen by an effect of the intervention, and an intervention that too few images have."""
    result = audit(model, Bright(), do=[{"old": 1}], among=["damaged=1"], explain=(), predictor=None)
    chosen = only(result, "damaged=1")
    assert chosen.effect.combined is None
    assert chosen.verdict.code == "overlap"
    assert "damaged" in chosen.effect.problem
    assert only(result).effect.combined is not None
    few = only(audit(model, Bright(), do=["old=1,damaged=1,wet=1"], explain=(), predictor=None, count=90)).effect
    assert few.combined is None
    assert few.headline is few.model_only
    assert str(few.n_with_value) in few.problem


class Sorted(Workshop):
    """Wet machines are hardly ever damaged: of those there is nothing to compare with."""

    def split(self, generator):
        whole = super().split(generator)
        rare = (torch.rand(self.rows, generator=generator) < 0.002).float()
        wet = whole.columns["wet"] * (1 - whole.columns["damaged"]) + whole.columns["damaged"] * rare
        x = whole.images / 255 + (wet - whole.columns["wet"])[:, None, None, None] * stripes(3, SHAPE, 0.3)[2]
        return Split((x * 255).round().to(torch.uint8), {**whole.columns, "wet": wet}, whole.y, whole.others)


def test_images_unlike_all_that_have_it_are_left_out_and_that_is_said():
    """Where some cannot be compared, the estimate is about the others; their truth is what the interval holds."""
    data = Sorted(rows=3000)
    data.setup()
    columns, x = data.columns("test"), data.images("test") / 255
    scm = AttributeSCM(**data.scm_spec).fit(columns)
    of = columns["damaged"] == 0
    real = (Bright()(x) > 0).double().numpy()
    after = (Bright()(x + stripes(3, SHAPE, 0.3)[1]) > 0).double().where(of, torch.nan).numpy()
    sample, damage = Sample(scm.schema, scm.graph, columns), Set.from_values(scm.schema, DAMAGE)
    effect = estimate_effect(sample, damage, SampleAnswers(real, real[None], after[None], truth=after))
    dry = of & (columns["wet"] == 0)
    assert effect.share_compared == pytest.approx((dry.sum() / of.sum()).item(), abs=0.01)
    assert effect.share_compared < 0.9
    truth = after - real
    assert effect.truth == pytest.approx(truth[dry].mean(), abs=0.01)
    assert effect.truth != pytest.approx(truth[of].mean(), abs=0.01)
    assert effect.combined.holds(effect.truth)
    assert "of images with overlap" in effect_kind(effect)


def test_an_attribute_that_the_classifier_ignores_is_not_called_biased(model):
    effect = only(audit(model, Wetness(), do=[DAMAGE], explain=(), predictor=None)).effect
    assert effect.combined.holds(0)
    assert effect.significant == "no"
    sees = only(audit(model, SeesDamage(), do=[DAMAGE], explain=(), predictor=None)).effect
    assert sees.significant == "5%"
    assert sees.combined.value == pytest.approx(1, abs=0.02)
    assert sees.combined.low < 1  # so many equal answers still leave some doubt


def test_subgroups_allow_for_looking_at_many(model):
    result = audit(model, Bright(), do=[DAMAGE], subgroups="all", explain=(), predictor=None)
    rows = {row.subgroup: row for row in result.first.subgroups}
    # of those that are not damaged, there is none with damaged=1
    assert set(rows) == {"old=0", "old=1", "damaged=0", "wet=0", "wet=1"}
    for row in rows.values():
        assert row.low < row.bias < row.high
    alone = only(audit(model, Bright(), do=[DAMAGE], among=["wet=1"], explain=(), predictor=None), "wet=1").effect
    assert rows["wet=1"].bias == pytest.approx(alone.headline.value)
    assert rows["wet=1"].high - rows["wet=1"].low > alone.headline.high - alone.headline.low
    assert math.isnan(rows["damaged=0"].differs)
    with pytest.raises(UserError) as refusal:
        audit(model, Bright(), do=[DAMAGE], subgroups=["rusty"], explain=(), predictor=None)
    assert refusal.value.argument == "subgroups"


def test_an_image_is_explained_by_itself(model, plain):
    result = audit(model, Bright(), do=[DAMAGE], local=[3, 5], predictor=None, count=20)
    frame = result.frames()["local"]
    assert frame["image"].unique().tolist() == [3, 5]
    x = plain.images("test")[:20] / 255
    a = {name: column[:20] for name, column in plain.columns("test").items()}
    for name in ("old", "damaged", "wet"):
        with_, without = (Bright()(model.counterfactual(x, a, {name: v}).images).sigmoid()[3].item() for v in (1, 0))
        (score,) = frame[(frame["image"] == 3) & (frame["attribute"] == name)]["score"]
        assert score == pytest.approx(with_ - without, abs=1e-5)
    with pytest.raises(UserError) as refusal:
        audit(model, Bright(), do=[DAMAGE], local=[99], predictor=None, count=20)
    assert refusal.value.argument == "local"


def test_true_pairs_correct_what_few_images_cannot(run):
    """43 drawn faces are too few for real images, and 20 true pairs say it all the same."""
    model = load_trained(run)
    ask = {"do": ["Pale_Skin=1"], "explain": (), "predictor": None}
    result = audit(model, Reddish(), pairs=20, **ask)
    row = only(result)
    assert row.effect.real is None
    assert row.effect.n_pairs == 20
    assert row.effect.combined is row.effect.pairs
    assert row.truth_within
    with pytest.raises(UserError) as refusal:
        audit(model, Reddish(), pairs=3, **ask)
    assert refusal.value.argument == "pairs"


def test_pictures_before_and_after_say_what_the_model_does_not_draw(blind, plain, tmp_path):
    """Forty pairs of one's own: half of the machines' damage is seen by the classifier, and the model draws none."""
    plain.setup()
    rows = (plain.columns("val")["damaged"] == 0).nonzero()[:40, 0]
    lines = ["before,after,do,old,damaged,wet"]
    for number, row in enumerate(rows.tolist()):
        x = plain.images("val")[row, 0].float()
        damaged = (x + 255 * stripes(3, SHAPE, 0.3)[1, 0]).round().clamp(max=255)
        for name, pixels in (("before", x), ("after", damaged)):
            Image.fromarray(pixels.to(torch.uint8).numpy()).save(tmp_path / f"{name}{number}.png")
        old, wet = (int(plain.columns("val")[name][row]) for name in ("old", "wet"))
        lines.append(f"before{number}.png,after{number}.png,damaged=1,{old},0,{wet}")
    (tmp_path / "pairs.csv").write_text("\n".join(lines))
    ask = {"do": [DAMAGE], "explain": (), "predictor": None, "count": 100}  # too few for real images
    alone, paired = (
        only(audit(load_trained(blind), Bright(), pairs=pairs, **ask)) for pairs in (None, tmp_path / "pairs.csv")
    )
    effect = paired.effect
    assert alone.effect.combined is None
    assert effect.n_pairs == 40
    assert effect.combined.holds(true_effect(Bright(), DAMAGE))
    assert not effect.model_only.holds(true_effect(Bright(), DAMAGE))
    assert paired.verdict.code == "disagree"  # nobody said that it is not drawn: no predictor was asked
    with pytest.raises(UserError) as refusal:
        audit(load_trained(blind), Bright(), pairs=tmp_path / "pairs.csv", **ask | {"do": ["wet=1"]})
    assert refusal.value.argument == "pairs"
