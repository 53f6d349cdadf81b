"""The page and the console summary of an audit: complete, offline, accessible, and no number without its verdict."""

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from cfgen.audit import report
from cfgen.audit.questions import EVERYONE
from cfgen.audit.report._console import summary_lines, summary_tables
from cfgen.audit.report._sections import Finding, sections
from cfgen.audit.report._words import MARKS, SHORT, marked, sentence
from cfgen.audit.verdict import VERDICTS
from cfgen.effects import Value
from tests.audit.found import (
    ALONE,
    COHORT,
    FACTS,
    OLD,
    PALE,
    PLAN,
    THICK,
    WITH_CURVE,
    audited,
    judged,
    pictures,
    result,
    result_of_classes,
    result_of_values,
)
from tests.audit.report_reader import page_of, read

BAD = [code for code in VERDICTS if code != "agrees"]
TITLES = {one.name: one.title for one in WITH_CURVE.interventions}


@pytest.fixture(scope="module")
def whole():
    """Two classifiers, a cohort, subgroups, a curve and a single image."""
    second = audited("runs/second", questions=WITH_CURVE, effects={(EVERYONE, OLD): judged("weak", combined=-0.11)})
    return result(audited(questions=WITH_CURVE), second, questions=WITH_CURVE)


@pytest.fixture(scope="module")
def files(whole):
    return report.files(whole, pictures("runs/first", "runs/second"))


def test_the_page_is_one_file_and_accessible(files):
    text = files["report.html"]
    reader = read(text)
    images = [attributes for tag, attributes in reader.tags if tag == "img"]
    assert len(images) == len([name for name in files if name.endswith(".png")])
    assert all(image["src"].startswith("data:image/png;base64,") and len(image["alt"]) > 20 for image in images)
    assert not any("href" in attributes or tag in ("script", "link", "iframe") for tag, attributes in reader.tags)
    for outside in ("http", "@import", "url(", "//"):
        assert outside not in re.sub('base64,[^"]*', "", text)
    assert ("html", {"lang": "en"}) in reader.tags
    assert any(attributes.get("name") == "viewport" for _, attributes in reader.tags)
    assert [tag for tag, _ in reader.tags].count("h1") == 1
    for wanted in ("prefers-color-scheme: dark", "@media print", "max-width: 44rem"):
        assert wanted in text


def test_files_are_results_and_figures_and_last_the_page(whole, files):
    assert list(files)[-1] == "report.html"
    assert set(whole.files()) < set(files)
    assert "report.md" not in files


def test_a_report_is_written_to_a_new_folder(tmp_path):
    found = result_of_values()
    assert report.write(found, pictures("runs/first"), tmp_path / "new") == tmp_path / "new"
    names = {path.name for path in (tmp_path / "new").iterdir()}
    assert {"report.html", "audit.json", "bias.csv", "estimates.png", "causal_graph.png", "local_3.png"} <= names
    assert not any(name.startswith("fairness") for name in names)


def test_every_finding_has_badge_intervention_sentence_and_reason(whole):
    page = page_of(whole)
    shown = [finding for section in sections(whole) for finding in section.findings]
    assert len(page.findings) == len(shown) == 2 * 2 * len(WITH_CURVE.interventions)
    for text, finding in zip(page.findings, shown, strict=True):
        plain = " ".join(text.split())
        assert finding.intervention.title in plain
        assert finding.classifier.name.removeprefix("runs/") in plain
        assert f"{MARKS[finding.verdict.code]} {VERDICTS[finding.verdict.code].capitalize()}" in plain
        assert "".join(sentence(finding)) in plain
        assert finding.verdict.reason in plain


@pytest.mark.parametrize("code", BAD)
@pytest.mark.parametrize("model_only", [False, True])
def test_a_bad_verdict_stands_next_to_each_of_its_numbers(code, model_only):
    bad = judged(code, combined=None if model_only else 0.172, model=0.134)
    found = result(audited(effects={(cohort, PALE): bad for cohort in (EVERYONE, COHORT)}))
    page, title = page_of(found), TITLES[PALE]
    number = bad.effect.outcome.text(bad.effect.headline.value)
    texts = [text for text in page.findings if title in text]
    assert len(texts) == 2  # all images, and the cohort
    assert all(MARKS[code] in text and VERDICTS[code].capitalize() in text for text in texts)
    # the table of methods has no effects: its second column is the adjustment set
    rows = [row for row in page.rows if row[0] == title and row[1] != "Smiling"]
    assert len(rows) == 4  # bias and flip rates of all images and of the cohort
    rows += [row for row in page.rows if row[0].startswith("Smiling=") and any(number in cell for cell in row)]
    assert len(rows) == 6
    assert all(marked(code) in row for row in rows)
    printed = [row for table in summary_tables(found) for row in table.rows if row.name == title]
    assert len(printed) == 2
    assert all(marked(code) in row.cells and row.classes for row in printed)


def test_every_table_with_effects_has_verdicts(whole):
    page = page_of(whole)
    heads = [row for row in page.rows if row[0] in ("intervention", "subgroup", "attribute")]
    assert len(heads) > 10
    for row in heads:
        assert any("verdict" in head or head in ("its effect", "adjusted for") for head in row), row
    compared = [row for row in page.rows if len(row) == 7 and row[1] == "second" and row[3] == "first"]
    assert len(compared) == 2 * len(WITH_CURVE.interventions)
    assert all(any(mark in cell for mark in MARKS.values()) for row in compared for cell in (row[2], row[4]))


def test_a_model_only_estimate_is_marked():
    page = page_of(result(audited(effects={(EVERYONE, PALE): judged("overlap", combined=None, model=0.317)})))
    text = next(text for text in page.findings if TITLES[PALE] in text)
    assert "31.7 points more often" in text
    assert "by the model-only estimate" in text
    assert "does not include the error of the model" in text
    (row,) = (row for row in page.rows if row[0] == TITLES[PALE] and "none" in row)
    assert "+31.7 (+28.7 to +34.7), model-only" in row
    (bounds,) = (row for row in page.rows if row[0] == TITLES[PALE] and "unknown" in row)
    assert bounds.count("unknown") == 2


@pytest.mark.parametrize(
    ("value", "half", "says"),
    [
        (0.2, 0.03, "beyond 5 points"),
        (-0.2, 0.03, "beyond 5 points"),
        (0.06, 0.03, "not zero"),
        (0.02, 0.03, "no"),
    ],
)
def test_significant_says_which(value, half, says):
    found = audited(questions=ALONE, effects={(EVERYONE, PALE): judged(combined=value, half=half)})
    page = page_of(result(found, questions=ALONE))
    (row,) = (row for row in page.rows if row[0] == TITLES[PALE] and "total" in row)
    assert says in row


def test_each_number_says_which_effect_it_is():
    held = {(cohort, OLD): judged(held=["Gray_Hair"]) for cohort in (EVERYONE, COHORT)}
    found = result(audited(effects=held))
    page = page_of(found)
    for text in page.findings:
        assert ("direct effect, Gray_Hair held" in text) == (OLD in text)
        assert ("total effect" in text) == (OLD not in text)
    assert f"{TITLES[OLD]}, direct effect, Gray_Hair held" in page.text  # the table of subgroups
    assert sum("direct, Gray_Hair held" in row for row in page.rows) == 2
    assert "Direct effect" in page.text
    rows = [row for table in summary_tables(found) for row in table.rows]
    assert all(("direct, Gray_Hair held" in row.cells) == (OLD in row.name) for row in rows)
    assert all("(total effect)" in table.title for table in summary_tables(result()))


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a|b\n# c",
    "`x` **y** [z](u)",
    "$\\frac$",
    "[/red]",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_from_outside_are_text(name, capsys):
    facts = FACTS | {"model": {"source": name}, "assumed": [name], "model_scores": {"mse_x": 1.0, name: 2.0}}
    bad = judged("weak", held=[name], adjusted_for=[name])
    hostile = result(audited(name, name, effects={(EVERYONE, OLD): bad}), audited(f"{name} again", name), facts=facts)
    hostile = replace(hostile, provenance={"command": f"cfgen audit --label {name}"})
    page, harmless = page_of(hostile), page_of(result(audited(effects={(EVERYONE, OLD): judged("weak")}), audited("b")))
    assert {tag for tag, _ in page.tags} == {tag for tag, _ in harmless.tags}
    assert not any("onerror" in attributes for _, attributes in page.tags)
    assert name.split() == page.text[page.text.index("--label ") + 8 :][: len(name)].split()
    assert all(len(row) == len(after) for row, after in pairwise(page.rows) if row[0] == after[0])
    report.show(hostile)
    assert "weakly" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "says", "interval"),
    [
        (-0.12, "12.0 points less often", "-15.0 to -9.0"),
        (0.12, "12.0 points more often", "+9.0 to +15.0"),
        (-0.02, "2.0 points less often", "-5.0 to +1.0"),
        (0.0, "as often as before", "-3.0 to +3.0"),
    ],
)
def test_a_sentence_has_direction_and_interval(value, says, interval):
    one = audited(effects={(EVERYONE, PALE): judged(combined=value)})
    row = one.finding(EVERYONE, PALE)
    start, emphasis, rest = sentence(Finding(PLAN.interventions[0], one, row, row.effect, row.verdict))
    assert start == "With Black_Hair=1 and Pale_Skin=1, the classifier says “Attractive” "
    assert emphasis == says
    assert f"[95 % confidence interval {interval}]" in rest
    assert ("includes zero" in rest) == (abs(value) < 0.03)


def test_the_page_begins_with_the_subject_then_verdicts_then_next_steps():
    page = page_of(result(audited(effects={(EVERYONE, PALE): judged("weak")})))
    order = ["runs/first", "accuracy 90.0 % on the real images", "faces-modulated", "100 images of the test split"]
    order += [
        "draws it too weakly",
        "What to do about weak.",
        "The numbers",
        "Methods",
        "Unmeasured confounding",
        "--adjust",
    ]
    order += ["light, which is adjusted for", "cfgen audit --model"]
    places = [page.plain.index(part) for part in order]
    assert places == sorted(places)


def test_advice_is_given_once():
    weak = {(EVERYONE, change): judged("weak") for change in (PALE, OLD)}
    lines = list(summary_lines(result(audited(effects=weak), audited("runs/second", effects=weak))))
    assert [line for line in lines if line.startswith("next: ")] == [
        f"next: {TITLES[PALE]}, {TITLES[OLD]}: the model draws it too weakly. What to do about weak."
    ]
    one_of_two = summary_lines(result(audited(effects=weak), audited("runs/second")))
    (line,) = (line for line in one_of_two if line.startswith("next"))
    assert "(first)" in line


@pytest.mark.parametrize(
    ("several", "title"),
    [
        ([("a", "yes")], "Is the classifier biased?"),
        ([("a", "Attractive")], "Is the classifier biased about “Attractive”?"),
        ([("a", "Attractive"), ("b", "Attractive")], "Are the classifiers biased about “Attractive”?"),
        ([("a", "Attractive"), ("b", "Old")], "Are the classifiers biased?"),
    ],
)
def test_the_title_names_the_label(several, title):
    page = page_of(result(*(audited(*one) for one in several)))
    assert page.plain.startswith(title)


def test_the_truth_stands_next_to_the_estimate():
    truth = {OLD: (0.5, 0.1, 0.3)}
    near, far = (
        audited(questions=ALONE, truth=truth, effects={(EVERYONE, OLD): judged(combined=value)})
        for value in (0.48, 0.4)
    )
    page = page_of(result(near, questions=ALONE))
    (row,) = (row for row in page.rows if row[0] == TITLES[OLD] and "total" in row)
    assert row[-1] == "+50.0, inside"
    assert "inside the interval of 1 of 1 estimates" in page.plain
    assert "25.50 (unchanged image: 76.50)" in page.text
    page = page_of(result(far, questions=ALONE))
    assert "+50.0, outside" in [row[-1] for row in page.rows]
    assert "ground truth inside the confidence interval: 0 of 1" in list(summary_lines(result(far, questions=ALONE)))


def test_an_audit_without_extras_has_no_empty_parts():
    page = page_of(result(questions=ALONE))
    for part in (
        "Single images",
        "Differences between classifiers",
        "Values of",
        "Only images",
        "Contrasts",
        "All classes",
    ):
        assert part not in page.text
    assert "This audit found no problem" in page.text


def test_all_classes_are_in_a_table_and_flips_are_counted(capsys):
    found = result_of_classes()
    page = page_of(found)
    assert "returns the most probable of 2 classes (cat, dog); accuracy 90.0 % (80.0 % to 95.0 %)" in page.plain
    (head,) = (row for row in page.rows if row[0] == "class")
    assert head == ["class", *(one.title for one in ALONE.interventions)]
    (dog,) = (row for row in page.rows if row[0] == "dog")
    assert dog == ["dog", "✓ +25.0 (+22.0 to +28.0)", "! +30.0 (+27.0 to +33.0)"]
    report.show(found)
    printed = capsys.readouterr().out
    assert f"pets, {TITLES[PALE]}: 27.8 % of 90 images change their class" in printed
    assert SHORT["weak"].split()[0] in printed


def test_values_are_in_their_own_units():
    found = result_of_values()
    page = page_of(found)
    assert page.plain.startswith("What changes the network's prediction?")
    assert "0.25 units more on average [95 % confidence interval +0.22 to +0.28]" in page.plain
    assert "Flip rates" not in page.text
    assert "points" not in page.text.partition("Methods")[0]
    assert found.outcome == Value()
    (table,) = summary_tables(found)
    assert table.title == "Change of the prediction, all images (total effect)"


def test_curves_have_sections_of_their_own(whole):
    titles = [section.title for section in sections(whole)]
    assert titles == [
        "All images",
        "Values of width",
        "Only images with Smiling=1",
        "Values of width, only images with Smiling=1",
    ]
    curve = sections(whole)[1]
    assert [one.intervention.name for one in curve.findings if one.classifier is whole.first] == ["width=1", THICK]
    page = page_of(whole)
    assert "width at each of 2 values" in page.plain
