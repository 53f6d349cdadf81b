"""What was found of a data set, in sentences: the terminal and the page say the same."""

from __future__ import annotations

from cfgen.graph_check import GraphCheck, Tested

__all__ = ["EDGES", "LIMITS", "MEASURE", "OVERLAP", "check_summary", "contradiction", "p_text", "unseen_edge"]

MEASURE = (
    "Strength is from 0 (none) to 1: Spearman's rho between continuous attributes, Cramér's V between discrete ones (phi between "
    "binary ones), and eta, the correlation ratio of ranks, between one of each. It has a sign where neither is categorical."
)
LIMITS = (
    "This cannot prove a graph right: other graphs imply the same independences, arrows may point the other way, and weak "
    "dependences stay unseen. A rejected independence means that the graph lacks an edge between the two, that both have a "
    "cause which is not among the attributes, or that images were selected by something that both cause."
)
EDGES = "An edge that the data do not show is no error: its effect may be weak, or cancel out."
OVERLAP = (
    "How many test images have a value already (a continuous one: nearly), and what they are worth once they are weighted to be "
    "like the images that do not have it. An audit compares the two, and needs 50."
)


def p_text(p: float) -> str:
    """
    >>> p_text(0.0123), p_text(1e-9)
    ('p = 0.012', 'p < 0.001')
    """
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def check_summary(check: GraphCheck) -> str:
    """How many independences there are and how many are rejected."""
    if not check.independences:
        return "The graph implies no independence that could be tested on these data."
    number, rejected = len(check.independences), len(check.contradictions)
    implied = f"The graph implies {number:,} independence{'' if number == 1 else 's'} between attributes"
    tested = f"tested on {check.rows:,} training images, p-values adjusted for {number:,} tests (Holm)"
    found = f"the data reject {rejected:,} of them" if rejected else "the data reject none"
    return f"{implied}; {found} ({tested})."


def contradiction(tested: Tested) -> str:
    """What the data say where the graph says that two attributes are independent."""
    said, found = tested.statement, tested.found
    given = f", also among images with the same {' and '.join(said.given)}" if said.given else ""
    return (
        f"{said.one} and {said.other} depend on each other{given} (strength {found.strength:.2f}, "
        f"{p_text(tested.adjusted)}); the graph says they do not."
    )


def unseen_edge(tested: Tested) -> str:
    """What is said of an edge along which nothing is seen."""
    said = tested.statement
    given = f" among images with the same {' and '.join(said.given)}" if said.given else ""
    return f"{said.other} → {said.one}: no dependence is seen{given} ({p_text(tested.found.p_value)})."
