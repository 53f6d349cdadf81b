"""The words and the looks of an audit's report."""

from __future__ import annotations

import math
from html import escape

from cfgen.audit.results import BiasRow

__all__ = ["CAVEATS", "FINDING_RULE", "STYLE", "finding", "share", "signed"]

FINDING_RULE = (
    "A point is one image in a hundred. The interval of a bias is a bootstrap interval: of samples drawn again from these "
    "images, 95 in 100 give a value inside; where no answer changed, it is what so many unchanged answers leave possible. Five "
    "points is the size above which the method's authors call a bias significant; it is a convention."
)
CAVEATS = (
    "<b>They can say</b> how this classifier's answer changes when these images are changed in the named attributes and in "
    "what the causal graph makes follow from them, everything else about the image being kept.",
    "<b>They depend on the generator.</b> Where it draws an attribute too faintly, a bias looks smaller than it is; where it "
    "changes something else along with the attribute, the classifier's reaction to that is counted too. The comparison is with "
    "base images, which the generator made too (or whose losses it was given back), so that only the intervention differs. "
    "Read the bias beside the generator's own error.",
    "<b>They depend on the graph.</b> It was assumed, not discovered. With another graph an intervention means something else.",
    "<b>The interval covers the choice of images only</b>, not the errors of generator, graph or attribute labels. With many "
    "interventions, one in twenty intervals misses by chance.",
    "<b>No bias found is not fairness.</b> Changes to yes and to no can cancel (both are shown), a bias may lie among images "
    "of one kind only (--among looks there), and attributes that were not asked about were not looked at.",
    "<b>They do not say</b> what would happen to other images than these, why the classifier does it, whether it is lawful, or "
    "what is true of people: attributes are annotators' judgements of pictures.",
)
STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1c; --paper: #fff; --soft: #666; --line: #ddd; --mark: #fff3d6; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e8; --paper: #16181b; --soft: #a0a0a0; --line: #3a3d42; --mark: #3d3416; } }
body { margin: 0; background: var(--paper); color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.25rem; margin-top: 2.2rem; } h3 { font-size: 1rem; }
.findings li { margin: .5rem 0; } .findings strong { font-weight: 650; }
.warning { background: var(--mark); border-left: 4px solid #d09a20; padding: .6rem .8rem; }
.small { font-size: .85rem; color: var(--soft); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .88rem; margin: .6rem 0; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { padding: .3rem .45rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child { text-align: left; font-weight: inherit; white-space: normal; } thead th { white-space: normal; }
.significant { font-weight: 700; } .baseline { color: var(--soft); }
figure { margin: 1rem 0; } img { max-width: 100%; height: auto; background: #fff; border-radius: 4px; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; border: 1px solid var(--line); padding: .7rem; font-size: .85rem; }
@media print {
  :root { --ink: #000; --paper: #fff; --soft: #444; --line: #bbb; --mark: #f4f4f4; } main { max-width: none; padding: 0; }
  section, figure, tr { break-inside: avoid; } section { break-inside: auto; } .scroll { overflow: visible; }
  table { font-size: .72rem; } th, td { padding: .2rem .3rem; white-space: normal; } }
"""


def share(value: float) -> str:
    return "n/a" if math.isnan(value) else f"{100 * value:.1f} %"


def signed(value: float) -> str:
    return "n/a" if math.isnan(value) else f"{value:+.3f}"


def finding(row: BiasRow, label: str) -> str:
    """One sentence or two for those who read nothing else."""
    start = f"With {escape(' and '.join(row.change.split(',')))}, the classifier"
    if row.values["flipped"] == 0:
        same = f"<strong>gives the same answer</strong> for all {row.n:,} images"
        return f"{start} {same} [95 %: fewer than {share(row.values['flipped/high'])} change]."
    low, high = (f"{100 * row.values[key]:+.1f}" for key in ("bias/low", "bias/high"))
    unsure = " The interval includes no difference." if row.values["bias/low"] <= 0 <= row.values["bias/high"] else ""
    flipped, to_yes = share(row.values["flipped"]), share(row.values["up_given_flip"])
    turned = f" {flipped} of {row.n:,} answers changed, {to_yes} of these from no to yes."
    said = f"says “{escape(label)}” {how_often(row.values['bias'])}"
    return f"{start} <strong>{said}</strong> [95 %: {low} to {high}].{unsure}{turned}"


def how_often(bias: float) -> str:
    if bias == 0:
        return "as often as before"
    return f"{100 * abs(bias):.1f} points {'more' if bias > 0 else 'less'} often"
