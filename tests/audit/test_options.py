"""`AuditOptions`: what it accepts, what it refuses, and what is generated from it."""

import json
from pathlib import Path

import pytest

from cfgen.audit.options import AuditOptions
from cfgen.commands.audit import parser
from cfgen.errors import UserError
from cfgen.options import from_command_line, make_options, web_fields

WORDS = ["--model", "m", "--classifier", "c", "--do", "Young=0"]


def test_the_command_line_gives_the_same_options_as_python():
    words = [
        *WORDS,
        "--curve",
        "size=1,2",
        "--explain",
        "Bangs,Young",
        "--local",
        "0,7",
        "--pairs",
        "20",
        "--class",
        "tern",
    ]
    read = AuditOptions(**from_command_line(AuditOptions, parser().parse_args(words)))
    given = AuditOptions(
        do="Young=0", curves=["size=1,2"], explain=["Bangs", "Young"], local=[0, 7], pairs=20, focus=["tern"]
    )
    assert read == given
    assert AuditOptions(**from_command_line(AuditOptions, parser().parse_args(WORDS))) == AuditOptions(do=["Young=0"])


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"do": []}, "do"),
        ({"do": ["Young"]}, "do"),
        ({"do": [{}]}, "do"),
        ({"among": ["Young"]}, "among"),
        ({"hold": ["Bangs", "Bangs"]}, "hold"),
        ({"split": "train"}, "split"),
        ({"count": 0}, "count"),
        ({"batch_size": 0}, "batch_size"),
        ({"seed": -1}, "seed"),
        ({"explain_count": 0}, "explain_count"),
        ({"explain": "none", "explain_count": 7}, "explain_count"),
        ({"explain": [], "local": [0]}, "explain"),
        ({"local": [3, 3]}, "local"),
        ({"strengths": [0.5]}, "strengths"),
    ],
)
def test_bad_values_are_refused(options, argument):
    with pytest.raises(UserError) as refusal:
        make_options(AuditOptions, {"do": ["Bangs=1"], **options})
    assert refusal.value.argument == argument


def test_provenance_has_json_values():
    options = AuditOptions(do=[{"size": "+2"}, "Young=0"], pairs=Path("pairs.csv"), predictor=object())
    found = options.to_dict()
    assert json.loads(json.dumps(found)) == found
    assert found["do"] == [{"size": "+2"}, "Young=0"]
    assert (found["pairs"], found["predictor"]) == ("pairs.csv", "object")


def test_a_web_form_offers_no_paths():
    assert web_fields(AuditOptions) == ["do", "focus", "count", "among", "subgroups", "keep_residual"]
