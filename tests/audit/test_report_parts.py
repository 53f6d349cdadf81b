"""Warnings, measures of quality and figures of an audit."""

import math
from dataclasses import replace

import pytest
import torch

from cfgen.audit.report.figures import attribute_ranking, audit_figures, fairness_scatter
from cfgen.audit.report.quality import quality_rows, warnings, warnings_of_all
from cfgen.audit.report.text import SHORT
from cfgen.audit.results import EVERYONE, Importance, findings
from cfgen.audit.transformations import AFFINE
from cfgen.reporting.files import png, table
from tests.audit.found import OLD, PALE, PLAN, THICK, WITH_CURVE, N, audited, effect, lines, result, scores, table_of


def found(more=None):
    return findings(scores(more), PLAN, {EVERYONE: torch.ones(N, dtype=torch.bool)}, resamples=200, lines=lines())


def test_a_poor_model_is_warned_of_however_large_the_bias():
    good = found()
    assert warnings(good, PLAN) == []
    assert max(abs(row.values["bias"]) for row in good.bias) > 0.1
    poor = replace(good, model_error=good.model_error | {"agreement": 0.93})
    (plain,) = warnings(poor, PLAN)
    (kept,) = warnings(poor, replace(PLAN, keep_residual=True))
    assert plain != kept
    assert all("7.0 % of the" in text for text in (plain, kept))
    one = audited()
    one = replace(one, findings=replace(one.findings, model_error=poor.model_error))
    assert result(one).report_html().count(plain.partition(",")[0]) == 1


def test_what_is_warned_of_for_all_is_said_once():
    good = found()
    poor = replace(good, model_error=good.model_error | {"agreement": 0.93})
    (text,) = warnings(poor, PLAN)
    assert warnings_of_all({"a": poor, "b": poor}, PLAN) == [text]
    assert warnings_of_all({"a": poor, "b": good}, PLAN) == [f"a: {text}"]


@pytest.mark.parametrize(("positive", "same", "other"), [(0.0, "no", "yes"), (1.0, "yes", "no")])
def test_answers_that_flip_one_way_only_are_warned_of(positive, same, other):
    good = found()
    stuck = replace(good, model_error=good.model_error | {"positive_base": positive})
    (warning,) = warnings(stuck, PLAN)
    assert f"says {same} to every base image, so answers can only flip to {other}" in warning


def test_counterfactuals_no_better_than_the_images_are_warned_of():
    real = scores()["real"]
    more = {f"true/{OLD}": 1 - real, f"error/{OLD}": real, f"untouched/{OLD}": real}
    (warning,) = warnings(found(more), PLAN)
    assert warning.endswith(": do(Young=0): 127.50 against 127.50.")


GREY = "grey levels of 255"
SCORES = {
    "true_error/do(Young)": 12.0,
    "true_error/do(Bangs)": 3.0,
    "bias/do(Young=1)": 0.1,
    "composition_l1/1": 4.0,
    "mse_x": 0.01,
    "mae_z": None,
    "fid_inception/generated": 100.0,
    "images": 500,
    "split": "test",
    "standard_errors": {"mse_x": 0.1},
}
ABOUT = {
    "true_error/do(Young)": {"unit": GREY, "attribute": "Young"},
    "true_error/do(Bangs)": {"unit": GREY, "attribute": "Bangs"},
    "composition_l1/1": {"unit": GREY, "attribute": None},
    "mse_x": {"unit": "", "attribute": None},
    "mae_z": {"unit": "", "attribute": None},
}


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (SCORES | {"about": ABOUT}, [f"true_error/do(Young), {GREY}", f"composition_l1/1, {GREY}", "mse_x"]),
        (SCORES, ["composition_l1/1", "mse_x", "fid_inception/generated"]),
        ({}, []),
    ],
)
def test_scores_of_the_model_and_of_the_named_attributes_are_shown(given, shown):
    """A file of scores says itself what they are of; of one that does not, only those of the model as a whole."""
    copied = [name for name, _ in quality_rows(found(), PLAN, given, predictor=False) if "(cfgen evaluate)" in name]
    assert copied == [f"{name} (cfgen evaluate)" for name in shown]


def test_how_strongly_the_model_draws_is_said():
    one = audited(effects={(EVERYONE, OLD): replace(effect(), strength=None)})
    rows = dict(quality_rows(one.findings, PLAN, {}, predictor=True))
    said = [value for name, value in rows.items() if "strength" in name]
    assert said == [
        "68.0 % (95 % confidence interval 58.0 % to 78.0 %)",
        "not measured: the predictor does not know these attributes",
    ]
    assert any("no predictor" in value for _, value in quality_rows(one.findings, PLAN, {}, predictor=False))
    unsure = replace(effect().strength, judged=False, value=math.nan)
    one = audited(effects={(EVERYONE, PALE): replace(effect(), strength=unsure)})
    assert any("cannot tell" in value for _, value in quality_rows(one.findings, PLAN, {}, predictor=True))


def test_quadrants_show_the_shares_of_the_table():
    figure = fairness_scatter(scores(), [f"do/{PALE}", f"do/{OLD}"], ["pale", "age"], 0.5, "A")
    rows = {row.change: row.values for row in found().bias if row.among == EVERYONE}
    for axes, name in zip(figure.axes, (PALE, OLD), strict=False):
        shown = [text.get_text() for text in axes.texts]
        assert shown == [f"{rows[name]['up']:.1%}", f"{rows[name]['down']:.1%}"]
        assert sum(len(points.get_offsets()) for points in axes.collections) == rows[name]["n"]


def test_the_ranking_has_the_strongest_of_both_kinds():
    given = [
        Importance(f"a{i}", score, score - 0.01, score + 0.01, 9) for i, score in enumerate([0.1, 0.4, -0.3, 0.2, -0.1])
    ]
    axes = attribute_ranking(given, k=2).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a1", "a3", "a4", "a2"]
    assert [patch.get_width() for patch in axes.patches] == [0.4, 0.2, -0.1, -0.3]
    wide = replace(given[0], attribute="width", meaning="one more pixel")
    assert "one more pixel" in attribute_ranking([wide], k=1).axes[0].get_yticklabels()[0].get_text()


def test_importance_is_signed_by_the_attribute():
    (importance,) = found().importance
    assert importance.score == pytest.approx(0.1)  # without youth 0.1 less probable
    assert importance.low == pytest.approx(importance.high, abs=1e-6)


@pytest.fixture(scope="module")
def figures():
    bad = {(EVERYONE, PALE): effect("overlap", combined=None, model=0.31), (EVERYONE, THICK): effect(combined=0.44)}
    one = audited(plan=WITH_CURVE, effects=bad, label="$x^$")
    return audit_figures(result(one, audited("runs/second", plan=WITH_CURVE), plan=WITH_CURVE))


def test_figures_of_every_classifier_have_names_of_their_own(figures):
    of_each = ["fairness_do", "fairness_affine", "attribute_ranking", "flipped_up_Black_Hair=1+Pale_Skin=1"]
    assert set(figures) == {
        "estimates", "curve_width", "local_3", "causal_graph", *of_each, *(f"{name}_2" for name in of_each)
    }  # fmt: skip


def test_names_from_outside_are_no_formulas(figures):
    for name in ("fairness_do", "local_3", "attribute_ranking"):
        assert png(figures[name]).startswith(b"\x89PNG")


def test_the_curve_shows_the_models_line_and_the_combined_estimates(figures):
    first, second = figures["curve_width"].axes
    line = next(line for line in first.lines if list(line.get_xdata()) == [1.0, 2.0])
    assert list(line.get_ydata()) == pytest.approx([20, 20])
    marks = {line.get_xdata()[0]: line.get_ydata()[0] for line in first.lines if len(line.get_xdata()) == 1}
    assert marks == pytest.approx({1.0: 25, 2.0: 44})
    assert first.get_ylim() == second.get_ylim()


def test_estimates_have_their_verdicts(figures):
    (axes,) = figures["estimates"].axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    (pale, *_) = (text for text in labels if "Pale_Skin" in text and "first" in text)
    assert SHORT["overlap"] in pale
    assert sum(SHORT["agrees"] in text for text in labels) == len(labels) - 1
    titles = " ".join(axes.get_title() for axes in figures["fairness_do"].axes)
    assert SHORT["overlap"] in titles


def test_a_single_image_is_explained_by_its_own_scores(figures):
    image, first, second = figures["local_3"].axes
    assert len(image.images) == 1
    assert [patch.get_width() for patch in first.patches] == pytest.approx([0.1])
    assert [label.get_text() for label in first.get_yticklabels()] == ["Young"]
    assert first.get_xlim() == second.get_xlim()


def test_tables_hold_numbers_of_all_rows():
    text = table([row.record() for row in found().bias]).splitlines()
    assert len(text) == 1 + len(AFFINE) + 2
    assert text[0].startswith("among,change,kind,n,flipped,")
    assert table([{"a": 1 / 3, "b": math.nan}]) == "a,b\n0.333333,nan\n"


def test_a_table_made_elsewhere_needs_no_baselines():
    """As an evaluation makes one: the classifier's answers under interventions, and nothing else."""
    whole = scores()
    part = table_of({name: whole[name] for name in whole.names if name not in AFFINE and name != "mse"})
    members = {EVERYONE: torch.ones(N, dtype=torch.bool)}
    made = findings(part, PLAN, members, resamples=0, lines=lines())
    assert [row.change for row in made.bias] == list(PLAN.do)
    assert math.isnan(made.model_error["mse_x"])
    assert made.importance == found().importance
