"""No option is ignored: every option of every command changes what the command passes on, or is refused.

The commands are those of `cfgen --help` and the options those of the parsers, so that a new one fails here until
`effects.py` says what it changes.  Those of `cfgen fit` are walked over in `tests/training/test_every_setting.py`.
"""

import ast
import dataclasses
import importlib
import inspect
import textwrap
from typing import Any

import pytest

from cfgen.audit import AuditOptions, audit
from cfgen.audit.strength import calibrate
from cfgen.audit.strength.options import CalibrateOptions
from cfgen.classifiers import ExternalClassifier
from cfgen.commands.quickstart import quickstart
from cfgen.errors import UserError
from cfgen.evaluation import evaluate
from cfgen.evaluation.options import EvaluateOptions
from cfgen.reporting.dataset import look
from cfgen.runs.export import export
from cfgen.runs.generation import generate
from cfgen.runs.verification import verify
from cfgen.study.analysis import analyse
from cfgen.study.making import new_study
from tests.commands.effects import EFFECTS, WITHOUT_EFFECT, WORDS
from tests.commands.recorded import PARSED, Recorder, parser_of


def actions(command: str) -> list[Any]:
    return [action for action in parser_of(command)._actions if action.dest not in ("help", "version")]


VALUED = [(c, action.dest) for c in PARSED for action in actions(c) if action.option_strings and action.nargs != 0]
NAMED = [(c, action.dest) for c in PARSED for action in actions(c) if action.option_strings]


@pytest.fixture
def recorder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "consent.txt").write_text("I agree.")
    return Recorder(monkeypatch)


def refused(recorder: Recorder, command: str, words: list[str]) -> str | None:
    """The argument that a command refuses, before it has called anything."""
    with pytest.raises(UserError) as refusal:
        recorder.passed_on(command, words)
    assert not recorder.calls
    return refusal.value.argument


def test_every_command_is_walked_over():
    assert WORDS.keys() == EFFECTS.keys() == set(PARSED)


def test_quickstart_passes_every_word_on_to_fit(monkeypatch):
    passed = []
    monkeypatch.setattr("cfgen.commands.fit.fit", passed.append)
    quickstart(["--name", "mine", "--anything", "else"])
    assert passed == [["--config", "quickstart", "--name", "mine", "--anything", "else"]]


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
    words = EFFECTS[command][option].words.split() or [f"--{option}", "made"]
    assert refused(recorder, command, [*WORDS[command].split(), *words, *words]) == option


@pytest.mark.parametrize("command", [c for c in PARSED if c != "audit"])
def test_an_argument_that_is_empty_is_refused(recorder, command):
    first = next(action.dest for action in actions(command) if not action.option_strings)
    assert refused(recorder, command, [""]) == first


@pytest.mark.parametrize(("command", "words", "argument"), WITHOUT_EFFECT)
def test_an_option_that_others_leave_without_effect_is_refused(recorder, command, words, argument):
    assert refused(recorder, command, words.split()) == argument


@pytest.mark.parametrize("function", [analyse, audit, calibrate, evaluate, export, generate, look, new_study, verify])
def test_what_is_passed_on_is_read(function):
    """No argument of the functions behind the commands is left lying."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    read = {node.id for node in ast.walk(definition) if isinstance(node, ast.Name)}
    assert set(inspect.signature(function).parameters) <= read


@pytest.mark.parametrize(
    ("kind", "reader"),
    [
        (AuditOptions, "cfgen.audit._prepare cfgen.audit._answer"),
        (CalibrateOptions, "cfgen.audit.strength._calibrate"),
        (EvaluateOptions, "cfgen.evaluation.run"),
        (ExternalClassifier, "cfgen.classifiers.spec"),
    ],
)
def test_every_field_of_an_options_class_is_read(kind, reader):
    """Functions that take an options class's fields as keywords leave none of them lying either."""
    read: set[str] = set()
    for module in map(importlib.import_module, reader.split()):
        nodes = list(ast.walk(ast.parse(inspect.getsource(module))))
        read |= {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}
        read |= set(getattr(module, "INPUTS", ()))  # fields that are read by their names
    assert {field.name for field in dataclasses.fields(kind)} <= read
