"""Does a causal graph fit its data?  The independences it implies, tested; and how strongly attributes depend on each other."""

from cfgen.graph_check.check import (
    LEVEL,
    GraphCheck,
    Statement,
    Tested,
    association,
    check_graph,
    implied_independences,
    measure_name,
)
from cfgen.graph_check.dependence import Dependence

__all__ = [
    "LEVEL",
    "Dependence",
    "GraphCheck",
    "Statement",
    "Tested",
    "association",
    "check_graph",
    "implied_independences",
    "measure_name",
]
