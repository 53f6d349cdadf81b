"""What may be typed as an intervention: every form is read as it is written, and written as it is read."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cfgen.attributes import Schema
from cfgen.errors import UserError
from cfgen.interventions import Contrast, Shift, as_intervention, parse_intervention
from cfgen.interventions.settle import check_intervention, deviation_in, settle, settle_all

SCHEMA = Schema({
    "size": {"kind": "continuous", "low": -2.0, "high": 10.0},
    "coat": {"kind": "categorical", "values": ["red", "7", "grey"]},
    "old": {"kind": "binary"},
})  # fmt: skip
NUMBERS = st.integers(-999, 999).map(lambda number: number / 8)


@given(amount=NUMBERS.filter(bool), sd=st.booleans())
def test_a_shift_is_read_as_it_is_written(amount, sd):
    shift = Shift(amount, sd)
    assert parse_intervention(f"size={shift}") == as_intervention({"size": str(shift)}) == {"size": shift}


@given(start=NUMBERS, end=NUMBERS)
def test_a_contrast_is_read_as_it_is_written_and_needs_two_values(start, end):
    contrast = Contrast(start, end)
    if start == end:
        with pytest.raises(UserError, match="changes nothing"):
            parse_intervention(f"size={contrast}")
    else:
        assert parse_intervention(f"size={contrast}") == {"size": contrast}


@given(value=NUMBERS)
def test_a_number_without_a_plus_is_a_value(value):
    assert parse_intervention(f"size={value},old=1") == {"size": value, "old": 1}


@given(own=st.lists(st.floats(-2, 10, width=32), min_size=1, max_size=20), amount=NUMBERS.filter(bool))
def test_a_shift_moves_every_image_that_stays_in_range_and_no_other(own, amount):
    columns = {"size": torch.tensor(own)}
    found = settle(SCHEMA, {"size": Shift(amount)}, columns, deviation_in(columns))
    moved = found.do["size"] != columns["size"]
    assert found.left_out == (~((columns["size"] + amount >= -2) & (columns["size"] + amount <= 10))).sum()
    assert (found.do["size"] >= -2).all()
    assert (found.do["size"] <= 10).all()
    torch.testing.assert_close(found.do["size"][moved], (columns["size"] + amount)[moved])
    if found.left_out:
        with pytest.raises(UserError, match="out of the range"):
            settle_all(SCHEMA, {"size": Shift(amount)}, columns, deviation_in(columns))


def test_a_shift_in_standard_deviations_is_by_those_of_training():
    training = {"size": torch.tensor([0.0, 4.0])}
    found = settle(SCHEMA, {"size": Shift(-0.5, sd=True)}, {"size": torch.tensor([3.0])}, deviation_in(training))
    assert found.do["size"].tolist() == [2.0]
    assert found.amount == -1


def test_names_of_values_are_taken_as_they_are_and_others_are_listed():
    check_intervention(SCHEMA, parse_intervention("coat=red"))
    check_intervention(SCHEMA, parse_intervention("coat=7"))  # a name that looks like a number
    for text, told in (("coat=blue", "Valid: 7, grey, red"), ("coat=0.5:2", "red, 7 or grey"), ("old=1:0", "0 or 1"),
                       ("size=11", "-2 to 10"), ("size=1:11", "-2 to 10"), ("sise=+1", "Did you mean 'size'")):  # fmt: skip
        with pytest.raises(UserError) as refusal:
            check_intervention(SCHEMA, parse_intervention(text))
        assert refusal.value.argument == "do"
        assert told in str(refusal.value)
