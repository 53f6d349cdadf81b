"""What may be typed as an intervention: every form is read as it is written, and written as it is read."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cfgen.attributes import Schema
from cfgen.errors import UserError
from cfgen.interventions import Contrast, Set, Shift, parse_intervention

SCHEMA = Schema({
    "size": {"kind": "continuous", "low": -2.0, "high": 10.0},
    "coat": {"kind": "categorical", "values": ["red", "7", "grey"]},
    "old": {"kind": "binary"},
})  # fmt: skip
NUMBERS = st.integers(-999, 999).map(lambda number: number / 8)


def sd_in(columns):
    return lambda name: float(columns[name].double().std(correction=0))


def bound(text: str, columns=None):
    return parse_intervention(text).bind(SCHEMA, sd_in(columns or {}))


@given(amount=NUMBERS.filter(bool), sd=st.booleans())
def test_a_shift_is_read_as_it_is_written(amount, sd):
    value = f"{amount:+}sd" if sd else f"+{amount}"
    shift = Shift(f"size={value}", "size", amount, sd)
    for parsed in (parse_intervention(f"size={value}"), parse_intervention({"size": value})):
        assert parsed.bind(SCHEMA, lambda name: 2.0) == shift.bind(SCHEMA, lambda name: 2.0)


@given(start=NUMBERS, end=NUMBERS)
def test_a_contrast_is_read_as_it_is_written_and_needs_two_values(start, end):
    text = f"size={start}:{end}"
    if start == end:
        with pytest.raises(UserError, match="changes nothing"):
            parse_intervention(text)
    else:
        assert parse_intervention(text) == Contrast(text, "size", start, end)


@given(value=NUMBERS)
def test_a_number_without_a_plus_is_a_value(value):
    text = f"size={value},old=1"
    assert parse_intervention(text) == Set(text, {"size": value, "old": 1})


@given(own=st.lists(st.floats(-2, 10, width=32), min_size=1, max_size=20), amount=NUMBERS.filter(bool))
def test_a_shift_moves_every_image_that_stays_in_range_and_no_other(own, amount):
    columns = {"size": torch.tensor(own)}
    shift = bound(f"size=+{amount}", columns)
    (arm,) = shift.arms(columns)
    values, target = arm.values["size"], torch.from_numpy(shift.target(columns))
    inside = (columns["size"] + amount >= -2) & (columns["size"] + amount <= 10)
    left_out = int((~inside).sum())
    assert torch.equal(values != columns["size"], target)
    assert torch.equal(target, inside)
    assert (values >= -2).all()
    assert (values <= 10).all()
    torch.testing.assert_close(values[target], (columns["size"] + amount)[target])
    if left_out:
        with pytest.raises(UserError, match=f"takes {left_out} of {len(own)} images out of the range"):
            shift.drawn(columns)
    else:
        assert torch.equal(shift.drawn(columns)["size"], values)


def test_a_shift_in_standard_deviations_is_by_those_of_training():
    training = {"size": torch.tensor([0.0, 4.0])}
    shift = bound("size=-0.5sd", training)
    assert shift.drawn({"size": torch.tensor([3.0])})["size"].tolist() == [2.0]
    assert shift.step == -1


def test_a_contrast_is_not_drawn():
    with pytest.raises(UserError, match="draw size=1 and size=2"):
        bound("size=1:2").drawn({"size": torch.tensor([3.0])})


def test_names_of_values_are_taken_as_they_are_and_others_are_listed():
    assert bound("coat=red").assigned == {"coat": 0.0}
    assert bound("coat=7").assigned == {"coat": 1.0}  # a name that looks like a number
    for text, told in (("coat=blue", "Valid: 7, grey, red"), ("coat=0.5:2", "red, 7 or grey"), ("old=1:0", "0 or 1"),
                       ("size=11", "-2 to 10"), ("size=1:11", "-2 to 10"), ("sise=+1", "Did you mean 'size'")):  # fmt: skip
        with pytest.raises(UserError) as refusal:
            bound(text)
        assert refusal.value.argument == "do"
        assert told in str(refusal.value)


def test_a_bound_intervention_survives_json():
    for text in ("coat=7,old=0", "size=-0.5sd", "size=+2", "size=1:2"):
        intervention = bound(text, {"size": torch.tensor([0.0, 4.0])})
        assert type(intervention).from_dict(json.loads(json.dumps(intervention.to_dict()))) == intervention
