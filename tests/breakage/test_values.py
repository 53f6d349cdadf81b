"""Values that no option expects: refused in one line, never a traceback, never more memory than there is."""

import pytest
import torch

from cfgen.__main__ import main
from cfgen.errors import UserError
from cfgen.runs.generation import generate
from cfgen.runs.model import load_trained
from tests.breakage.tiny import WORDS
from tests.refusals import refusal

HUGE = str(2**64)


@pytest.mark.parametrize(
    ("words", "argument"),
    [
        ("generate run --do Bangs=1 --index ²", "index"),
        ("generate run --do Bangs=1 --index 0-²", "index"),
        ("generate run --do Bangs=1 --index 0-9999999999", "index"),
        (f"generate run --do Bangs=1 --index {','.join(['0-9000'] * 3)}", "index"),
        (f"generate run --do Bangs=1 --index {'9' * 300}", "index"),
        (f"generate run --do Bangs=1 --seed {HUGE}", "seed"),
        (f"evaluate run --metrics cycles --seed {HUGE}", "seed"),
        (f"calibrate run --seed {HUGE}", "seed"),
        (f"{WORDS['audit']} --seed {HUGE}", "seed"),
        (f"{WORDS['data']} --seed {HUGE}", "seed"),
        ("audit --model run --classifier tests.audit.worlds:Bright --do=--", "do"),
        ("generate run --do=--", "do"),
        (f"{WORDS['audit']} --label=--", "label"),
        (f"{WORDS['audit']} --resize ²", "resize"),
        (f"{WORDS['audit']} --resize 0x5", "resize"),
        (f"{WORDS['audit']} --positive ²", "positive"),
        (f"{WORDS['audit']} --local ²", "local"),
        (f"{WORDS['audit']} --pairs ²", "pairs"),
        (f"{WORDS['data']} --limit ²", "limit"),
    ],
)
def test_numbers_that_are_none(capsys, words, argument):
    refusal(main, words.split(), capsys, argument)


@pytest.mark.parametrize("name", [" ", "a\nb", "\x1b[31mred", ""])
def test_a_name_that_cannot_be_read_is_not_put_on_a_card(here, capsys, name):
    refusal(main, ["export", "run", "made", "--name", name], capsys, "name")
    assert not (here / "made").exists()


def test_the_library_refuses_them_too():
    model = load_trained("run")
    with pytest.raises(UserError) as refused:
        generate(model, [{"Bangs": 1}], seed=2**64)
    assert refused.value.argument == "seed"
    x, a = torch.rand(2, 1, 28, 28), {"Black_Hair": 0, "Pale_Skin": 1, "Bangs": 0}
    do = {"Bangs": 1}
    assert len(model.counterfactual(x[:0], a, do).images) == 0
    for wrong, argument in (
        (lambda: model.counterfactual(x, a, do, batch_size=0), "batch_size"),
        (lambda: model.counterfactual(x, a, do, seed=-1), "seed"),
        (lambda: model.counterfactual(x.to(torch.complex64), a, do), "x"),
    ):
        with pytest.raises(UserError) as refused:
            wrong()
        assert refused.value.argument == argument
