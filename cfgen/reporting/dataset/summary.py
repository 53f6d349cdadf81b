"""What is in a data set, as numbers and text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cfgen.attributes import Schema
from cfgen.graph_check import Dependence, GraphCheck, measure_name
from cfgen.reporting.dataset.overlap import Overlap
from cfgen.scm.graph import CausalGraph

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DataSummary"]


@dataclass(frozen=True)
class DataSummary:
    """What is in a data set.  Attributes, associations and the graph check are of the training split; overlap is of the test
    split, whose images audits compare."""

    title: str
    about: str
    image_shape: tuple[int, ...]
    splits: dict[str, int]
    attributes: list[dict[str, Any]]
    schema: Schema
    associations: dict[tuple[str, str], Dependence]
    graph: CausalGraph
    check: GraphCheck
    overlap: list[Overlap]
    findings: list[str]
    description: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "about": self.about,
            "image_shape": list(self.image_shape),
            "splits": self.splits,
            "attributes": self.attributes,
            "associations": self.association_records(),
            "edges": [list(edge) for edge in self.graph.edges],
            "graph_check": self.check.to_dict(),
            "overlap": [one.to_dict() for one in self.overlap],
            "findings": self.findings,
        }

    def to_frame(self) -> pd.DataFrame:
        """A row for each attribute: its kind, unit, and the lowest, highest and mean value and spread in the training split."""
        import pandas as pd

        return pd.DataFrame(self.attributes).set_index("attribute")

    def association_records(self) -> list[dict[str, Any]]:
        """A record for each pair of attributes that can be compared, the strongest first."""
        records = [
            {
                "one": one,
                "other": other,
                "measure": measure_name(self.schema, one, other),
                "strength": found.strength,
                "p_value": found.p_value,
            }
            for (one, other), found in self.associations.items()
        ]
        return sorted(records, key=lambda record: -abs(record["strength"]))

    def strata_records(self) -> list[dict[str, Any]]:
        return [
            {"do": one.do, "stratum": stratum.name, "images": stratum.images, "have": stratum.have}
            for one in self.overlap
            for stratum in one.strata
        ]
