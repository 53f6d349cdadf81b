"""Laws of the schema: both conversions are inverse to each other, and bad values are named."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cfgen.attributes import Binary, Categorical, Continuous, Schema

DIGIT = {
    "thickness": {"kind": "continuous", "low": 1.0, "high": 6.0},
    "label": {"kind": "categorical", "values": list(range(10))},
    "Young": {"kind": "binary"},
    "colour": {"kind": "categorical", "values": ["red", "green"]},
}


@given(st.lists(st.tuples(st.floats(1, 6), st.integers(0, 9), st.integers(0, 1), st.integers(0, 1)), min_size=1))
def test_encode_and_decode_are_inverse(rows):
    schema = Schema(DIGIT)
    columns = dict(zip(schema.names, torch.tensor(rows, dtype=torch.float32).T, strict=True))
    a = schema.encode(columns)
    assert a.shape == (len(rows), 1 + 10 + 1 + 2)
    assert a.min() >= -1e-6
    assert a.max() <= 1 + 1e-6
    back = schema.decode(a)
    torch.testing.assert_close(back["thickness"], columns["thickness"])
    for name in ("label", "Young", "colour"):
        assert torch.equal(back[name], columns[name])


def test_model_vector_by_hand():
    a = Schema(DIGIT).encode(
        {
            "thickness": torch.tensor([1.0, 3.5]),
            "label": torch.tensor([0, 9]),
            "Young": torch.tensor([1, 0]),
            "colour": torch.tensor([1, 0]),
        }
    )
    assert a.tolist() == [[0, *[1] + [0] * 9, 1, 0, 1], [0.5, *[0] * 9 + [1], 0, 1, 0]]


def test_ranges_come_from_data_and_travel_in_the_state_dict():
    declared = {"t": Continuous(), "i": Continuous(0.0, 255.0), "y": Binary()}
    schema = Schema(declared).fit_ranges({"t": torch.tensor([2.0, 0.5, 1.0]), "i": torch.tensor([5.0, 9.0])})
    assert schema.bounds("t") == (0.5, 2.0)
    assert schema.bounds("i") == (0.0, 255.0)
    other = Schema(declared)
    other.load_state_dict(schema.state_dict())
    assert other.bounds("t") == (0.5, 2.0)
    assert Schema(schema.spec).spec == schema.spec


def test_values_of_an_intervention():
    schema = Schema(DIGIT)
    do = schema.check_do({"thickness": 3, "label": 7, "colour": "green", "Young": [0, 1]}, rows=2)
    assert {name: value.tolist() for name, value in do.items()} == {
        "thickness": 3,
        "label": 7,
        "colour": 1,
        "Young": [0, 1],
    }
    assert schema.check_do({"label": "7"})["label"] == 7
    assert schema.check_do({"label": torch.tensor([3, 4])})["label"].tolist() == [3, 4]


@pytest.mark.parametrize(
    ("do", "message"),
    [
        (
            {"thicknes": 3},
            r"unknown attribute 'thicknes'. Did you mean 'thickness'\? Valid: Young, colour, label, thickness",
        ),
        ({"thickness": 9}, r"do\(thickness=9\) is out of range. Valid: 1 to 6"),
        ({"thickness": float("nan")}, "out of range"),
        ({"Young": 0.5}, "Valid: 0 or 1"),
        ({"label": 10}, "unknown value '10'.*Valid: 0, 1, 2"),
        ({"label": torch.tensor([3, 12])}, "unknown value"),
        ({"colour": "gren"}, "Did you mean 'green'"),
        ({"thickness": [1, 2, 3]}, "one for each of the 2 rows"),
    ],
)
def test_bad_interventions_are_refused(do, message):
    with pytest.raises(ValueError, match=message):
        Schema(DIGIT).check_do(do, rows=2)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({}, "at least one"),
        ({"a": {"kind": "binry"}}, "Did you mean 'binary'"),
        ({"a": {"kind": "continuous", "low": 1}}, "both low and high"),
        ({"a": {"kind": "continuous", "low": 2, "high": 1}}, "low < high"),
        ({"a": {"kind": "categorical", "values": [1]}}, "two different values"),
        ({"a": {"kind": "categorical"}}, "values"),
        ({"a.b": {"kind": "binary"}}, "has no '.'"),
    ],
)
def test_bad_schemas_are_refused(attributes, message):
    with pytest.raises(ValueError, match=message):
        Schema(attributes)


def test_bad_data_is_refused():
    schema = Schema({"t": Continuous(), "c": Categorical((0, 1, 2))})
    with pytest.raises(ValueError, match="range of 't' is not known"):
        schema.encode({"t": torch.ones(1), "c": torch.ones(1)})
    with pytest.raises(ValueError, match="no usable range"):
        schema.fit_ranges({"t": torch.ones(4)})
    with pytest.raises(ValueError, match="no value for attribute 'c'"):
        schema.encode({"t": torch.ones(1)})
    with pytest.raises(ValueError, match=r"shape \(N, 4\)"):
        schema.decode(torch.zeros(2, 3))


def test_differences_are_told_order_included():
    schema = Schema(DIGIT)
    assert schema.difference(Schema(DIGIT)) == ""
    assert schema.difference(Schema(dict(reversed(DIGIT.items())))) == "they come in another order"
    wider = Schema(DIGIT | {"thickness": {"kind": "continuous", "low": 1.0, "high": 7.0}})
    assert schema.difference(wider).startswith("thickness differ, e.g. ")
    assert "7.0} in the data" in schema.difference(wider)
    fewer = Schema({name: spec for name, spec in DIGIT.items() if name != "Young"})
    assert "Young differ" in schema.difference(fewer)
