"""What an audit prints: verdicts before numbers."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from cfgen.audit.outcome import AuditResult
from cfgen.audit.results import EVERYONE, BiasRow

__all__ = ["show"]


def show(result: AuditResult) -> None:
    """Prints for each classifier and cohort the verdicts with the estimates, how classifiers differ, and the warnings."""
    several = len(result.audited) > 1
    for one in result.audited:
        for among in dict.fromkeys(row.among for row in one.findings.bias):
            rows = [row for row in one.findings.bias if row.among == among and row.n]
            show_bias(rows, f"{one.name}: {one.label}" if several else one.label)
        if one.accuracy is not None:
            number = one.findings.images
            name = f"{one.name}: " if several else ""
            print(
                f"{name}accuracy for {one.label}, against the data's own labels: {one.accuracy:.1%} of {number:,} images"
            )
        if one.findings.truths:
            print("ground truth inside the confidence interval: {} of {}".format(*one.findings.truths))
    for contrast in result.contrasts:
        low, high = contrast.estimate.interval
        print(
            f"do({contrast.change}), {contrast.classifier} minus {contrast.against}: {contrast.estimate.value:+.3f} "
            f"(95 % confidence interval {low:+.3f} to {high:+.3f}{'' if contrast.corrected else '; the model alone'})"
        )
    for warning in result.warnings:
        print(f"warning: {warning}")


def show_bias(rows: Sequence[BiasRow], label: str) -> None:
    rows = [row for row in rows if row.effect is not None]
    if not rows:
        return
    among = "" if rows[0].among == EVERYONE else f", among {rows[0].among}"
    table = Table(title=f"Bias towards {label}{among}", box=SIMPLE_HEAD, title_justify="left")
    for head in ("intervention", "verdict"):
        table.add_column(head, overflow="fold")
    for head in ("images", "bias", "95 %", "not"):
        table.add_column(head, justify="right", no_wrap=True)
    reasons = []
    for row in rows:
        effect = row.effect
        assert effect is not None
        low, high = effect.headline.interval
        alone = effect.combined is None
        sure = {"5%": "within 5 %", "0": "0", "no": ""}[effect.significant]
        verdict = f"{effect.verdict.words}{' (model alone)' if alone else ''}"
        style = "" if effect.verdict.good else "yellow"
        bias = f"{effect.headline.value:+.3f}"
        table.add_row(row.change, verdict, f"{row.n:,}", bias, f"{low:+.3f} {high:+.3f}", sure, style=style)
        if not effect.verdict.good:
            reasons.append(f"do({row.change}): {effect.verdict.words}. {effect.verdict.reason} {effect.verdict.advice}")
    Console().print(table)
    for reason in reasons:
        print(reason.strip())
