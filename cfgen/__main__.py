"""The `cfgen` command: `cfgen fit ...` is `python -m cfgen.fit ...`, and so for every command."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib import metadata

from cfgen.errors import unknown_name
from cfgen.io.endings import end, signals_raised

COMMANDS = {
    "fit": "train a model or a classifier from a config",
    "data": "look at a data set: its images, its attributes, and whether the causal graph fits; write a config for it",
    "generate": "draw counterfactual images with a trained model",
    "evaluate": "score trained models on their test split, and compare them",
    "calibrate": "measure how strongly a model draws each attribute, which audits and model cards build on",
    "audit": "measure the bias of an image classifier, as a report",
    "app": "open a page in the browser: counterfactuals, audits and data without a terminal",
    "study": "make a human study from a model (Appendix L), and analyse its answers",
    "export": "write a trained model as a small folder to share, with a model card",
    "verify": "check the files of a model: checksums, weights, classes",
    "quickstart": "train a small model on digits that are installed with cfgen, and show its counterfactuals",
}


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with signals_raised():
            code = run(words)
            sys.stdout.flush()  # a reader may have gone away
            return code
    except BaseException as error:  # before the command has started: it handles its own
        return end(error)


def run(words: Sequence[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print("usage: cfgen COMMAND [options]      `cfgen COMMAND --help` shows the options of a command\n")
        for name, purpose in COMMANDS.items():
            print(f"  {name:12s} {purpose}")
        return 0 if words else 2
    if words[0] == "--version":
        print(f"cfgen {metadata.version('cfgen')}")
        return 0
    if words[0] not in COMMANDS:
        print(f"error: {unknown_name('command', words[0], COMMANDS)}", file=sys.stderr)
        return 2
    # the module is loaded only now: each command brings heavy packages of its own
    return int(importlib.import_module(f"cfgen.commands.{words[0]}").main(list(words[1:])))


if __name__ == "__main__":
    sys.exit(main())
