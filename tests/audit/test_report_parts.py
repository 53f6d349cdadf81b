"""Warnings, measures of quality and figures of an audit."""

import math
from dataclasses import replace

import numpy as np
import pytest

from cfgen.audit._quality import warnings, warnings_of_all
from cfgen.audit.questions import EVERYONE
from cfgen.audit.report._figures import report_figures
from cfgen.audit.report._page import scores_of
from cfgen.audit.report._words import SHORT
from cfgen.figures.answers import ScatterPanel, attribute_ranking, fairness_scatter
from cfgen.metrics.importance import Importance
from cfgen.reporting.files import png, table
from tests.audit.found import (
    ALONE,
    FACTS,
    OLD,
    PALE,
    THICK,
    WITH_CURVE,
    audited,
    judged,
    pictures,
    probabilities,
    result,
    result_of_classes,
)
from tests.audit.report_reader import page_of


def poor(one):
    return replace(one, model_error=one.model_error | {"agreement": 0.93})


def test_a_poor_model_is_warned_about_however_large_the_bias():
    good = audited()
    assert warnings(good, keep_residual=False) == []
    (plain,), (kept,) = (warnings(poor(good), keep_residual) for keep_residual in (False, True))
    assert plain != kept
    assert all("7.0 % of the" in text for text in (plain, kept))
    assert page_of(result(poor(good))).plain.count(plain.partition(",")[0]) == 1


def test_a_warning_that_all_classifiers_share_is_given_once():
    good = audited()
    (text,) = warnings(poor(good), keep_residual=False)
    assert warnings_of_all({"a": poor(good), "b": poor(good)}, False) == [text]
    assert warnings_of_all({"a": poor(good), "b": good}, False) == [f"a: {text}"]


@pytest.mark.parametrize(("positive", "same", "other"), [(0.0, "no", "yes"), (1.0, "yes", "no")])
def test_answers_that_flip_in_one_direction_only_are_warned_about(positive, same, other):
    one = audited()
    stuck = replace(one, model_error=one.model_error | {"positive_base": positive})
    (warning,) = warnings(stuck, keep_residual=False)
    assert f"says {same} to every base image, so answers can only flip to {other}" in warning


def test_counterfactuals_no_better_than_the_images_are_warned_about():
    (warning,) = warnings(audited(truth={OLD: (0.0, 0.5, 0.5)}), keep_residual=False)
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
    """Without descriptions in the file, only scores of the whole model are shown."""
    assert [name for name, _ in scores_of(given, {"Young"})] == shown
    page = page_of(result(facts=FACTS | {"model_scores": given}))
    copied = [row[0] for row in page.rows if "(cfgen evaluate)" in row[0]]
    assert copied == [f"{name} (cfgen evaluate)" for name in shown]


def test_the_strength_of_interventions_is_shown():
    def strengths(effects, facts=FACTS):
        found = result(audited(questions=ALONE, effects=effects), questions=ALONE, facts=facts)
        return [row[1] for row in page_of(found).rows if "strength in counterfactuals" in row[0]]

    none = {(EVERYONE, OLD): judged(strength=None)}
    assert strengths(none) == ["68.0 % (58.0 % to 78.0 %)", "not measured"]
    assert strengths(none, FACTS | {"predictor": None}) == ["not measured: this audit had no predictor"]
    unsure = judged()
    unsure = unsure._replace(strength=replace(unsure.strength, judged=False, value=math.nan))
    assert "cannot tell" in strengths({(EVERYONE, PALE): unsure})[0]


def test_quadrants_show_the_shares_of_the_table():
    base, after = probabilities()
    panels = [ScatterPanel(name, base, after[name], base > 0.5, after[name] > 0.5) for name in (PALE, OLD)]
    figure = fairness_scatter(panels, 0.5, "A")
    for axes, name in zip(figure.axes, (PALE, OLD), strict=False):
        row = audited().finding(EVERYONE, name)
        assert [text.get_text() for text in axes.texts] == [f"{row.flips[key]:.1%}" for key in ("up", "down")]
        assert sum(len(points.get_offsets()) for points in axes.collections) == row.n


def test_the_ranking_has_the_strongest_of_both_signs():
    scores = [0.1, 0.4, -0.3, 0.2, -0.1]
    given = [Importance(f"a{i}", score, score - 0.01, score + 0.01, 9) for i, score in enumerate(scores)]
    axes = attribute_ranking(given, k=2).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a1", "a3", "a4", "a2"]
    assert [patch.get_width() for patch in axes.patches] == [0.4, 0.2, -0.1, -0.3]
    wide = replace(given[0], attribute="width", meaning="one more pixel")
    assert "one more pixel" in attribute_ranking([wide], k=1).axes[0].get_yticklabels()[0].get_text()


@pytest.fixture(scope="module")
def figures():
    bad = {(EVERYONE, PALE): judged("overlap", combined=None, model=0.31), (EVERYONE, THICK): judged(combined=0.44)}
    one = audited(questions=WITH_CURVE, effects=bad, label="$x^$")
    both = result(one, audited("runs/second", questions=WITH_CURVE), questions=WITH_CURVE)
    return {each.name: each for each in report_figures(both, pictures("runs/first", "runs/second"))}


def test_figures_of_every_classifier_have_names_of_their_own(figures):
    of_each = ["fairness_do", "fairness_affine", "attribute_ranking", "flipped_up_Black_Hair=1+Pale_Skin=1"]
    assert set(figures) == {
        "estimates", "curve_width", "local_3", "causal_graph", *of_each, *(f"{name}_2" for name in of_each)
    }  # fmt: skip


def test_every_figure_is_described(figures):
    assert all(len(one.description) > 20 for one in figures.values())
    assert "Young +10.0" in figures["local_3"].description
    assert "Young causes Gray_Hair" in figures["causal_graph"].description
    example = figures["flipped_up_Black_Hair=1+Pale_Skin=1"]
    assert (example.verdict, example.classifier) == ("overlap", "first")
    assert "flips to yes under do(Black_Hair=1, Pale_Skin=1)" in example.description


def test_names_from_outside_are_no_formulas(figures):
    for name in ("fairness_do", "local_3", "attribute_ranking"):
        assert png(figures[name].figure).startswith(b"\x89PNG")


def points(axes, label):
    """The points of an estimate in a figure, as (x, y)."""
    return [
        pair
        for container in axes.containers
        if container.get_label() == label
        for pair in zip(*container.lines[0].get_data(), strict=True)
    ]


def test_the_curve_shows_model_only_and_combined_estimates(figures):
    first, second = figures["curve_width"].figure.axes
    assert np.allclose(points(first, "model-only estimate"), [(1, 20), (2, 20)])
    assert np.allclose(points(first, "combined estimate"), [(1, 25), (2, 44)])
    assert first.get_ylim() == second.get_ylim()


def test_the_forest_plot_has_all_estimates_and_their_verdicts(figures):
    (axes,) = figures["estimates"].figure.axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert len(points(axes, "model-only estimate")) == len(labels) == 2 * 2 * len(WITH_CURVE.interventions)
    assert len(points(axes, "combined estimate")) == len(labels) - 1
    (pale,) = (text for text in labels if SHORT["overlap"] in text)
    assert "Pale_Skin" in pale
    assert "first" in pale
    assert sum(SHORT["agrees"] in text for text in labels) == len(labels) - 1
    titles = " ".join(axes.get_title() for axes in figures["fairness_do"].figure.axes)
    assert SHORT["overlap"] in titles


def test_the_forest_plot_shows_the_ground_truth():
    found = result(audited(questions=ALONE, truth={OLD: (-0.5, 0.1, 0.3)}), questions=ALONE)
    (axes,) = report_figures(found, pictures())[0].figure.axes
    (truth,) = (line for line in axes.lines if line.get_label() == "ground truth")
    assert list(truth.get_xdata()) == [-50]


def test_a_single_image_is_explained_by_its_own_scores(figures):
    image, first, second = figures["local_3"].figure.axes
    assert len(image.images) == 1
    assert [patch.get_width() for patch in first.patches] == pytest.approx([0.1])
    assert [label.get_text() for label in first.get_yticklabels()] == ["Young"]
    assert first.get_xlim() == second.get_xlim()


def test_classes_have_matrices_and_only_one_is_shown_in_detail():
    found = {one.name: one for one in report_figures(result_of_classes(), pictures("dog"))}
    assert set(found) == {
        "estimates", "fairness_do", "fairness_affine", "attribute_ranking", "flipped_up_Black_Hair=1+Pale_Skin=1", "local_3",
        "matrix_Black_Hair=1+Pale_Skin=1", "matrix_Young=0", "causal_graph",
    }  # fmt: skip
    assert "27.8 % of 90 images change their class" in found["matrix_Black_Hair=1+Pale_Skin=1"].description
    (shares, *_) = ([text.get_text() for text in axes.texts] for axes in found["fairness_do"].figure.axes)
    assert shares == ["22.2%", "5.6%"]


def test_tables_hold_numbers_of_all_rows():
    text = table([row.record() for row in audited(questions=ALONE).bias]).splitlines()
    assert len(text) == 1 + 2 + 2
    assert text[0].startswith("among,change,kind,n,flipped,")
    assert table([{"a": 1 / 3, "b": math.nan}]) == "a,b\n0.333333,nan\n"
