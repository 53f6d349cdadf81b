"""No option is ignored: every option of every command changes what the command passes on, or is refused.

The options are those of the parsers, so that a new one fails here until `EFFECTS` says what it changes: an entry has the words
that are added to the command's `WORDS`, and everything that is passed on differently then, as {"function.argument": value}, with
... for a value that need not be told.
"""

import ast
import inspect
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cfgen.audit.calibration import calibrate
from cfgen.audit.library import audit
from cfgen.errors import UserError
from cfgen.evaluation import evaluate
from cfgen.reporting.dataset import look
from cfgen.runs.export import export
from cfgen.runs.generation import generate
from cfgen.runs.verification import verify
from tests.commands.recorded import PARSED, Recorder, parser_of

WORDS = {
    "audit": "--model run --classifier theirs.onnx --do Young=0",
    "calibrate": "run",
    "data": "morpho_mnist",
    "evaluate": "run",
    "export": "run",
    "generate": "run --do Young=0",
    "verify": "run",
}


class Effect(NamedTuple):
    """Words that give an option, and what they change; `instead` of the command's usual words where they need others."""

    words: str
    changes: dict[str, Any]
    instead: str | None = None


MODEL = {"load_trained.what": "other", "results_folder.what": "other"}
MNIST = {"class_path": "datamodules.MorphoMNIST"}
SECTION = {"source": "embedded", "batch_size": 100, "seed": 0}


def section(**changes: Any) -> dict[str, Any]:
    return {"built_data.section": MNIST | {"init_args": SECTION | changes}}


# a page is written in place of an export
PAGE = {f"export.{name}": ... for name in ("folder", "name", "limits", "examples", "half")}
PAGE |= {"write_page.folder": "site", "write_page.examples": 6}

EFFECTS: dict[str, dict[str, Effect]] = {
    "audit": {
        "model": Effect("--model other", {"audit.models": ["other"]}),
        "classifier": Effect("--classifier own.onnx", {"audit.classifier": ["theirs.onnx", "own.onnx"]}),
        "trusted": Effect("--trusted", {"audit.trusted": True, "load_trained.trusted": True}),
        "do": Effect("--do Bangs=1", {"audit.do": ["Young=0", "Bangs=1"]}),
        "among": Effect("--among Bangs=1", {"audit.among": ["Bangs=1"]}),
        "subgroups": Effect("--subgroups Bangs,Young", {"audit.subgroups": ["Bangs", "Young"]}),
        "curve": Effect("--curve thickness=1,2", {"audit.curves": ["thickness=1,2"]}),
        "hold": Effect("--hold Gray_Hair", {"audit.hold": ["Gray_Hair"]}),
        "adjust": Effect("--adjust year", {"audit.adjust": ["year"]}),
        "pairs": Effect("--pairs 20", {"audit.pairs": 20}),
        "strengths": Effect("--strengths 0.5,2", {"audit.strengths": (0.5, 2.0)}),
        "explain": Effect("--explain none", {"audit.explain": []}),
        "local": Effect("--local 0,7", {"audit.local": [0, 7]}),
        "explain_count": Effect("--explain_count 5", {"audit.explain_count": 5}),
        "keep_residual": Effect("--keep_residual", {"audit.keep_residual": True}),
        "predictor": Effect("--predictor none", {"audit.predictor": "none"}),
        "resize": Effect("--resize 8x9", {"audit.resize": (8, 9)}),
        "mean": Effect("--mean 0.1,0.2,0.3", {"audit.mean": (0.1, 0.2, 0.3)}),
        "std": Effect("--std 2", {"audit.std": (2.0,)}),
        "layout": Effect("--layout nhwc", {"audit.layout": "nhwc"}),
        "output": Effect("--output class", {"audit.output": "class"}),
        "positive": Effect("--positive 3 --positive 4", {"audit.positive": [3, 4]}),
        "classes": Effect("--classes gull,tern", {"audit.classes": ["gull", "tern"]}),
        "class": Effect("--class tern", {"audit.focus": ["tern"]}),
        "threshold": Effect("--threshold 0.3", {"audit.threshold": 0.3}),
        "label": Effect("--label hired", {"audit.label": "hired"}),
        "split": Effect("--split val", {"audit.split": "val"}),
        "count": Effect("--count 7", {"audit.count": 7}),
        "batch_size": Effect("--batch_size 7", {"audit.batch_size": 7}),
        "seed": Effect("--seed 7", {"audit.seed": 7}),
        "strict": Effect("--strict", {"exit code": 3}),
        "accelerator": Effect("--accelerator gpu", {"Processes.accelerator": "gpu"}),
        "devices": Effect("--devices 2", {"Processes.devices": "2"}),
        "out": Effect("--out found", {"new_results.out": "found"}),
    },
    "calibrate": {
        "model": Effect("", MODEL | {"require_finished.what": "other"}, instead="other"),
        "predictor": Effect("--predictor judge", {"calibrate.predictor": "judge"}),
        "split": Effect("--split test", {"calibrate.split": "test"}),
        "count": Effect("--count 7", {"calibrate.count": 7}),
        "keep_residual": Effect("--keep_residual", {"calibrate.keep_residual": True}),
        "batch_size": Effect("--batch_size 7", {"calibrate.batch_size": 7}),
        "seed": Effect("--seed 7", {"calibrate.seed": 7}),
        "trusted": Effect("--trusted", {"calibrate.trusted": True, "load_trained.trusted": True}),
        "accelerator": Effect("--accelerator gpu", {"Processes.accelerator": "gpu"}),
        "devices": Effect("--devices 2", {"Processes.devices": "2"}),
        "out": Effect("--out kept", {"save": "kept", "results_folder.what": ...}),
    },
    "data": {
        "data": Effect("", {"built_data.section": ..., "look.title": "faces"}, instead="faces"),
        "out": Effect("--out shown", {"save": Path("shown")}),
        "write": Effect(
            "--write new.yaml", {"recipe_for.section": ..., "recipe_for.title": ..., "save": Path("new.yaml")}
        ),
        "export": Effect("--export folder", {"export": Path("folder")}),
        "source": Effect("--source mnist", section(source="mnist")),
        "data_dir": Effect("--data_dir /data", section(data_dir="/data")),
        "cache_dir": Effect("--cache_dir /cache", section(cache_dir="/cache")),
        "seed": Effect("--seed 7", section(seed=7)),
        "independent_slant": Effect("--independent_slant", section(independent_slant=True)),
        "limit": Effect("--limit 700", section(limit=700)),
        "trusted": Effect("--trusted", {"built_data.trusted": True}),
    },
    "evaluate": {
        "model": Effect("", {"evaluate.model": "other"}, instead="other"),
        "classifier": Effect("--classifier own", {"evaluate.classifier": "own"}),
        "predictor": Effect("--predictor a --predictor b", {"evaluate.predictor": ["a", "b"]}),
        "fid": Effect("--fid inception", {"evaluate.fid": "inception"}),
        "identity": Effect("--identity dlib", {"evaluate.identity": "dlib"}),
        "metrics": Effect("--metrics cycles,bias", {"evaluate.metrics": ["cycles", "bias"]}),
        "split": Effect("--split val", {"evaluate.split": "val"}),
        "count": Effect("--count 7", {"evaluate.count": 7}),
        "seed": Effect("--seed 7", {"evaluate.seed": 7}),
        "seeds": Effect("--seeds 2", {"evaluate.seeds": 2}),
        "values": Effect("--values 3", {"evaluate.values": 3}),
        "batch_size": Effect("--batch_size 7", {"evaluate.batch_size": 7}),
        "trusted": Effect("--trusted", {"evaluate.trusted": True}),
        "accelerator": Effect("--accelerator gpu", {"Processes.accelerator": "gpu"}),
        "devices": Effect("--devices 2", {"Processes.devices": "2"}),
        "out": Effect("--out both", {"save": "both"}, instead="run other"),
    },
    "export": {
        "model": Effect("", {"load_trained.what": "other"}, instead="other"),
        "folder": Effect("", {"export.folder": "small"}, instead="run small"),
        "name": Effect("--name ours", {"export.name": "ours"}),
        "limits": Effect("--limits faces", {"export.limits": "faces"}),
        "examples": Effect("--examples 3", {"export.examples": 3}),
        "trusted": Effect("--trusted", {"load_trained.trusted": True}),
        "half": Effect("--half", {"export.half": True}),
        "page": Effect("--page site", PAGE),
    },
    "generate": {
        "model": Effect("", {"load_trained.what": "other"}, instead="other --do Young=0"),
        "do": Effect("--do Bangs=1", {"generate.do": {"Young=0": {"Young": 0}, "Bangs=1": {"Bangs": 1}}}),
        "index": Effect("--index 3-5", {"generate.index": [3, 4, 5]}),
        "hold": Effect("--hold Gray_Hair", {"generate.hold": ["Gray_Hair"]}),
        "images": Effect("--images a.png b.png", {"generate.images": ["a.png", "b.png"]}),
        "given": Effect("--given Young=1", {"generate.given": {"Young": 1}}),
        "trusted": Effect("--trusted", {"load_trained.trusted": True}),
        "seed": Effect("--seed 7", {"generate.seed": 7}),
        "out": Effect("--out made", {"save": "made"}),
    },
    "verify": {
        "model": Effect("", {"verify.what": "other"}, instead="other"),
        "trusted": Effect("--trusted", {"verify.trusted": True}),
    },
}
# where an option would have no effect beside the others, before anything is loaded
WITHOUT_EFFECT = [
    ("evaluate", "run --out found", "out"),
    ("evaluate", "run --metrics cycles,cycles", "metrics"),
    ("evaluate", "run --predictor none --predictor judge", "predictor"),
    ("generate", "run --do Young=0 --index 1 --images a.png", "index"),
    ("data", "faces --source mnist", "source"),
    ("data", "faces --data_dir /data", "data_dir"),
    ("data", "faces --limit 700", "limit"),
    ("data", "celeba --independent_slant", "independent_slant"),
]


def actions(command: str) -> list[Any]:
    return [action for action in parser_of(command)._actions if action.dest not in ("help", "version")]


VALUED = [(c, action.dest) for c in PARSED for action in actions(c) if action.option_strings and action.nargs != 0]
NAMED = [(c, action.dest) for c in PARSED for action in actions(c) if action.option_strings]


@pytest.fixture
def recorder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return Recorder(monkeypatch)


def refused(recorder: Recorder, command: str, words: list[str]) -> str | None:
    """The argument that a command refuses, before it has called anything."""
    with pytest.raises(UserError) as refusal:
        recorder.passed_on(command, words)
    assert not recorder.calls
    return refusal.value.argument


@pytest.mark.parametrize("command", PARSED)
def test_every_option_has_an_entry(command):
    assert EFFECTS[command].keys() == {action.dest for action in actions(command)}


@pytest.mark.parametrize(("command", "option"), [(c, option) for c, options in EFFECTS.items() for option in options])
def test_an_option_changes_just_what_its_entry_says(recorder, command, option):
    words, changes, instead = EFFECTS[command][option]
    more = words.split()
    usual = WORDS[command].split() if instead is None or not more else instead.split()
    before = recorder.passed_on(command, usual)
    after = recorder.passed_on(command, [*(instead.split() if instead else usual), *more])
    assert before
    changed = {key for key in before.keys() | after.keys() if before.get(key, ...) != after.get(key, ...)}
    assert changed == changes.keys()
    assert {key: after[key] for key, value in changes.items() if value is not ...} == {
        key: value for key, value in changes.items() if value is not ...
    }


@pytest.mark.parametrize(("command", "option"), VALUED)
@pytest.mark.parametrize("value", ["", " "])
def test_an_option_without_a_value_is_refused(recorder, command, option, value):
    for words in ([f"--{option}={value}"], [f"--{option}", value]):
        assert refused(recorder, command, [*WORDS[command].split(), *words]) == option


@pytest.mark.parametrize(("command", "option"), NAMED)
def test_an_option_that_is_given_twice_is_refused(recorder, command, option):
    """One that can be repeated is refused where it says the same again."""
    words = EFFECTS[command][option].words.split()
    assert refused(recorder, command, [*WORDS[command].split(), *words, *words]) == option


@pytest.mark.parametrize("command", [c for c in PARSED if c != "audit"])
def test_an_argument_that_is_empty_is_refused(recorder, command):
    first = next(action.dest for action in actions(command) if not action.option_strings)
    assert refused(recorder, command, [""]) == first


@pytest.mark.parametrize(("command", "words", "argument"), WITHOUT_EFFECT)
def test_an_option_that_others_leave_without_effect_is_refused(recorder, command, words, argument):
    assert refused(recorder, command, words.split()) == argument


@pytest.mark.parametrize("function", [audit, calibrate, evaluate, export, generate, look, verify])
def test_what_is_passed_on_is_read(function):
    """No argument of the functions behind the commands is left lying."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    read = {node.id for node in ast.walk(definition) if isinstance(node, ast.Name)}
    assert set(inspect.signature(function).parameters) <= read
