"""The audit's page and figures: whole, offline, accessible, and saying what the numbers say."""

import math
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import torch

from cfgen.audit.figures import attribute_ranking, fairness_scatter
from cfgen.audit.plan import Plan, Scores
from cfgen.audit.quality import quality_rows, warnings
from cfgen.audit.report import Report, flip_name, report_html
from cfgen.audit.results import EVERYONE, Importance, findings
from cfgen.audit.text import finding
from cfgen.audit.transformations import AFFINE
from cfgen.reporting.files import png, table

PALE = "Black_Hair=1,Pale_Skin=1"
PLAN = Plan({PALE: {"Black_Hair": 1, "Pale_Skin": 1}, "Young=0": {"Young": 0}}, explain=["Young"])
N = 100


def scores():
    """100 base images, half yes.  By pale 20 turn to yes and 5 to no, 10 are not asked; age changes nothing."""
    base = torch.where(torch.arange(N) < 50, 0.8, 0.2)
    pale = base.clone()
    pale[50:70], pale[:5], pale[90:] = 0.9, 0.3, torch.nan
    columns = {"real": base, "base": base, "mse": torch.full((N,), 0.01)}
    columns |= dict.fromkeys(AFFINE, base) | {f"do/{PALE}": pale, "do/Young=0": base, "flip/Young": base - 0.1}
    return Scores(list(columns), torch.stack(list(columns.values()), dim=1))


def found():
    members = {EVERYONE: torch.ones(N, dtype=torch.bool), "Young=0": torch.arange(N) % 2 == 0}
    return findings(scores(), {"Young": torch.ones(N)}, PLAN, members, resamples=200)


COMMAND = "cfgen audit --model 'a run' --classifier x.onnx --do Young=0"
FACTS = {
    "seed": 0,
    "model": {"graph": [("Young", "Gray_Hair")], "sha256": "0" * 64},
    "model_scores": {"mse_x": 0.0123},
}


def page(result=None, label="Attractive", pictures=None, facts=FACTS):
    return report_html(Report(result or found(), PLAN, facts, label, 0.5, pictures or {}, COMMAND))


class Reader(HTMLParser):
    """Collects tags, attributes and text; notes what is opened and not closed."""

    VOID = ("meta", "img", "br")

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.text = [], [], ""

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def read(text):
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    return reader


def test_the_page_stands_alone_and_is_accessible():
    figure = fairness_scatter(scores(), list(AFFINE), list(AFFINE))
    names = ("fairness_do", "fairness_affine", "attribute_ranking", "causal_graph", flip_name("up", PALE))
    text = page(pictures=dict.fromkeys(names, png(figure)))
    reader = read(text)
    images = [attributes for tag, attributes in reader.tags if tag == "img"]
    assert len(images) == len(names)
    assert all(image["src"].startswith("data:image/png;base64,") and len(image["alt"]) > 20 for image in images)
    assert not any("href" in attributes or tag in ("script", "link", "iframe") for tag, attributes in reader.tags)
    assert "http" not in text
    assert "@import" not in text
    assert "url(" not in text
    assert ("html", {"lang": "en"}) in reader.tags
    assert any(attributes.get("name") == "viewport" for _, attributes in reader.tags)
    assert [tag for tag, _ in reader.tags].count("h1") == 1
    for wanted in ("prefers-color-scheme: dark", "@media print", "overflow-x: auto"):
        assert wanted in text


def test_the_findings_come_first_and_in_plain_words():
    text = " ".join(read(page()).text.split())
    sentence = (
        "With Black_Hair=1 and Pale_Skin=1, the classifier says “Attractive” 16.7 points more often [95 % confidence"
    )
    assert sentence in text  # (20 - 5) of 90
    assert "27.8 % of 90 answers flip, 80.0 % of these from no to yes." in text
    (age,) = (row for row in found().bias if row.change == "Young=0" and row.among == EVERYONE)
    most = f"{100 * age.values['flipped/high']:.1f} %"
    same = (
        "With Young=0, the classifier gives the same answer for all 100 images [95 % confidence interval: fewer than "
    )
    assert f"{same}{most} flip]." in text
    order = [
        sentence,
        "Only images with Young=0",
        "How good the images are",
        "can and cannot say",
        "cfgen audit --model",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert "Young causes Gray_Hair" in text
    assert "mse_x (cfgen evaluate)" in text
    for old in ("generator", "reader"):
        assert old not in text


def test_names_are_text_and_not_markup():
    text = page(label="<script>alert(1)</script>")
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_direction_and_doubt_are_said():
    rows = {row.change: row for row in found().bias if row.among == EVERYONE}
    values = rows[PALE].values
    fewer = replace(rows[PALE], values=values | {"bias": -0.02, "bias/low": -0.06, "bias/high": 0.01})
    sentence = finding(fewer, "A")
    assert sentence.emphasis == "says “A” 2.0 points less often"
    assert sentence.rest.startswith(" [95 % confidence interval: -6.0 to +1.0]. The interval includes no difference.")


def test_a_poor_model_is_warned_of_however_large_the_bias():
    good = found()
    assert warnings(good, PLAN) == []
    assert max(abs(row.values["bias"]) for row in good.bias) > 0.1
    poor = replace(good, model_error=good.model_error | {"agreement": 0.93})
    (plain,) = warnings(poor, PLAN)
    (kept,) = warnings(poor, replace(PLAN, keep_residual=True))
    assert plain != kept
    assert all("7.0 % of the" in text for text in (plain, kept))
    text = read(page(poor)).text
    assert text.count("Warning: for 7.0 % of the images") == 1


@pytest.mark.parametrize(("positive", "same", "other"), [(0.0, "no", "yes"), (1.0, "yes", "no")])
def test_answers_that_flip_one_way_only_are_warned_of(positive, same, other):
    good = found()
    stuck = replace(good, model_error=good.model_error | {"positive_base": positive})
    (warning,) = warnings(stuck, PLAN)
    assert f"says {same} to every base image, so answers can only flip to {other}" in warning


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
    "true_error/do(Young)": {"unit": "grey levels of 255", "attribute": "Young"},
    "true_error/do(Bangs)": {"unit": "grey levels of 255", "attribute": "Bangs"},
    "composition_l1/1": {"unit": "grey levels of 255", "attribute": None},
    "mse_x": {"unit": "", "attribute": None},
    "mae_z": {"unit": "", "attribute": None},
}


@pytest.mark.parametrize(
    ("scores", "shown"),
    [
        (
            SCORES | {"about": ABOUT},
            ["true_error/do(Young), grey levels of 255", "composition_l1/1, grey levels of 255", "mse_x"],
        ),
        (SCORES, ["composition_l1/1", "mse_x", "fid_inception/generated"]),
        ({}, []),
    ],
)
def test_scores_of_the_model_and_of_the_named_attributes_are_shown(scores, shown):
    """A file of scores says itself what they are of; of one that does not, only those of the model as a whole."""
    copied = [name for name, _ in quality_rows(found(), PLAN, scores, predictor=False) if "(cfgen evaluate)" in name]
    assert copied == [f"{name} (cfgen evaluate)" for name in shown]


def test_what_a_predictor_recognises_stands_beside_the_bias():
    assert "not measured: no predictor was given" in read(page()).text
    rows = [replace(row, seen=0.8125, seen_floor=0.9575) if row.change == PALE else row for row in found().bias]
    text = page(replace(found(), bias=rows), facts=FACTS | {"predictor": {"sha256": ""}})
    assert "recognised in counterfactuals" in text
    assert "<td>81.2 %</td><td>95.8 %</td>" in text
    assert "81.2 % (real images that have it: 95.8 %)" in text
    assert "no predictor was given" not in text
    assert "not measured: the predictor does not know these attributes" in text  # of age


def test_a_baseline_stays_one_where_it_flips_many_answers():
    rows = [
        replace(row, values=row.values | {"significant": 1.0}) if row.change == "brightness" else row
        for row in found().bias
    ]
    tags = read(page(replace(found(), bias=rows))).tags
    assert [attributes.get("class") for tag, attributes in tags if tag == "tr"][:4] == [
        None,
        "baseline",
        "significant baseline",
        "significant",
    ]


def test_no_word_for_yes_makes_no_empty_title():
    assert "<h1>Is the classifier biased?</h1>" in page(label="yes")
    assert "<h1>Is the classifier biased about “Attractive”?</h1>" in page()


def test_the_truth_stands_beside_the_estimate():
    known = scores()
    pale, real = known[f"do/{PALE}"], known["real"]
    columns = {name: known[name] for name in known.names}
    columns |= {f"true/{PALE}": pale, f"error/{PALE}": pale * 0 + 0.1, f"untouched/{PALE}": pale * 0 + 0.3}
    columns |= {"true/Young=0": 1 - real, "error/Young=0": real, "untouched/Young=0": real}
    table_ = Scores(list(columns), torch.stack(list(columns.values()), dim=1))
    everyone = {EVERYONE: torch.ones(N, dtype=torch.bool)}
    result = findings(table_, {"Young": torch.ones(N)}, PLAN, everyone, resamples=200)
    rows = {row.change: row for row in result.bias}
    assert rows[PALE].truth_within is True
    assert rows[PALE].truth["bias"] == pytest.approx(15 / 90)
    assert rows[PALE].error == pytest.approx(0.1)
    assert rows["Young=0"].truth["flipped"] == 1
    assert rows["horizontal_flip"].truth_within is None
    text = " ".join(read(page(result)).text.split())
    assert "Among all images, 2 of 2 true values lie inside" in text  # all flipped both ways: no bias, as estimated
    assert "25.50 (unchanged image: 76.50)" in text
    (warning,) = warnings(result, PLAN)
    assert warning.endswith(": do(Young=0): 127.50 against 127.50.")


def test_quadrants_show_the_shares_of_the_table():
    figure = fairness_scatter(scores(), [f"do/{PALE}", "do/Young=0"], ["pale", "age"], 0.5, "A")
    rows = {row.change: row.values for row in found().bias if row.among == EVERYONE}
    for axes, name in zip(figure.axes, (PALE, "Young=0"), strict=False):
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


def test_importance_is_signed_by_the_attribute():
    (importance,) = found().importance
    assert importance.score == pytest.approx(0.1)  # without youth 0.1 less probable
    assert importance.low == pytest.approx(importance.high, abs=1e-6)


def test_tables_hold_numbers_of_all_rows():
    lines = table([row.record() for row in found().bias]).splitlines()
    assert len(lines) == 1 + 2 * (len(AFFINE) + 2)
    assert lines[0].startswith("among,change,kind,n,flipped,")
    assert table([{"a": 1 / 3, "b": math.nan}]) == "a,b\n0.333333,nan\n"


def test_a_table_made_elsewhere_needs_no_baselines():
    """As an evaluation makes one: the classifier's answers under interventions, and nothing else."""
    whole = scores()
    names = [name for name in whole.names if name not in AFFINE and name != "mse"]
    part = Scores(names, torch.stack([whole[name] for name in names], dim=1))
    members = {EVERYONE: torch.ones(N, dtype=torch.bool)}
    result = findings(part, {"Young": torch.ones(N)}, PLAN, members, resamples=0)
    assert [row.change for row in result.bias] == list(PLAN.do)
    assert math.isnan(result.model_error["mse_x"])
    assert result.importance == found().importance
