"""A look at a data set: its numbers against those of the columns, and the files it writes."""

import csv
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
import torch

from cfgen.attributes import Schema
from cfgen.effects import ENOUGH
from cfgen.errors import UserError
from cfgen.reporting.dataset import look
from cfgen.reporting.dataset.overlap import overlap_of
from cfgen.reporting.dataset.sheet import contact_sheet
from cfgen.scm import CausalGraph
from tests.fakes import DIGITS, Painted

ATTRIBUTES = {**DIGITS, "shade<b>": {"kind": "binary"}}


class Mixed(Painted):
    """Attributes of three kinds, of which two depend on each other and the graph does not say so."""

    def drawn(self, name, generator):
        column = super().drawn(name, generator)
        if name == "thickness":
            self.first = column
        return column if name != "shade<b>" else (self.first + column > 2.5).float()


@pytest.fixture(scope="module")
def data():
    return Mixed(ATTRIBUTES, [["thickness", "label"]], rows=400)


@pytest.fixture(scope="module")
def report(data):
    return look(data, "Painted & <i>mixed</i>")


@pytest.fixture(scope="module")
def saved(report, tmp_path_factory):
    return report.save(tmp_path_factory.mktemp("saved") / "look")


def test_numbers_are_those_of_the_columns(report, data):
    assert report.splits == {"train": 400, "val": 400, "test": 400}
    columns = data.columns("train")
    frame = report.to_frame()
    thickness = columns["thickness"].double().numpy()
    found = frame.loc["thickness", ["lowest", "highest", "mean", "std"]].astype(float)
    assert found.tolist() == pytest.approx([thickness.min(), thickness.max(), thickness.mean(), thickness.std(ddof=1)])
    assert frame.loc["label", "counts"] == {str(k): int((columns["label"] == k).sum()) for k in range(3)}
    assert frame["kind"].tolist() == ["continuous", "categorical", "binary"]


def test_what_the_graph_leaves_out_is_found_and_what_it_has_too_much_is_remarked(report):
    assert [{one.statement.one, one.statement.other} for one in report.check.contradictions] == [
        {"thickness", "shade<b>"}
    ]
    assert [(one.statement.other, one.statement.one) for one in report.check.unseen_edges] == [("thickness", "label")]
    strongest = report.association_records()[0]
    assert {strongest["one"], strongest["other"]} == {"thickness", "shade<b>"}
    assert strongest["measure"] == "eta"


def test_overlap_counts_every_image_once(report, data):
    test = data.columns("test")
    for one in report.overlap:
        if one.attribute == "label":
            assert one.have == int((test["label"] == int(one.value)).sum())
            assert one.have + one.changed == 400
        by_attribute: dict[str, list] = {}
        for stratum in one.strata:
            by_attribute.setdefault(
                re.split(r"[ =]", stratum.name.removeprefix("low ").removeprefix("middle ").removeprefix("high "))[0],
                [],
            ).append(stratum)
        for strata in by_attribute.values():
            assert sum(stratum.images for stratum in strata) == 400
            assert sum(stratum.have for stratum in strata) == one.have
    assert {one.attribute for one in report.overlap} == set(ATTRIBUTES)
    # what an intervention causes is no stratum of it
    assert not any(
        "label" in stratum.name for one in report.overlap if one.attribute == "thickness" for stratum in one.strata
    )


def test_overlap_is_worth_all_images_where_nothing_differs_and_few_where_all_does():
    rng = np.random.default_rng(0)
    schema = Schema({name: {"kind": "binary"} for name in ("free", "tied", "cause")})
    cause = rng.random(2000) < 0.5
    tied = np.where(rng.random(2000) < 0.03, ~cause, cause)
    columns = {"free": rng.random(2000) < 0.4, "tied": tied, "cause": cause}
    tensors = {name: torch.from_numpy(column).float() for name, column in columns.items()}
    found = {one.do: one for one in overlap_of(CausalGraph(schema.names, [["cause", "tied"]]), schema, tensors)}
    assert found["free=1"].effective == pytest.approx(found["free=1"].have, rel=0.02)
    assert not found["free=1"].problem
    assert found["tied=1"].effective < 0.15 * found["tied=1"].have
    assert found["tied=1"].thinnest.name == "cause=0"
    few = {name: column[: 2 * ENOUGH - 2] for name, column in tensors.items()}
    assert all(one.problem for one in overlap_of(CausalGraph(schema.names), schema, few))


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.addresses = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href")]


def test_the_page_opens_offline_and_escapes_what_it_shows(saved):
    text = (saved / "data.html").read_text()
    links = Links()
    links.feed(text)
    assert links.tags.count("img") == 3
    assert all(address.startswith("data:image/png;base64,") for address in links.addresses)
    assert not {"i", "b", "script", "link"} & set(links.tags)
    assert "shade&lt;b&gt;" in text
    assert "cannot prove a graph right" in text
    for name in re.search(r"Beside this page: ([^<]+)\.</p>", text)[1].split(", "):
        assert (saved / name).is_file()


def test_the_files_say_the_same(report, saved):
    kept = json.loads((saved / "data.json").read_text())
    assert kept == json.loads(json.dumps(report.to_dict()))
    with (saved / "graph_check.csv").open() as file:
        tests = list(csv.DictReader(file))
    assert [one["kind"] for one in tests] == ["independence"] * 2 + ["edge"]
    assert float(tests[0]["p_value"]) == pytest.approx(kept["graph_check"]["independences"][0]["p_value"], rel=1e-5)
    with (saved / "strata.csv").open() as file:
        assert len(list(csv.DictReader(file))) == sum(len(one.strata) for one in report.overlap)
    with pytest.raises(UserError) as refused:
        report.save(saved)
    assert refused.value.argument == "out"


def test_a_sheet_of_a_continuous_target_has_its_tenths():
    class Graded(Painted):
        def target(self, columns, generator):
            return columns["thickness"] * 2.0

    data = Graded(DIGITS, rows=100)
    data.setup()
    (axes,) = contact_sheet(data).axes
    assert len(axes.images) == 50
    shown = [float(found[1]) for text in axes.texts if (found := re.search(r"thickness ([\d.]+)", text.get_text()))]
    tenths = np.quantile(data.columns("train")["thickness"], np.linspace(0, 1, 11))
    for line in np.array(shown).reshape(5, 10):
        assert (line > tenths[:-1] - 0.02).all()
        assert (line < tenths[1:] + 0.02).all()
