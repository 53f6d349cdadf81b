"""`cfgen audit` as a user types it, on one process and on two, and what it refuses."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch

from cfgen import audit
from cfgen.audit.facts import fingerprint
from cfgen.audit.results import EVERYONE
from cfgen.counterfactual import as_unit_float
from lightning_modules import Classifier
from tests.audit.shifting import CLASSIFIER, DO, options, rows

ROOT = Path(__file__).parents[2]


def test_audits_are_never_overwritten_and_can_be_repeated(run, here, capsys):
    few = ["--images", "20", "--explain", "none"]
    for _ in range(2):
        assert audit.main(options(run, *few, do=["Young=1"])) == 0
    one, two = sorted((run / "audits").iterdir())
    assert (one.name, two.name) == ("001", "002")
    assert (one / "bias.csv").read_text() == (two / "bias.csv").read_text()
    assert not {"attribute_ranking.png", "importance.csv"} & {path.name for path in one.iterdir()}
    assert audit.main(options(run, *few, "--out", str(one))) == 2
    assert "exists already: --out takes a new folder" in capsys.readouterr().err


def test_digits_with_a_classifier_of_ten_classes(tiny_run, here):
    words = ["--generator", str(tiny_run), "--classifier", "tests.audit.shifting:ten_classes", "--do", "thickness=3"]
    words += ["--do", "label=7", "--among", "label=3", "--accelerator", "cpu", "--out", "found"]
    assert audit.main(words) == 2  # which of the ten?
    assert audit.main([*words, "--positive", "7"]) == 0
    found = {(row["among"], row["change"]): row for row in rows(here / "found")}
    assert int(found[EVERYONE, "thickness=3"]["n"]) == 30
    assert int(found[EVERYONE, "label=7"]["n"]) < 30
    assert "“class 7”" in (here / "found/report.html").read_text()


def test_a_run_of_cfgen_as_the_classifier(run, data, here):
    classifier = Classifier((3, 64, 64), classes=2, width=0.05).eval()
    trainer = pl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
    trainer.strategy.connect(classifier)
    trainer.save_checkpoint(here / "last.ckpt", weights_only=True)
    words = options(run, "--images", "10", "--explain", "none", "--out", "found", do=["Bangs=1"])
    words[words.index(CLASSIFIER)] = str(here)
    assert audit.main(words) == 0
    with torch.no_grad():
        positive = (classifier(as_unit_float(data.images("test")[:10])) > 0).float().mean().item()
    facts = json.loads((here / "found/audit.json").read_text())
    assert facts["generator_error"]["positive_real"] == pytest.approx(positive)


class Bomb:
    def __reduce__(self):
        return (open, ("executed", "w"))


@pytest.mark.parametrize("name", ["model.pt", "model.ckpt", "model.pt2", "model.onnx"])
def test_a_hostile_pickle_is_refused_without_being_executed(run, here, capsys, name):
    (here / name).write_bytes(pickle.dumps(Bomb()))
    words = options(run)
    words[words.index(CLASSIFIER)] = name
    assert audit.main(words) == 2
    assert capsys.readouterr().err.startswith(f"error: {name} is not ")
    assert not (here / "executed").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--do", "Bald=1"], "unknown attribute 'Bald'"),
        (["--do", "Bangs=2"], "do(Bangs=2) is out of range. Valid: 0 or 1"),
        (["--do", "Bangs"], "written name=value"),
        (["--do", "Bangs=yes"], "'yes' is not a number"),
        (["--among", "Yong=1"], "unknown attribute 'Yong'. Did you mean 'Young'"),
        (["--explain", "Bang"], "--explain: unknown binary attribute 'Bang'. Did you mean 'Bangs'"),
        (["--threshold", "1.5"], "--threshold is a probability between 0 and 1"),
        (["--mean", "0.1,0.2"], "one for each of the 3 channels"),
        (["--positive", "3"], "the classifier has two classes: --positive is 0 or 1, not 3"),
        (["--accelerator", "abacus"], "--accelerator abacus --devices 1:"),
        (["--do", "Young=1", "--among", "Young=1"], "--among Young=1: no --do changes any of these"),
        (
            ["--out", "here/is a file/found"],
            "cannot write here/is a file/found: Not a directory (--out chooses another",
        ),
    ],
)
def test_bad_input_gets_one_line(run, here, capsys, more, message):
    (here / "here").mkdir()
    (here / "here/is a file").touch()
    before = sorted(here.rglob("*"))
    do = [] if "Young=1" in more else DO
    assert audit.main(options(run, "--images", "5", *more, do=do)) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("error: ")
    assert message in lines[-1]
    assert len(lines) == 1 or lines[:-1] == ["auditing: 5 images"]
    assert sorted(here.rglob("*")) == before


def test_a_seed_is_not_below_zero(run, capsys):
    with pytest.raises(SystemExit) as stopped:
        audit.main(options(run, "--seed", "-1"))
    assert stopped.value.code == 2
    assert "argument --seed: -1 is not 0 or more" in capsys.readouterr().err


def test_what_comes_to_nothing_leaves_no_folder(run, here, capsys):
    """This classifier passes all checks, and then has no answer."""
    few = ["--images", "10", "--batch_size", "1", "--explain", "none"]
    words = options(run, *few, "--out", "new/found", do=["Bangs=1"])
    words[words.index(CLASSIFIER)] = "tests.audit.shifting:SoonBroken"
    assert audit.main(words) == 2
    assert "auditing: 10 images\nerror: the classifier returns nan" in capsys.readouterr().err
    assert not (here / "new").exists()
    assert audit.main([*words, "--out", "found", "--classifier", CLASSIFIER]) == 0
    assert (here / "found/report.html").is_file()


def test_functions_without_weights_are_told_apart(run, here):
    """The file of two functions is one, their names and their answers are not."""
    found = set()
    for name in ("Reddish", "Blueish"):
        few = ["--images", "5", "--explain", "none", "--classifier", f"tests.audit.shifting:{name}", "--out", name]
        assert audit.main(options(run, *few, do=["Bangs=1"])) == 0
        found.add(json.loads((here / name / "audit.json").read_text())["classifier"]["sha256"])
    (here / "nothing.py").write_text("import torch\n\ndef classifier():\n    return torch.nn.Flatten(0)\n")
    (here / "other.py").write_text((here / "nothing.py").read_text() + "# another file\n")
    network = torch.nn.Flatten(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(here)
        found |= {fingerprint(f"{name}:classifier", network) for name in ("nothing", "other")}
    assert len(found) == 4


def test_nothing_to_change_and_no_one_to_look_at(run, data, capsys):
    a = data.columns("test")
    name = next(k for k in a if a[k][0] == 1)
    assert audit.main(options(run, "--images", "1", do=[f"{name}=1"])) == 2
    assert f"--do {name}=1: all 1 images are so already" in capsys.readouterr().err
    assert audit.main(options(run, "--images", "1", "--among", f"{name}=0", do=[f"{name}=0"])) == 2
    assert f"--among {name}=0: none of the 1 images is so" in capsys.readouterr().err


@pytest.mark.slow
def test_two_processes_find_what_one_finds(run, here):
    """21 images in batches of 5: a sampler that pads would count some twice."""
    found = []
    for devices in ("1", "2"):
        words = options(run, "--images", "21", "--batch_size", "5", "--devices", devices, "--out", f"on{devices}")
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "cfgen.audit", *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-3000:]
        folder = here / f"on{devices}"
        assert json.loads((folder / "audit.json").read_text())["device"] == f"{devices} x cpu"
        found.append([(folder / name).read_text() for name in ("bias.csv", "importance.csv")])
    assert found[0] == found[1]
    n = [int(row["n"]) for row in rows(here / "on2")]
    assert max(n) == 21


def test_the_command_is_listed(capsys):
    from cfgen.__main__ import main

    assert main([]) == 2
    assert "audit" in capsys.readouterr().out
