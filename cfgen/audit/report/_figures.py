"""The list of a report's figures, each with its file name and a description for readers who cannot see it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from cfgen.audit._findings import ClassifierResult
from cfgen.audit._illustrate import Pictures
from cfgen.audit._transformations import AFFINE
from cfgen.audit.answers import TRANSFORMED, Picture
from cfgen.audit.questions import EVERYONE
from cfgen.audit.report import _plots as plots
from cfgen.audit.report._intervals import curve_plot, forest_plot
from cfgen.audit.report._sections import cohort_title, few_classes, sections
from cfgen.audit.report._words import SHORT, short_names
from cfgen.audit.result import AuditResult
from cfgen.effects import YesNo
from cfgen.figures import answers
from cfgen.reporting.numbers import share

ESTIMATES = "Forest plot of all estimates with their intervals and verdicts. The findings below have the same numbers."


class ReportFigure(NamedTuple):
    """A figure: the part of the page that shows it, its file name without `.png`, and its description.

    `title` and `verdict` (its code) stand above it, `classifier` above all figures of one classifier where there are several.
    """

    part: str
    name: str
    figure: Figure
    description: str
    title: str = ""
    verdict: str = ""
    classifier: str = ""


def report_figures(result: AuditResult, pictures: Pictures) -> list[ReportFigure]:
    """All figures; the names of those of a second classifier end in `_2`, and so on."""
    shown = few_classes(sections(result))
    figures = [ReportFigure("estimates", "estimates", forest_plot(result, shown), ESTIMATES)]
    figures += curve_figures(result)
    for number, one in enumerate(result.detailed, start=1):
        figures += classifier_figures(result, one, number)
        figures += examples(result, one, number, pictures)
    figures += local_figures(result, pictures)
    figures += matrix_figures(result)
    edges = "; ".join(f"{cause} causes {effect}" for cause, effect in result.questions.graph.edges)
    text = f"Causal graph: {edges or 'no attribute causes another'}; every attribute causes the image"
    return [*figures, ReportFigure("graph", "causal_graph", result.questions.graph.draw(), text)]


def figure_name(kind: str, name: str, number: int = 1) -> str:
    """The name of a figure of the classifier of that number, safe as a file name.

    >>> figure_name("curve", "line width/px"), figure_name("fairness_do", "", 2)
    ('curve_line+width+px', 'fairness_do_2')
    """
    safe = "".join(letter if (letter.isascii() and letter.isalnum()) or letter in "_=.-" else "+" for letter in name)
    return "_".join([kind, *([safe] if safe else []), *([str(number)] if number > 1 else [])])


def curve_figures(result: AuditResult) -> Iterator[ReportFigure]:
    for section in sections(result):
        if section.curve and section.cohort == EVERYONE:
            text = f"Effect over the values of {section.curve}. The findings below have the same numbers."
            name = figure_name("curve", section.curve)
            yield ReportFigure("curves", name, curve_plot(result, section), text, section.curve)


def classifier_figures(result: AuditResult, one: ClassifierResult, number: int) -> Iterator[ReportFigure]:
    """Fig. 6 of interventions and of transformations, and Fig. 7."""
    who = f" ({short_names(result)[one.name]})" if len(result.classifiers) > 1 else ""
    threshold = one.outcome.threshold if isinstance(one.outcome, YesNo) else None
    if one.outcome.flips:
        text = f"Scatter plots of probabilities before and after each intervention{who}. The table above has the flip rates."
        figure = answers.fairness_scatter(intervention_panels(result, one), threshold, one.label)
        yield ReportFigure("scatter", figure_name("fairness_do", "", number), figure, text)
    if one.outcome.flips and (panels := transformation_panels(result, one)):
        text = f"Scatter plots of probabilities before and after {' and '.join(p.title for p in panels)}{who}."
        figure = answers.fairness_scatter(panels, threshold, one.label)
        yield ReportFigure("transformations", figure_name("fairness_affine", "", number), figure, text)
    if one.importance:
        text = f"Bar chart of the attributes with the largest importance{who}. The table below has all numbers."
        figure = answers.attribute_ranking(one.importance, label=one.label, outcome=one.outcome)
        yield ReportFigure("ranking", figure_name("attribute_ranking", "", number), figure, text)


def intervention_panels(result: AuditResult, one: ClassifierResult) -> list[answers.ScatterPanel]:
    """Those of curves are left out where there are others; a bad verdict is part of the title."""
    questions = result.questions
    chosen = [each for each in questions.interventions if each.name not in questions.in_curves]
    panels = []
    for intervention in chosen or questions.interventions:
        row = one.finding(EVERYONE, intervention.name)
        bad = f"\n({SHORT[row.verdict.code]})" if row and row.verdict and not row.verdict.good else ""
        title = intervention.title.replace(", ", ",\n") + bad
        panels.append(panel(result, one, title, *questions.compared(intervention)))
    return panels


def transformation_panels(result: AuditResult, one: ClassifierResult) -> list[answers.ScatterPanel]:
    base = result.questions.base_picture(result.questions.models[0])
    changed = {
        name: picture for name in AFFINE if (one.classifier, picture := Picture(TRANSFORMED, name)) in result.answers
    }
    return [panel(result, one, name.replace("_", " "), base, picture) for name, picture in changed.items()]


def panel(result: AuditResult, one: ClassifierResult, title: str, *pair: Picture) -> answers.ScatterPanel:
    """A classifier's answers to two pictures of each image."""
    column = one.outcome.columns.index(one.class_name)
    before, after = (result.answers[one.classifier, picture].astype(np.float64) for picture in pair)
    yes = [one.outcome.answers(raw, one.class_name) for raw in (before, after)]
    return answers.ScatterPanel(title, before[:, column], after[:, column], *yes)


def examples(result: AuditResult, one: ClassifierResult, number: int, pictures: Pictures) -> Iterator[ReportFigure]:
    """Images whose answer flips, each with the verdict on its intervention."""
    for each in pictures.flips:
        row = one.finding(EVERYONE, each.intervention)
        if each.classifier != one.name or row is None or row.verdict is None:
            continue
        what = f"flips to {'yes' if each.direction == 'up' else 'no'}"
        title = result.questions.intervention(each.intervention).title
        text = f"Images whose answer {what} under {title}: real, {' and '.join(each.compared)}"
        name = figure_name(f"flipped_{each.direction}", each.intervention, number)
        who = short_names(result)[one.name] if len(result.classifiers) > 1 else ""
        figure = plots.flip_examples(each)
        yield ReportFigure("examples", name, figure, text, f"{title} {what}", row.verdict.code, who)


def local_figures(result: AuditResult, pictures: Pictures) -> Iterator[ReportFigure]:
    names = short_names(result)
    for number, image in pictures.local.items():
        texts = []
        for one in result.detailed:
            scores = [f"{line.attribute} {one.outcome.text(line.score)}" for line in one.local if line.image == number]
            texts.append(f"{names[one.name]}: {', '.join(scores)}")
        text = f"Image {number}, and how many {result.outcome.unit} each attribute adds, model-only. {'; '.join(texts)}"
        figure = plots.local_explanation(image, number, {names[one.name]: one for one in result.detailed})
        yield ReportFigure("local", figure_name("local", str(number)), figure, text)


def matrix_figures(result: AuditResult) -> Iterator[ReportFigure]:
    """The flip matrices of all images, the intervention that flips most first."""
    for number, one in enumerate(result.classes, start=1):
        mine = [matrix for matrix in one.matrices if matrix.cohort == EVERYONE and matrix.n]
        for matrix in sorted(mine, key=lambda matrix: -matrix.flipped):
            title = result.questions.intervention(matrix.change).title
            figure = answers.flip_matrix(
                matrix.classes, matrix.counts, f"{title}, {cohort_title(matrix.cohort).lower()}"
            )
            text = f"Flip matrix under {title}: {share(matrix.flipped)} of {matrix.n:,} images change their class"
            yield ReportFigure("matrices", figure_name("matrix", matrix.change, number), figure, text)
