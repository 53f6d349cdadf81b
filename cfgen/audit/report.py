"""An audit as one HTML page: opens offline, on a phone, in the dark and on paper; findings first, reproduction last."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from cfgen.audit.label import ANY
from cfgen.audit.quality import quality_rows, warnings
from cfgen.audit.results import EVERYONE, BiasRow, Findings
from cfgen.audit.run import Plan
from cfgen.audit.text import CAVEATS, FINDING_RULE, STYLE, finding, share, signed

__all__ = ["DPI", "Picture", "Report", "report_html"]

DPI = 130  # of the figures


@dataclass(frozen=True)
class Picture:
    """A figure by its name in the report, with its file beside it."""

    name: str
    file: str
    png: bytes


@dataclass(frozen=True)
class Report:
    """All that the page shows."""

    found: Findings
    plan: Plan
    facts: Mapping[str, Any]
    label: str
    threshold: float
    pictures: Sequence[Picture]

    def picture(self, name: str, description: str) -> str:
        """A figure as part of the page, described for those who cannot see it; empty where there is none."""
        for picture in self.pictures:
            if picture.name == name:
                data = base64.b64encode(picture.png).decode()
                text = escape(description, quote=True)
                # the width that a PNG states, at the size its letters are meant to have
                width = round(int.from_bytes(picture.png[16:20], "big") * 96 / DPI)
                return f'<figure><img alt="{text}" width="{width}" src="data:image/png;base64,{data}"></figure>'
        return ""


def report_html(report: Report) -> str:
    title = "Is the classifier biased" + ("?" if report.label == ANY else f" about “{report.label}”?")
    sections = {
        "What was found": findings_section(report),
        "Bias": bias_section(report),
        "Every image before and after": scatter_section(report),
        "What the answer depends on": ranking_section(report),
        "Answers that changed": examples_section(report),
        "How good the images are": generator_section(report),
        "What these numbers can and cannot say": "".join(f"<p>{text}</p>" for text in CAVEATS),
        "The causal graph": graph_section(report),
        "To repeat this": facts_section(report),
    }
    body = "".join(f"<section><h2>{escape(head)}</h2>{text}</section>" for head, text in sections.items() if text)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>"
        f"<body><main><h1>{escape(title)}</h1>{body}</main></body></html>\n"
    )


def findings_section(report: Report) -> str:
    text = ""
    for among in cohorts(report):
        rows = [row for row in report.found.bias if row.do and row.n and row.among == among]
        rows.sort(key=lambda row: -abs(row.values["bias"]))
        head = "" if among == EVERYONE else f"<h3>{escape(named(among))}</h3>"
        text += head + f"<ul class=findings>{''.join(f'<li>{finding(row, report.label)}</li>' for row in rows)}</ul>"
    said = "".join(f"<p class=warning>Be careful: {escape(one)}</p>" for one in warnings(report.found, report.plan))
    return text + said + f"<p>{FINDING_RULE}</p>"


def cohorts(report: Report) -> list[str]:
    return list(dict.fromkeys(row.among for row in report.found.bias))


def named(among: str) -> str:
    return "All images" if among == EVERYONE else f"Only images with {' and '.join(among.split(','))}"


def base_images(plan: Plan) -> str:
    if plan.keep_residual:
        return "the images themselves: what the generator's reconstruction loses is added to every image it makes"
    return "the generator's reconstructions"


def bias_section(report: Report) -> str:
    label = escape(report.label)
    text = (
        f"<p>The classifier says “{label}” where its probability is above {report.threshold:g}. Each line compares its answer "
        f"for base images ({base_images(report.plan)}) with its answer for the same images changed in one way. Bias is the "
        "share of answers that turned to yes minus the share that turned to no: from -1 to 1. Equal shares cancel, so both "
        "stand beside it.</p>"
    )
    if not math.isnan(report.found.accuracy):
        text += (
            f"<p>For the images themselves, {share(report.found.accuracy)} of its answers are the data's own label.</p>"
        )
    for among in cohorts(report):
        text += bias_table(escape(named(among)), [row for row in report.found.bias if row.among == among and row.n])
    text += (
        "<p class=small>Bold: more than 5 points either way. Grey: transformations that intervene on nothing, for comparison; "
        "they are applied to the base images.</p>"
    )
    if any(not math.isnan(row.seen) for row in report.found.bias):
        text += (
            "<p>Seen as asked: the share of the images made in which a reader, a network trained on real images alone, sees what "
            "was asked for; beside it, the share of the real images that have it in which it sees it. Where the first is much "
            "lower, the generator draws the attribute too faintly, and the bias may be larger than it looks.</p>"
        )
    if report.found.truths:
        inside, known = report.found.truths
        text += (
            "<p>This data is drawn from a known model, so the true counterfactual images are known. The true bias is that of "
            f"the classifier on the true images; among all images, {inside} of {known} true values lie within their "
            "estimate's interval.</p>"
        )
    return text


def bias_table(caption: str, rows: Sequence[BiasRow]) -> str:
    known = any(row.truth for row in rows)
    read = any(not math.isnan(row.seen) for row in rows)
    heads = [
        "change",
        "images",
        "changed answers",
        "no → yes",
        "yes → no",
        "of changed, to yes",
        "bias",
        "95 % interval",
    ]
    heads += ["true bias", "in the interval"] if known else []
    heads += ["seen as asked", "seen in real images"] if read else []
    lines = ""
    for row in rows:
        v = row.values
        cells = [f"{row.n:,}", *(share(v[key]) for key in ("flipped", "up", "down", "up_given_flip"))]
        cells += [signed(v["bias"]), f"{signed(v['bias/low'])} to {signed(v['bias/high'])}"]
        if known:
            within = {None: "", True: "yes", False: "no"}[row.truth_within]
            cells += [signed(row.truth["bias"]) if row.truth else "", within]
        if read:
            cells += [share(row.seen), share(row.seen_floor)] if row.do else ["", ""]
        name = f"do({row.change})" if row.do else row.change
        kind = " ".join((["significant"] if v["significant"] else []) + ([] if row.do else ["baseline"]))
        head = f'<th scope="row">{escape(name.replace(",", ", "))}</th>'
        lines += f"<tr class='{kind}'>{head}{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    columns = "".join(f'<th scope="col">{head}</th>' for head in heads)
    return (
        f'<div class=scroll tabindex=0 role=region aria-label="{caption}"><table><caption>{caption}</caption>'
        f"<thead><tr>{columns}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


def scatter_section(report: Report) -> str:
    text = (
        "<p>Each point is a pair: the classifier's probability for the base image (across) and for the changed image (up). "
        "Points on the diagonal did not change. Top left: turned to yes. Bottom right: turned to no.</p>"
    )
    rows = {row.change: row.values for row in report.found.bias if row.among == EVERYONE}
    told = "; ".join(f"{name}: {share(v['up'])} to yes, {share(v['down'])} to no" for name, v in rows.items())
    counterfactual = report.picture("fairness_do", f"Scatter plots of probabilities under each intervention. {told}.")
    return text + counterfactual + report.picture("fairness_affine", "The same for a mirrored and a brightened image.")


def ranking_section(report: Report) -> str:
    found = report.found.importance
    if not found:
        return ""
    told = ", ".join(f"{one.attribute} {signed(one.score)}" for one in found)
    lines = "".join(
        f'<tr><th scope="row">{escape(one.attribute)}</th><td>{signed(one.score)}</td>'
        f"<td>{signed(one.low)} to {signed(one.high)}</td><td>{one.n:,}</td></tr>"
        for one in found
    )
    return (
        f"<p>For each image, the probability of “{escape(report.label)}” with the attribute minus that without it, all else "
        f"being what the causal graph makes of it; the mean over the first {max(one.n for one in found):,} images.</p>"
        + report.picture("ranking", f"Attributes by importance: {told}")
        + "<div class=scroll tabindex=0><table><caption>All attributes</caption><thead><tr>"
        '<th scope="col">attribute</th><th scope="col">importance</th><th scope="col">95 % interval</th>'
        f'<th scope="col">images</th></tr></thead><tbody>{lines}</tbody></table></div>'
    )


def examples_section(report: Report) -> str:
    text = ""
    for name in report.plan.do:
        for way, turned in (("up", "to yes"), ("down", "to no")):
            told = f"Images whose answer turned {turned} under do({name}): real, base and counterfactual"
            if picture := report.picture(f"flipped/{way}/{name}", told):
                text += f"<h3>do({escape(name.replace(',', ', '))}): turned {turned}</h3>{picture}"
    said = f"Drawn at random among those that changed. Under each image, the probability of “{escape(report.label)}”."
    return f"<p>{said}</p>{text}" if text else "<p>No answer changed under any intervention.</p>"


def generator_section(report: Report) -> str:
    reader = bool(report.facts.get("reader"))
    lines = quality_rows(report.found, report.plan, report.facts.get("generator_scores") or {}, reader)
    rows = "".join(f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>' for name, value in lines)
    return (
        "<p>The audit sees the classifier through the generator's images. What the generator draws wrongly enters the numbers "
        "above, and no interval accounts for it.</p>"
        f"<div class=scroll tabindex=0><table><tbody>{rows}</tbody></table></div>"
    )


def graph_section(report: Report) -> str:
    edges = report.facts["generator"]["graph"]
    told = "; ".join(f"{cause} causes {effect}" for cause, effect in edges) or "no attribute causes another"
    return (
        "<p>What an intervention changes beside itself follows from this graph: what it points at, directly or not, may change "
        f"too, and all attributes show in the image x. Here: {escape(told)}.</p>"
        + report.picture("graph", f"Causal graph: {told}; every attribute causes the image")
    )


def facts_section(report: Report) -> str:
    facts = {key: value for key, value in report.facts.items() if key not in ("command", "generator_scores")}
    shown = json.dumps(facts, indent=1, default=str)
    tables = "bias.csv, importance.csv" if report.found.importance else "bias.csv"
    return (
        f"<pre>{escape(report.facts['command'])}</pre><pre>{escape(shown)}</pre>"
        f"<p class=small>Beside this page: {tables}, audit.json and the figures.</p>"
    )
