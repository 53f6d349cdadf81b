"""What answers at once: help and the refusal of a wrong option do not wait for torch or Lightning to be imported."""

import importlib
import json
import subprocess
import sys

from cfgen.__main__ import COMMANDS

ASKED = """
import contextlib, io, json, sys
from cfgen.__main__ import main

answers = {}
for words in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(words)
        except SystemExit as stopped:
            code = stopped.code or 0
    heavy = [name for name in ("torch", "pytorch_lightning", "matplotlib", "pandas") if name in sys.modules]
    answers[" ".join(words)] = {"code": code, "out": out.getvalue(), "err": err.getvalue(), "heavy": heavy}
print(json.dumps(answers))
"""


def answers(questions):
    done = subprocess.run(
        [sys.executable, "-c", ASKED, json.dumps(questions)], capture_output=True, text=True, timeout=300, check=True
    )
    return json.loads(done.stdout)


def test_help_comes_at_once_and_says_something():
    questions = [["--help"], *([command, "--help"] for command in COMMANDS)]
    for asked, answer in answers(questions).items():
        assert answer["code"] == 0, asked
        assert len(answer["out"].splitlines()) > 4, asked
        assert answer["heavy"] == [], asked


def test_a_wrong_option_is_refused_at_once_with_the_nearest_one():
    wrong = {
        "fit --confg quickstart": "config",
        "fit --config quickstart --trainer.max_epoch 3": "max_epochs",
        "fit --config quikstart": "quickstart",
        "data morpho_mnist --limt 3": "--limit",
        "generate morphomnist-csali --doo thickness=3": "--do",
        "evaluate morphomnist-csali --cuont 3": "--count",
        "audit --generator faces-modulated --classifier x --do Bangs=1": "--model",
        "app --clasifier x": "--classifier",
        "export morphomnist-csali --nmae x": "--name",
        "generat morphomnist-csali": "generate",
    }
    found = answers([line.split() for line in wrong])
    for line, nearest in wrong.items():
        assert found[line]["code"] == 2, line
        assert len(found[line]["err"].splitlines()) == 1, line
        assert nearest in found[line]["err"], line
        assert found[line]["heavy"] == [], line


def test_every_option_says_what_it_does():
    for command in sorted(set(COMMANDS) - {"fit", "quickstart"}):
        for action in importlib.import_module(f"cfgen.commands.{command}").parser()._actions:
            assert action.help, f"{command} {action.option_strings or action.dest}"
