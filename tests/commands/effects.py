"""What each option of each command changes: the table that `test_every_option.py` walks over.

An entry has the words that are added to the command's `WORDS`, and everything that is passed on differently then, as
{"function.argument": value}, with ... for a value that need not be told.
"""

from pathlib import Path
from typing import Any, NamedTuple

from cfgen.interventions import Set

__all__ = ["EFFECTS", "WITHOUT_EFFECT", "WORDS", "Effect"]

WORDS = {
    "app": "run --classifier theirs.onnx",
    "audit": "--model run --classifier theirs.onnx --do Young=0",
    "calibrate": "run",
    "data": "morpho_mnist",
    "evaluate": "run",
    "export": "run",
    "generate": "run --do Young=0",
    "study analyse": "study",
    "study new": "run --do Young=0 --out made",
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


def taken(*words: str, **changes: Any) -> dict[str, Any]:
    """What the app's classifiers take, and how that is said on a command line."""
    return {"Catalogue.inputs": changes, "Studio.inputs": list(words)}


# a page is written in place of an export
PAGE = {f"export.{name}": ... for name in ("folder", "name", "limits", "examples", "half")}
PAGE |= {"write_page.folder": "site", "write_page.examples": 6}

EFFECTS: dict[str, dict[str, Effect]] = {
    "app": {
        "model": Effect("", {"Catalogue.model": "other", "load": "other"}, instead="other --classifier theirs.onnx"),
        "classifier": Effect(
            "--classifier own.onnx",
            {"Catalogue.classifiers": ["theirs.onnx", "own.onnx"], "load_network.what": "own.onnx"},
        ),
        "resize": Effect("--resize 8x9", taken("--resize", "8x9", resize=(8, 9))),
        "mean": Effect("--mean 0.1,0.2,0.3", taken("--mean", "0.1,0.2,0.3", mean=(0.1, 0.2, 0.3))),
        "std": Effect("--std 2", taken("--std", "2", std=(2.0,))),
        "layout": Effect("--layout nhwc", taken("--layout", "nhwc", layout="nhwc")),
        "output": Effect("--output class", taken("--output", "class", output="class")),
        "positive": Effect("--positive 3", taken("--positive", "3", positive=(3,))),
        "classes": Effect("--classes gull,tern", taken("--classes", "gull,tern", classes=("gull", "tern"))),
        "trusted": Effect("--trusted", {"Catalogue.trusted": True, "load_network.trusted": True}),
        "host": Effect(
            "--host 0.0.0.0",
            {"bound.host": "0.0.0.0", "create_app.host": "0.0.0.0", "create_app.token": ..., "open_browser.link": ...},
        ),
        "port": Effect("--port 7", {"bound.port": 7}),
        "no_browser": Effect("--no_browser", {"open_browser.link": ...}),
    },
    "audit": {
        "model": Effect("--model other", {"audit.models": ["other"]}),
        "classifier": Effect("--classifier own.onnx", {"audit.classifier": ["theirs.onnx", "own.onnx"]}),
        "trusted": Effect("--trusted", {"ExternalClassifier.trusted": True, "load_trained.trusted": True}),
        "do": Effect("--do Bangs=1", {"audit.do": ["Young=0", "Bangs=1"]}),
        "among": Effect("--among Bangs=1", {"audit.among": ["Bangs=1"]}),
        "subgroups": Effect("--subgroups Bangs,Young", {"audit.subgroups": ["Bangs", "Young"]}),
        "curve": Effect("--curve thickness=1,2", {"audit.curves": ["thickness=1,2"]}),
        "hold": Effect("--hold Gray_Hair", {"audit.hold": ["Gray_Hair"]}),
        "adjust": Effect("--adjust year", {"audit.adjust": ["year"]}),
        "pairs": Effect("--pairs 20", {"audit.pairs": 20}),
        "explain": Effect("--explain none", {"audit.explain": []}),
        "local": Effect("--local 0,7", {"audit.local": [0, 7]}),
        "explain_count": Effect("--explain_count 5", {"audit.explain_count": 5}),
        "keep_residual": Effect("--keep_residual", {"audit.keep_residual": True}),
        "predictor": Effect("--predictor none", {"audit.predictor": "none"}),
        "resize": Effect("--resize 8x9", {"ExternalClassifier.resize": (8, 9)}),
        "mean": Effect("--mean 0.1,0.2,0.3", {"ExternalClassifier.mean": (0.1, 0.2, 0.3)}),
        "std": Effect("--std 2", {"ExternalClassifier.std": (2.0,)}),
        "layout": Effect("--layout nhwc", {"ExternalClassifier.layout": "nhwc"}),
        "output": Effect("--output class", {"ExternalClassifier.output": "class"}),
        "positive": Effect("--positive 3 --positive 4", {"ExternalClassifier.positive": (3, 4)}),
        "classes": Effect("--classes gull,tern", {"ExternalClassifier.classes": ("gull", "tern")}),
        "class": Effect("--class tern", {"audit.focus": ["tern"]}),
        "threshold": Effect("--threshold 0.3", {"ExternalClassifier.threshold": 0.3}),
        "label": Effect("--label hired", {"ExternalClassifier.label": "hired"}),
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
        "do": Effect(
            "--do Bangs=1",
            {"generate.do": {"Young=0": Set("Young=0", {"Young": 0}), "Bangs=1": Set("Bangs=1", {"Bangs": 1})}},
        ),
        "index": Effect("--index 3-5", {"generate.index": [3, 4, 5]}),
        "hold": Effect("--hold Gray_Hair", {"generate.hold": ["Gray_Hair"]}),
        "images": Effect("--images a.png b.png", {"generate.images": ["a.png", "b.png"]}),
        "given": Effect("--given Young=1", {"generate.given": {"Young": 1}}),
        "trusted": Effect("--trusted", {"load_trained.trusted": True}),
        "seed": Effect("--seed 7", {"generate.seed": 7}),
        "out": Effect("--out made", {"save": "made"}),
    },
    "study analyse": {
        "study": Effect("", {"analyse.folder": "other", "save.root": "other"}, instead="other"),
        "answers": Effect("", {"analyse.answers": ["a.jsonl", "b.jsonl"]}, instead="study a.jsonl b.jsonl"),
        "simulate": Effect("--simulate guessing=7", {"analyse.simulate": {"guessing": 7}}),
        "power": Effect("--power 7", {"analyse.planned": 7}),
        "seed": Effect("--seed 7", {"analyse.seed": 7}, instead="study --power 7"),
        "out": Effect("--out found", {"save": "found"}),
    },
    "study new": {
        "model": Effect(
            "",
            {"load_trained.what": "other", "require_finished.what": "other"},
            instead="other --do Young=0 --out made",
        ),
        "do": Effect("--do Bangs=1", {"new_study.do": [{"Young": 0}, {"Bangs": 1}]}),
        "out": Effect("", {"save": "studies/made"}, instead="run --do Young=0 --out studies/made"),
        "question": Effect("--question shows", {"new_study.questions": ["shows"]}),
        "subject": Effect("--subject bird", {"new_study.subject": "bird"}),
        "each": Effect("--each 7", {"new_study.each": 7}),
        "count": Effect("--count 7", {"new_study.count": 7}),
        "practice": Effect("--practice 7", {"new_study.practice": 7}),
        "catch": Effect("--catch 7", {"new_study.catch": 7}),
        "catch_right": Effect("--catch_right 1", {"new_study.catch_right": 1}),
        "fastest_ms": Effect("--fastest_ms 7", {"new_study.fastest_ms": 7}),
        "margin": Effect("--margin 0.2", {"new_study.margin": 0.2}),
        "split": Effect("--split val", {"new_study.split": "val"}),
        "title": Effect("--title Birds", {"new_study.title": "Birds"}),
        "consent": Effect("--consent consent.txt", {"new_study.consent": "I agree."}),
        "mail": Effect("--mail a@b.org", {"new_study.mail": "a@b.org"}),
        "seed": Effect("--seed 7", {"new_study.seed": 7}),
        "trusted": Effect("--trusted", {"load_trained.trusted": True}),
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
    ("app", "run --output class", "output"),
    ("study analyse", "study --seed 7", "seed"),
]
