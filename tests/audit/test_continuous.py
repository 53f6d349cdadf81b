"""Networks that predict a value, and interventions that shift or compare values of a continuous attribute, against the truth."""

import json

import numpy as np
import pytest
import torch

from cfgen.api import load
from cfgen.audit import illustrate, write_report
from cfgen.audit.answers import COUNTERFACTUAL, Picture
from cfgen.audit.questions import EVERYONE
from cfgen.classifiers import ExternalClassifier
from cfgen.commands import audit
from cfgen.errors import UserError
from tests.audit.herd import ANIMALS, Animals, Herd, Weighs, herd_run, weight_of
from tests.audit.shifting import rows

AMOUNT = 0.5
DO = ["old=1", f"size=+{AMOUNT}", "size=1:2.2", "size=2.2"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return herd_run(tmp_path_factory.mktemp("herd") / "run", continuous=True)


@pytest.fixture(scope="module")
def model(run):
    return load(run)


@pytest.fixture(scope="module")
def result(model):
    return audit_of_values(model, do=DO, explain=["size"], explain_count=50)


def audit_of_values(model, **more):
    return model.audit(ExternalClassifier(Weighs(), output="value"), **{"predictor": None, "explain": ()} | more)


def effects(result):
    return {row.change: row.effect for row in result.first.findings if row.cohort == EVERYONE}


@pytest.fixture(scope="module")
def truth():
    """By intervention, from the world itself: of those that it changes."""
    generator = torch.Generator().manual_seed(5)
    old = (torch.rand(200_000, generator=generator) < 0.5).float()
    noise = 0.7 * torch.randn(200_000, generator=generator)
    size = (1.4 + 0.6 * old + noise).clamp(0, 4)
    inside, own = size + AMOUNT <= 4, weight_of(old, size)
    older = weight_of(torch.ones_like(old), (2.0 + noise).clamp(0, 4)) - own
    return {
        "old=1": older[old == 0].mean().item(),
        f"size=+{AMOUNT}": (weight_of(old, size + AMOUNT) - own)[inside].mean().item(),
        "size=1:2.2": (weight_of(old, torch.full_like(size, 2.2)) - weight_of(old, torch.full_like(size, 1)))
        .mean()
        .item(),
        "size=2.2": (weight_of(old, torch.full_like(size, 2.2)) - own).mean().item(),
    }


@pytest.mark.parametrize("change", DO)
def test_the_mean_change_is_in_units_and_its_interval_contains_the_truth(result, truth, change):
    effect = effects(result)[change]
    assert effect.real is not None, effect.problem
    assert effect.combined.low <= truth[change] <= effect.combined.high
    assert effect.model_only.value == pytest.approx(truth[change], rel=0.1, abs=0.3)
    verdict = result.first.finding(EVERYONE, change).verdict
    assert verdict.good, verdict
    assert effect.combined.half < 4
    assert effect.significant == "0"  # there are no points that a value could lie beyond


def test_a_value_has_no_flips_and_the_report_says_units(result, tmp_path):
    record = result.records()["bias"][-1]
    assert "flipped" not in record
    assert "mse_x" in result.first.model_error
    assert not result.classes
    folder = write_report(result, tmp_path / "found")
    page = (folder / "report.html").read_text()
    assert "What changes the network" in page
    assert "more on average" in page
    assert "size at 2.2 rather than at 1" in page
    assert "Answers that flip" not in page
    assert "points" not in page.partition("What was found")[2].partition("<h2>")[0]
    json.loads((folder / "audit.json").read_text())


def test_a_shift_is_of_each_images_own_value_and_says_whom_it_leaves_out(model, result):
    data = Herd(continuous=True)
    data.setup()
    size = data.columns("test")["size"]
    inside = size + AMOUNT <= 4
    effect = effects(result)[f"size=+{AMOUNT}"]
    assert effect.n_target == inside.sum()
    shifted = Picture(COUNTERFACTUAL, f"size=+{AMOUNT}", "end", *result.questions.models)
    (known,) = (~np.isnan(pictures[shifted][:, 0]) for pictures in result.answers.tables.values())
    assert (known == inside.numpy()).all()
    left = int((~inside).sum())
    assert left > 0
    assert any(f"leaves out {left} image" in text and "0 to 4" in text for text in result.questions.facts["assumed"])
    deviation = data.columns("train")["size"].double().std(correction=0).item()
    by_sd = audit_of_values(model, do=["size=+1sd"])
    by_units = audit_of_values(model, do=[{"size": f"+{deviation:.7f}"}])
    one, other = effects(by_sd)["size=+1sd"], next(iter(effects(by_units).values()))
    assert one.combined.value == pytest.approx(other.combined.value, rel=1e-3)


def test_shifts_and_contrasts_of_a_classifier(model):
    animals = ExternalClassifier(Animals(), classes=ANIMALS)
    found = model.audit(animals, do=["size=+0.5", "size=1:2.2"], predictor=None, explain=())
    hens = next(one for one in found.classifiers if one.class_name == "hen")
    assert len(hens.findings) == 2
    for row in hens.findings:
        assert row.effect.combined.value > 0.05
        assert row.verdict.good, row.verdict
    (classes,) = found.classes
    contrast = classes.matrix(EVERYONE, "size=1:2.2")
    assert contrast.n == 700  # all images at both values
    assert contrast.counts.sum(axis=0)[2] > contrast.counts.sum(axis=1)[2]  # larger ones are hens


def test_a_report_shows_pictures_of_a_contrast_at_both_values_as_they_were_counted(model, tmp_path):
    animals = Animals()
    classifier = ExternalClassifier(animals, classes=ANIMALS)
    found = model.audit(classifier, do=["size=1:2.2"], predictor=None, explain=(), focus=["hen"])
    (flip,) = (flip for flip in illustrate(found.questions, found).flips if flip.direction == "up")
    assert (flip.classifier, flip.intervention, flip.compared) == ("hen", "size=1:2.2", ("size=1", "size=2.2"))
    for images, p in ((flip.base, flip.before), (flip.counterfactual, flip.after)):
        torch.testing.assert_close(animals(images).softmax(dim=1)[:, 2], torch.tensor(p), rtol=1e-4, atol=1e-5)
    page = write_report(found, tmp_path / "found") / "report.html"
    assert "flips to yes under do(size=1:2.2): real, size=1 and size=2.2" in page.read_text()


def test_the_command_takes_shifts_contrasts_and_names(run, here, capsys):
    words = ["--model", str(run), "--classifier", "tests.audit.herd:Weighs", "--output", "value", "--predictor", "none"]
    words += ["--accelerator", "cpu", "--trusted", "--explain", "none"]
    do = ["--do", "size=-0.5sd", "--do", "size=1:2.5", "--do", "coat=red"]
    assert audit.main([*words, *do, "--out", "found"]) == 0
    assert {row["change"] for row in rows(here / "found") if row["kind"] == "do"} == {
        "size=-0.5sd",
        "size=1:2.5",
        "coat=red",
    }
    capsys.readouterr()
    for wrong, told in (("coat=blue", "grey, red, white"), ("size=1sd", "+1sd"), ("old=+1", "0 or 1"),
                        ("coat=+1", "red, grey or white"), ("size=1:9", "0 to 4"), ("size=+9", "out of the range"),
                        ("size=+0", "changes nothing"), ("size=2:2", "changes nothing"),
                        ("size=+1sd,old=1", "of its own")):  # fmt: skip
        assert audit.main([*words, "--do", wrong, "--out", "refused"]) == 2
        line = capsys.readouterr().err.splitlines()[-1]
        assert line.startswith("error: --do: ")
        assert told in line


def test_what_has_no_meaning_is_refused(model):
    for options, argument in (({"positive": 1}, "positive"), ({"classes": ["a", "b"]}, "classes")):
        with pytest.raises(UserError) as refusal:
            ExternalClassifier(Weighs(), output="value", **options)
        assert refusal.value.argument == argument
    constant = ExternalClassifier(torch.nn.Sequential(Weighs(), Constant()), output="value")
    with pytest.raises(UserError, match="every image"):
        model.audit(constant, do=["old=1"], predictor=None)


class Constant(torch.nn.Module):
    def forward(self, y):
        return 0 * y + 1.0


def test_drawing_takes_the_same_words(model):
    made = model.generate(["size=+0.5", "coat=red"], index=[0, 1, 2])
    own, moved = made.attributes["size"], made.counterfactual_attributes["size=+0.5"]["size"]
    torch.testing.assert_close(moved, own + 0.5)
    assert made.counterfactual_attributes["coat=red"]["coat"] == ["red"] * 3
    with pytest.raises(UserError, match="out of the range"):
        model.generate(["size=+3"], index=range(20))
    with pytest.raises(UserError, match="an audit does"):
        model.generate(["size=1:2.2"])
    x, a = made.images[:2], {name: column[:2] for name, column in made.attributes.items()}
    shifted = model.counterfactual(x, a, "size=+0.5")
    torch.testing.assert_close(shifted.images, made.counterfactuals["size=+0.5"][:2])
