"""The audit's page and figures: whole, offline, accessible, and saying what the numbers say."""

import math
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import torch

from cfgen.audit.figures import attribute_ranking, fairness_scatter
from cfgen.audit.folder import png, table
from cfgen.audit.quality import quality_rows, warnings
from cfgen.audit.report import Picture, Report, report_html
from cfgen.audit.results import EVERYONE, Importance, findings
from cfgen.audit.run import AFFINE, Plan, Scores
from cfgen.audit.text import finding

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


FACTS = {
    "command": "cfgen audit --generator 'a run' --classifier x.onnx --do Young=0",
    "seed": 0,
    "generator": {"graph": [("Young", "Gray_Hair")], "sha256": "0" * 64},
    "generator_scores": {"mse_x": 0.0123},
}


def page(label="Attractive", pictures=()):
    return report_html(Report(found(), PLAN, FACTS, label, 0.5, pictures))


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
    names = ("fairness_do", "fairness_affine", "ranking", "graph", f"flipped/up/{PALE}")
    text = page(pictures=[Picture(name, f"{name}.png", png(figure)) for name in names])
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
    text = read(page()).text
    sentence = "With Black_Hair=1 and Pale_Skin=1, the classifier says “Attractive” 16.7 points more often [95 %: "
    assert sentence in text  # (20 - 5) of 90
    assert "27.8 % of 90 answers changed, 80.0 % of these from no to yes." in text
    (age,) = (row for row in found().bias if row.change == "Young=0" and row.among == EVERYONE)
    most = f"{100 * age.values['flipped/high']:.1f} %"
    same = f"With Young=0, the classifier gives the same answer for all 100 images [95 %: fewer than {most} change]."
    assert same in text
    assert text.index(sentence) < text.index("Only images with Young=0") < text.index("can and cannot say")
    assert text.index(sentence) < text.index("What these numbers can and cannot say") < text.index("cfgen audit --gen")
    assert "Young causes Gray_Hair" in text
    assert "mse_x (cfgen evaluate)" in text


def test_names_are_text_and_not_markup():
    text = page(label="<script>alert(1)</script>")
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_direction_and_doubt_are_said():
    rows = {row.change: row for row in found().bias if row.among == EVERYONE}
    values = rows[PALE].values
    fewer = replace(rows[PALE], values=values | {"bias": -0.02, "bias/low": -0.06, "bias/high": 0.01})
    assert "2.0 points less often</strong> [95 %: -6.0 to +1.0]. The interval includes no difference." in finding(
        fewer, "A"
    )


def test_a_poor_generator_is_warned_of_however_large_the_bias():
    good = found()
    assert warnings(good, PLAN) == []
    assert max(abs(row.values["bias"]) for row in good.bias) > 0.1
    poor = replace(good, generator=good.generator | {"agreement": 0.93})
    (told,) = warnings(poor, PLAN)
    assert "for 7.0 % of the images" in told
    (told,) = warnings(poor, replace(PLAN, keep_residual=True))
    assert "the generator alone would turn 7.0 % of the classifier's answers" in told
    assert "What it loses is given back, what it draws wrongly is not" in told
    text = report_html(Report(poor, PLAN, FACTS, "A", 0.5, ()))
    assert read(text).text.count("Be careful: for 7.0 %") == 1


@pytest.mark.parametrize(("positive", "same", "other"), [(0.0, "no", "yes"), (1.0, "yes", "no")])
def test_answers_that_turn_one_way_only_are_warned_of(positive, same, other):
    good = found()
    stuck = replace(good, generator=good.generator | {"positive_base": positive})
    (told,) = warnings(stuck, PLAN)
    assert f"says {same} to every base image, so that answers can turn to {other} only" in told


def test_figures_of_other_interventions_stay_out():
    evaluated = {
        "true_error/do(Young)": 12.0,
        "true_error/changed(Young)": 0.5,
        "true_error/do(Bangs)": 3.0,
        "predicted/do(Pale_Skin)/Bangs": 0.9,
        "predicted/floor/Pale_Skin": 0.8,
        "predicted/floor/Bangs": 0.7,
        "bias/do(Young=1)": 0.1,
        "commutativity_l1/do(Young),do(Bangs)": 3.0,
        "composition_l1/1": 4.0,
        "mse_x": 0.01,
        "mae_z": None,
        "fid_inception/generated": 100.0,
        "images": 500,
        "split": "test",
        "standard_errors": {"mse_x": 0.1},
    }
    copied = [name for name, _ in quality_rows(found(), PLAN, evaluated, reader=False) if "(cfgen evaluate)" in name]
    assert copied == [
        "true_error/do(Young), levels of 255 (cfgen evaluate)",
        "true_error/changed(Young), share of pixels (cfgen evaluate)",
        "predicted/do(Pale_Skin)/Bangs, share right, or the attribute's units (cfgen evaluate)",
        "predicted/floor/Pale_Skin, share right, or the attribute's units (cfgen evaluate)",
        "composition_l1/1, levels of 255 (cfgen evaluate)",
        "mse_x (cfgen evaluate)",
        "fid_inception/generated (cfgen evaluate)",
    ]


def test_what_a_reader_sees_stands_beside_the_bias():
    assert "not measured: give --reader" in read(page()).text
    rows = [replace(row, seen=0.8125, seen_floor=0.9575) if row.change == PALE else row for row in found().bias]
    told = report_html(Report(replace(found(), bias=rows), PLAN, FACTS | {"reader": {"sha256": ""}}, "A", 0.5, ()))
    assert "seen as asked" in told
    assert "<td>81.2 %</td><td>95.8 %</td>" in told
    assert "81.2 % (real images that have it: 95.8 %)" in told
    assert "not measured: give --reader" not in told
    assert "not measured: the reader does not decide this" in told  # of age


def test_a_baseline_stays_one_where_it_turns_many_answers():
    rows = [
        replace(row, values=row.values | {"significant": 1.0}) if row.change == "brightness" else row
        for row in found().bias
    ]
    tags = read(report_html(Report(replace(found(), bias=rows), PLAN, FACTS, "A", 0.5, ()))).tags
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
    text = read(report_html(Report(result, PLAN, FACTS, "A", 0.5, ()))).text
    assert "among all images, 2 of 2 true values lie within" in text  # all flipped both ways: no bias, as estimated
    assert "25.50 (image left as it was: 76.50)" in text
    (told,) = warnings(result, PLAN)
    assert told.endswith("in levels of 255: do(Young=0): 127.50 against 127.50.")


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
