"""The audit's report: whole, offline, accessible, the same on the page and in Markdown, and no number without its verdict."""

import re
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from cfgen.audit.report.console import console_lines, console_tables
from cfgen.audit.report.forest import badge, groups, scale_of, strip
from cfgen.audit.report.page import report_html, report_markdown
from cfgen.audit.report.text import ALONE, MARKS, SHORT, do_title, finding, marked, points
from cfgen.audit.results import EVERYONE
from cfgen.audit.verdict import VERDICTS
from tests.audit.found import COHORT, FACTS, OLD, PALE, PLAN, WITH_CURVE, N, audited, effect, result, without_pictures
from tests.audit.report_reader import both, markdown_rows, read

BAD = [code for code in VERDICTS if code != "agrees"]


@pytest.fixture(scope="module")
def whole():
    """Two classifiers, cohorts, subgroups, a curve, strengths and a single image, with figures."""
    second = audited("runs/second", plan=WITH_CURVE, effects={(EVERYONE, OLD): effect("weak", combined=-0.11)})
    return result(audited(plan=WITH_CURVE), second, plan=WITH_CURVE)


def test_the_page_stands_alone_and_is_accessible(whole):
    text = report_html(whole)
    reader = read(text)
    images = [attributes for tag, attributes in reader.tags if tag == "img"]
    shown = set(whole.pictures) - {"estimates"}  # which the page draws itself
    assert len(images) == len(shown)
    assert all(image["src"].startswith("data:image/png;base64,") and len(image["alt"]) > 20 for image in images)
    drawn = [attributes for tag, attributes in reader.tags if tag == "svg"]
    assert all(one.get("aria-hidden") or (one["role"] == "img" and len(one["aria-label"]) > 20) for one in drawn)
    assert not any("href" in attributes or tag in ("script", "link", "iframe") for tag, attributes in reader.tags)
    for outside in ("http", "@import", "url(", "//"):
        assert outside not in re.sub('base64,[^"]*', "", text)
    assert ("html", {"lang": "en"}) in reader.tags
    assert any(attributes.get("name") == "viewport" for _, attributes in reader.tags)
    assert [tag for tag, _ in reader.tags].count("h1") == 1
    for wanted in ("prefers-color-scheme: dark", "@media print", "max-width: 44rem"):
        assert wanted in text


def test_markdown_names_files_that_are_there(whole):
    named = re.findall(r"^!\[.*\]\((.*)\)$", report_markdown(whole), flags=re.MULTILINE)
    assert {name.replace("%3D", "=").replace("%2B", "+") for name in named} == {
        f"{name}.png" for name in whole.pictures
    }


def test_both_forms_have_the_same_tables_and_sentences(whole):
    page, text = read(report_html(whole)), report_markdown(whole)
    assert page.rows == markdown_rows(text)
    assert len(page.rows) > 60
    plain = " ".join(page.text.split())
    for one in whole.audited:
        for row in one.findings.bias:
            if row.effect is not None and row.change not in WITH_CURVE.curves["width"]:
                sentence = finding(row, one.label)
                for part in (sentence.emphasis, sentence.rest):
                    assert " ".join(part.split()) in plain
                    assert part.replace("[", r"\[").replace("]", r"\]") in text


@pytest.mark.parametrize("code", BAD)
@pytest.mark.parametrize("alone", [False, True])
def test_a_bad_verdict_stands_beside_each_of_its_numbers(code, alone):
    bad = effect(code, combined=None if alone else 0.172, model=0.134)
    effects = {(among, PALE): bad for among in (EVERYONE, COHORT)}
    found = result(audited(plan=WITH_CURVE, effects=effects), plan=WITH_CURVE)
    page, text = both(found)
    title, number = do_title(PALE), points(bad.headline.value)
    blocks = [block for block in page.blocks if title in block]
    assert len(blocks) == 2  # all images, and the cohort
    assert all(badge(code).mark in block and badge(code).words in block for block in blocks)
    # Smiling is adjusted for: no number of bias
    rows = [row for row in page.rows if row[0] == title and row[1] != "Smiling"]
    assert len(rows) == 5  # bias and flips of all images and of the cohort, and strengths
    rows += [row for row in page.rows if row[0].startswith("Smiling=") and any(number in cell for cell in row)]
    assert len(rows) == 7
    assert all(marked(code) in row for row in rows)
    lines = [
        line for line in text.splitlines() if number in line or (title in line and re.search(r"[+-]\d+\.\d", line))
    ]
    assert len(lines) >= 5
    assert all(SHORT[code] in line or badge(code).words in line for line in lines)
    printed = [row for table in console_tables(found) for row in table.rows if row.change == PALE]
    assert len(printed) == 2
    assert all((row.verdict, row.good) == (marked(code), False) for row in printed)


def test_every_line_with_a_bias_says_its_verdict(whole):
    """No table has a column of biases without one of verdicts."""
    page = read(report_html(whole))
    heads = [row for row in page.rows if row[0] in ("intervention", "subgroup", "attribute")]
    for row in heads:
        assert any("verdict" in head or head == "its bias" or head == "adjusted for" for head in row), row
    compared = [row for row in page.rows if len(row) == 8 and row[1] == "second" and row[3] == "first"]
    assert len(compared) == 2 * len(WITH_CURVE.do)
    assert all(any(mark in cell for mark in MARKS.values()) for row in compared for cell in (row[2], row[4]))


def test_the_models_word_is_marked_as_such():
    page, text = both(result(audited(effects={(EVERYONE, PALE): effect("overlap", combined=None, model=0.317)})))
    block = next(block for block in page.blocks if do_title(PALE) in block)
    assert "+31.7" in block
    assert ALONE in block
    assert "not of the model's error" in block
    (line,) = (line for line in text.splitlines() if line.startswith(f"- **{do_title(PALE)}**: ? Not enough"))
    assert ALONE in line
    (row,) = (row for row in page.rows if row[0] == do_title(PALE) and "none" in row)
    assert "beyond 5 points, model alone" in row
    assert "cannot say" in row
    (flips,) = (row for row in page.rows if row[0] == do_title(PALE) and "not known" in row)
    assert flips.count("not known") == 2  # nothing to bound flips by
    parts = strip(groups(result(audited(effects={(EVERYONE, PALE): effect("overlap", combined=None)})))[0].asked[1].answers[0],
                  scale_of([]))  # fmt: skip
    assert parts.combined is None


@pytest.mark.parametrize(
    ("value", "half", "says"),
    [
        (0.2, 0.03, "beyond 5 points"),
        (-0.2, 0.03, "beyond 5 points"),
        (0.06, 0.03, "not zero"),
        (0.02, 0.03, "neither"),
    ],
)
def test_significant_says_which(value, half, says):
    page, text = both(result(audited(effects={(EVERYONE, PALE): effect(combined=value, half=half)}, cohorts=False)))
    (row,) = (row for row in page.rows if row[0] == do_title(PALE) and "total" in row)
    assert says in row
    assert f"| {says} |" in text


def test_which_effect_a_number_is_stands_with_it():
    held = {(among, OLD): effect(held=["Gray_Hair"]) for among in (EVERYONE, COHORT)}
    found = result(audited(effects=held))
    page, text = both(found)
    for block in page.blocks:
        assert ("direct effect, Gray_Hair held" in block) == (OLD in block)
        assert ("total effect" in block) == (OLD not in block)
    assert f"{do_title(OLD)}, direct effect, Gray_Hair held" in page.text  # of subgroups
    assert sum("direct, Gray_Hair held" in row for row in page.rows) == 2
    assert "Direct effect" in page.text
    assert "(direct effect, Gray_Hair held)" in text
    rows = [row for table in console_tables(found) for row in table.rows]
    assert all(("direct" in row.change) == (OLD in row.change) for row in rows)


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a|b\n# c",
    "`x` **y** [z](http:z)",
    "$\\frac$",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_what_comes_from_outside_is_text(name):
    facts = FACTS | {"options": {"model": name}, "assumed": [name], "model_scores": {"mse_x": 1.0, name: 2.0}}
    hostile = result(
        audited(name, name, effects={(EVERYONE, OLD): replace(effect("weak"), held=[name], adjusted=[name])}),
        audited(f"{name} again", name), facts=facts, command=f"cfgen audit --label {name}",
    )  # fmt: skip
    page, text = both(hostile)
    harmless, _ = both(result(audited(), audited("b")))
    assert {tag for tag, _ in page.tags} == {tag for tag, _ in harmless.tags}
    assert not any("onerror" in attributes for _, attributes in page.tags)
    body = text[: text.index("\n## To repeat this")]
    assert "<" not in body
    assert not re.search(r"(?<!\\)`|(?<!\\)\]\(http", body)
    assert all(len(row) == len(one) for row, one in pairwise(page.rows) if row[0] == one[0])
    heads = [line for line in body.splitlines() if line.startswith("# ")]
    assert len(heads) == 1
    tables = [len(re.split(r"(?<!\\)\|", line)) for line in body.splitlines() if line.startswith("|")]
    assert len(tables) == len(page.rows) + sum(row[0] in HEADS for row in page.rows)


HEADS = ("intervention", "subgroup", "attribute", "transformation", "measure")


def test_a_block_of_code_ends_where_it_should():
    _, text = both(result(command="cfgen audit --label '\n```\n# not a title'"))
    fences = [line for line in text.splitlines() if line.startswith("````")]
    assert len(fences) == 2


@pytest.mark.parametrize(
    ("value", "says", "interval"),
    [
        (-0.12, "12.0 points less often", "9.0 to 15.0"),
        (0.12, "12.0 points more often", "9.0 to 15.0"),
        (-0.02, "2.0 points less often", "5.0 less to 1.0 more"),
        (0.0, "as often as before", "3.0 less to 3.0 more"),
    ],
)
def test_direction_and_doubt_are_said(value, says, interval):
    row = next(row for row in audited(effects={(EVERYONE, PALE): effect(combined=value)}).findings.bias if row.effect)
    sentence = finding(row, "A")
    assert sentence.emphasis == f"says “A” {says}"
    assert f"[95 % confidence interval {interval}]" in sentence.rest
    assert ("includes zero" in sentence.rest) == (abs(value) < 0.03)
    assert str(sentence).startswith(VERDICTS["agrees"].capitalize())


def test_what_is_drawn_is_what_is_written(whole):
    drawn = groups(whole)
    scale = scale_of(drawn)
    number = 0
    for group in drawn:
        for asked in group.asked:
            for answered in asked.answers:
                found = strip(answered, scale)
                for span, given in (
                    (found.combined, answered.effect.combined),
                    (found.model, answered.effect.generator),
                ):
                    back = [scale.low + place / 100 * (scale.high - scale.low) for place in span]
                    assert back == pytest.approx([given.value, *given.interval], abs=1e-4)
                    assert all(0 <= place <= 100 for place in span)
                number += 1
    page = report_html(whole)
    assert page.count('<circle class="combined" cx="') == number + 1  # and the key
    assert page.count('<circle class="model" cx="') == number + 1


def test_first_comes_what_was_asked_then_verdicts_and_what_to_do():
    found = result(audited(effects={(EVERYONE, PALE): effect("weak")}))
    page, text = both(found)
    for shown in (" ".join(page.text.split()), text):
        order = [
            "runs/first",
            "faces-modulated",
            "100 images of the test split",
            "draws it too weakly",
            "What to do about weak.",
        ]
        order += ["The numbers", "Methods", "Hidden causes", "--adjust", "cfgen audit --model"]
        places = [shown.index(part) for part in order]
        assert places == sorted(places)
        assert "90.0 % of the images themselves" in shown


def test_a_step_is_said_once_and_of_whom_it_is():
    weak = {(EVERYONE, change): effect("weak") for change in (PALE, OLD)}
    of_both = console_lines(result(audited(effects=weak), audited("runs/second", effects=weak)))
    assert [line for line in of_both if line.startswith("next: ")] == [
        f"next: {do_title(PALE)}, {do_title(OLD)}: the model draws it too weakly. What to do about weak."
    ]
    (line,) = (line for line in console_lines(result(audited(effects=weak), audited("runs/second"))) if "next" in line)
    assert "(first)" in line


def test_no_word_for_yes_makes_no_empty_title():
    assert "<h1>Is the classifier biased?</h1>" in report_html(without_pictures(result(audited(label="yes"))))
    page, _ = both(result(audited(), audited("runs/second")))
    assert "Are the classifiers biased about “Attractive”?" in page.text


def test_the_truth_stands_beside_the_estimate():
    real = torch.where(torch.arange(N) < 50, 0.8, 0.2)
    more = {f"true/{OLD}": real * 0 + 0.9, f"error/{OLD}": real * 0 + 0.1, f"untouched/{OLD}": real * 0 + 0.3}
    effects = {(EVERYONE, OLD): effect(combined=0.48)}
    found = result(audited(more=more, effects=effects, cohorts=False))
    page, _ = both(found)
    (row,) = (row for row in page.rows if row[0] == do_title(OLD) and "total" in row)
    assert row[-1] == "+50.0, inside"
    assert "inside the interval of 1 of 1 headline estimates" in " ".join(page.text.split())
    far = {(EVERYONE, OLD): effect(combined=0.40)}
    page, _ = both(result(audited(more=more, effects=far, cohorts=False)))
    assert "+50.0, outside" in [row[-1] for row in page.rows]
    assert "25.50 (unchanged image: 76.50)" in page.text


def test_numbers_of_strengths_are_model_based(whole):
    page = read(report_html(whole))
    rows = [row for row in page.rows if row[0] == do_title(PALE) and "+20.7, model-based" in row]
    assert len(rows) == 2  # of either classifier
    assert any(row[0] == "intervention" and "bias at 50.0 % of the way" in row for row in page.rows)


def test_an_audit_of_a_plan_without_extras_has_no_empty_parts():
    page, text = both(result(local={}, plan=PLAN))
    for part in ("Single images", "Classifiers compared", "Bias at several strengths", "Values of"):
        assert part not in page.text
        assert part not in text
