"""The `cfgen` command: `cfgen fit ...` is `python -m cfgen.fit ...`, and so for every command."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from importlib import metadata

from cfgen.attributes import unknown_name

COMMANDS = {
    "fit": "train a model from a config",
    "data": "prepare a data set ahead of training, with a contact sheet",
    "evaluate": "score a trained run on its test split",
    "export": "a trained run as a small folder to give away, with a model card",
    "generate": "counterfactual images from a trained run",
    "audit": "bias of an image classifier, from counterfactual images, as a report",
    "quickstart": "train a small model on embedded digits and show its counterfactuals",
}


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help"):
        print("usage: cfgen COMMAND [options]      cfgen COMMAND --help says more\n")
        for name, purpose in COMMANDS.items():
            print(f"  {name:12s} {purpose}")
        return 0 if words else 2
    if words[0] == "--version":
        print(f"cfgen {metadata.version('cfgen')}")
        return 0
    if words[0] not in COMMANDS:
        print(f"error: {unknown_name('command', words[0], COMMANDS)}", file=sys.stderr)
        return 2
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # classes of one's own are found where `python -m` finds them
    # the module is loaded only now: each command brings heavy packages of its own
    return int(importlib.import_module(f"cfgen.{words[0]}").main(words[1:]))


if __name__ == "__main__":
    sys.exit(main())
