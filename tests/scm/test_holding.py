"""`hold`: an attribute keeps its value although an intervention would change it, the same wherever it is asked for."""

import pytest
import torch

from cfgen.commands import generate
from cfgen.runs.model import load_trained
from cfgen.scm import AttributeSCM
from tests.refusals import refusal

KINDS = {name: {"kind": "continuous", "low": -9.0, "high": 9.0} for name in "abcd"}
EDGES = [("a", "b"), ("b", "c"), ("a", "d"), ("d", "c")]


@pytest.fixture(scope="module")
def scm():
    a, *noise = torch.randn(4, 400, generator=torch.Generator().manual_seed(0))
    columns = {"a": a, "b": a + 0.3 * noise[0], "d": -a + 0.3 * noise[1]}
    columns["c"] = columns["b"] - columns["d"] + 0.3 * noise[2]
    return AttributeSCM(KINDS, EDGES, dict.fromkeys("bcd", "gaussian")).fit(columns), columns


@pytest.mark.parametrize("hold", [["b"], ["c"], ["b", "d"], ["b", "c", "d"], []])
def test_holding_is_setting_to_ones_own_value(scm, hold):
    scm, columns = scm
    own = {name: columns[name] for name in hold}
    held = scm.counterfactual(columns, {"a": 1.0}, hold=hold)
    as_done = scm.counterfactual(columns, {"a": 1.0, **own})
    for name in KINDS:
        assert torch.allclose(held[name], as_done[name])
    assert all(torch.equal(held[name], columns[name]) for name in hold)
    assert (held["c"] != columns["c"]).any() == ("c" not in hold and set(hold) != {"b", "d"})


def test_a_value_outside_of_the_range_can_be_held(scm):
    """A test image may have one that no training image had; it cannot be asked for, but kept."""
    scm, columns = scm
    far = {name: column[:1] + 20 * (name == "b") for name, column in columns.items()}
    assert torch.equal(scm.counterfactual(far, {"a": 1.0}, hold=["b"])["b"], far["b"])


def test_generate_takes_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["morphomnist-hvae", "--do", "thickness=5", "--index", "2"]
    model = load_trained("morphomnist-hvae")
    own = model.examples()[1]["intensity"][2]
    assert generate.main([*words, "--hold", "intensity", "--out", "held"]) == 0
    (line,) = (tmp_path / "held/attributes.csv").read_text().splitlines()[1:]
    assert float(line.split(",")[4]) == pytest.approx(own.item(), rel=1e-4)
    refusal(generate.main, [*words, "--hold", "intesity"], capsys, "hold")
    refusal(generate.main, [*words, "--hold", "slant"], capsys, "hold")  # nothing would change it
