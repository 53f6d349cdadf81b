"""What kind of attribute a column is, where nothing is said of it."""

from pathlib import Path

import pytest
import torch

from cfgen.attributes import TargetKind
from tests.datamodules.image_folder import Made, ready, table_of, write_table


@pytest.mark.parametrize("values", [("0", "1"), ("-1", "1"), ("no", "yes"), ("False", "True"), ("N", "Y"), (0.0, 1.0)])
def test_two_values_are_binary(made: Made, packs: Path, values: tuple) -> None:
    folder, records = made
    expected = {record["file_name"]: float(record["round"]) for record in records}
    for record in records:
        record["round"] = values[record["round"]]
    write_table(folder, records)
    data = ready(folder, packs)
    assert data.scm_spec["attributes"]["round"] == {"kind": "binary"}
    assert data.columns("test")["round"].tolist() == [expected[name] for name in data.names("test")]


def test_far_values_are_told_and_leave_the_range(made: Made, packs: Path) -> None:
    folder, records = made
    for number, record in enumerate(records):
        record["split"] = ["train", "train", "train", "val", "test"][number // 3 % 5]
    records[1]["size"] = 5000
    write_table(folder, records)
    data = table_of(folder, packs)
    (finding,) = data.findings
    assert (finding.severity, finding.row, finding.column) == ("warning", 3, "size")
    assert "5000 is far outside the rest" in str(finding)
    assert data.scm_spec["attributes"]["size"]["high"] < 25
    assert "CHECK: 1 values are outside" in data.description


def test_targets_of_every_kind(original: Made, packs: Path) -> None:
    folder = original[0]
    real = ready(folder, packs, target="size")
    assert real.target_kind.kind == "continuous"
    assert real.targets("train").dtype == torch.float32
    binary = ready(folder, packs, target="round")
    assert (binary.target_kind.kind, set(binary.targets("train").tolist())) == ("binary", {0, 1})
    none = ready(folder, packs)
    assert (none.target, none.target_kind, none.targets("train").any().item()) == (None, TargetKind("y"), False)
