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

from cfgen.audit.questions import EVERYONE
from cfgen.commands import audit
from cfgen.counterfactual import as_unit_float
from cfgen.runs.provenance import fingerprint
from lightning_modules import Classifier
from tests.audit.shifting import CLASSIFIER, DO, Reddish, options, rows

ROOT = Path(__file__).parents[2]


def refused_line(capsys):
    """The one line that a refusal prints, after the progress of what was begun."""
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("auditing: ")]
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    return lines[0]


def test_audits_are_never_overwritten_and_can_be_repeated(run, here, capsys):
    few = ["--count", "20", "--explain", "none"]
    for _ in range(2):
        assert audit.main(options(run, *few, do=["Young=1"])) == 0
    one, two = sorted((run / "audits").iterdir())
    assert (one.name, two.name) == ("001", "002")
    assert (one / "bias.csv").read_text() == (two / "bias.csv").read_text()
    assert not {"attribute_ranking.png", "importance.csv"} & {path.name for path in one.iterdir()}
    before = (one / "report.html").read_bytes()
    capsys.readouterr()
    assert audit.main(options(run, *few, "--out", str(one))) == 2
    assert refused_line(capsys).startswith("error: --out: ")
    assert (one / "report.html").read_bytes() == before


def test_digits_with_a_classifier_of_ten_classes(tiny_run, here, capsys):
    words = ["--model", str(tiny_run), "--classifier", "tests.audit.shifting:ten_classes", "--do", "thickness=3"]
    words += ["--do", "label=7", "--among", "label=3", "--accelerator", "cpu", "--predictor", "none", "--out", "found"]
    assert audit.main([*words, "--positive", "10"]) == 2  # there are ten
    assert refused_line(capsys).startswith("error: --positive: ")
    assert audit.main([*words, "--positive", "7"]) == 0
    found = {(row["among"], row["change"]): row for row in rows(here / "found")}
    assert int(found[EVERYONE, "thickness=3"]["n"]) == 30
    assert int(found[EVERYONE, "label=7"]["n"]) < 30
    assert "“class 7”" in (here / "found/report.html").read_text()


def test_several_classes_and_a_curve(tiny_run, here):
    words = ["--model", str(tiny_run), "--classifier", "tests.audit.shifting:ten_classes", "--curve", "thickness=2,3"]
    words += ["--positive", "3", "--positive", "7", "--explain", "thickness,label", "--predictor", "none"]
    assert audit.main([*words, "--accelerator", "cpu", "--out", "found"]) == 0
    found = rows(here / "found")
    assert {row["classifier"] for row in found} == {"class 3", "class 7"}
    assert {row["change"] for row in found if row["kind"] == "do"} == {"thickness=2", "thickness=3"}
    assert (here / "found/curve_thickness.png").is_file()
    ranked = {row["attribute"] for row in rows(here / "found", "importance.csv")}
    assert ranked == {"thickness", *(f"label={digit}" for digit in range(10))}
    # one network, two questions: the same images
    contrasts = rows(here / "found", "contrasts.csv")
    assert [(row["classifier"], row["against"]) for row in contrasts] == [("class 7", "class 3")] * 2


def test_a_run_of_cfgen_as_the_classifier(run, data, here):
    torch.manual_seed(0)
    classifier = Classifier((3, 64, 64), classes=2, width=0.05).eval()
    x = as_unit_float(data.images("test")[:10])
    with torch.no_grad():  # untrained, but with answers that differ
        for parameter in classifier.parameters():
            parameter.mul_(30)
        list(classifier.parameters())[-1].sub_(classifier(x).median())
        positive = (classifier(x) > 0).float().mean().item()
    assert 0 < positive < 1
    trainer = pl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
    trainer.strategy.connect(classifier)
    trainer.save_checkpoint(here / "last.ckpt", weights_only=True)
    words = options(run, "--count", "10", "--explain", "none", "--out", "found", do=["Bangs=1"])
    words[words.index(CLASSIFIER)] = str(here)
    assert audit.main(words) == 0
    facts = json.loads((here / "found/audit.json").read_text())
    assert facts["model_error"]["positive_real"] == pytest.approx(positive)


class Bomb:
    def __reduce__(self):
        return (open, ("executed", "w"))


@pytest.mark.parametrize("name", ["model.pt", "model.ckpt", "model.pt2", "model.onnx"])
def test_a_hostile_pickle_is_refused_without_being_executed(run, here, capsys, name):
    (here / name).write_bytes(pickle.dumps(Bomb(), protocol=2))
    words = options(run)
    words[words.index(CLASSIFIER)] = name
    assert audit.main(words) == 2
    assert refused_line(capsys).startswith(f"error: --classifier: {name} ")
    assert not (here / "executed").exists()


def test_a_program_is_audited_where_it_is_trusted(run, here, capsys):
    program = torch.export.export(
        Reddish(), (torch.rand(2, 3, 64, 64),), dynamic_shapes=({0: torch.export.Dim("n")},)
    )  # fmt: skip
    torch.export.save(program, here / "theirs.pt2")
    few = ["--count", "20", "--explain", "none"]
    words = options(run, *few, "--classifier", "theirs.pt2", do=["Bangs=1"])
    assert audit.main([*words, "--out", "found"]) == 2
    assert refused_line(capsys).startswith("error: --classifier: ")
    assert audit.main([*words, "--trusted", "--out", "found"]) == 0
    assert audit.main(options(run, *few, "--out", "module", do=["Bangs=1"])) == 0
    numbers = [[(row["change"], row["bias"]) for row in rows(here / folder)] for folder in ("found", "module")]
    assert numbers[0] == numbers[1]


@pytest.mark.parametrize(
    ("more", "argument"),
    [
        (["--do", "Bald=1"], "do"),
        (["--do", "Bangs=2"], "do"),
        (["--do", "Bangs"], "do"),
        (["--do", "Bangs=yes"], "do"),
        (["--among", "Yong=1"], "among"),
        (["--explain", "Bang"], "explain"),
        (["--threshold", "1.5"], "threshold"),
        (["--threshold", "0"], "threshold"),
        (["--mean", "0.1,0.2"], "mean"),
        (["--mean", "grey"], "mean"),
        (["--std", "0"], "std"),
        (["--resize", "8x"], "resize"),
        (["--resize", "big"], "resize"),
        (["--layout", "hwc"], "layout"),
        (["--output", "logits"], "output"),
        (["--positive", "3"], "positive"),
        (["--seed", "-1"], "seed"),
        (["--count", "0"], "count"),
        (["--batch_size", "0"], "batch_size"),
        (["--explain_count", "0"], "explain_count"),
        (["--split", "train"], "split"),
        (["--model", "nowhere"], "model"),
        (["--classifier", "nowhere"], "classifier"),
        (["--predictor", "nowhere"], "predictor"),
        (["--accelerator", "abacus"], "accelerator"),
        (["--devices", "none"], "devices"),
        (["--do", "Young=1", "--among", "Young=1"], "among"),
        (["--hold", "Young"], "hold"),
        (["--adjust", "Young"], "adjust"),
        (["--adjust", "Attractive"], "adjust"),
        (["--pairs", "3"], "pairs"),
        (["--pairs", "nowhere.csv"], "pairs"),
        (["--curve", "Young"], "curve"),
        (["--subgroups", "Yong"], "subgroups"),
        (["--local", "5"], "local"),
        (["--local", "x"], "local"),
    ],
)
def test_bad_input_gets_one_line_that_names_the_option(run, here, capsys, more, argument):
    before = sorted(here.rglob("*"))
    do = [] if "Young=1" in more else DO
    assert audit.main(options(run, "--count", "5", *more, "--out", "new/found", do=do)) == 2
    assert refused_line(capsys).startswith(f"error: --{argument}: ")
    assert sorted(here.rglob("*")) == before


def test_a_folder_that_cannot_be_written(run, here, capsys):
    (here / "a file").touch()
    assert audit.main(options(run, "--count", "5", "--out", "a file/found")) == 2
    assert "a file" in refused_line(capsys)


@pytest.mark.parametrize(
    ("old", "new"), [("--generator", "--model"), ("--reader", "--predictor"), ("--explain_images", "--explain_count")]
)
def test_an_option_by_its_old_name_is_told_the_new_one(capsys, old, new):
    assert audit.main([old, "5"]) == 2
    assert f"Did you mean {new}?" in refused_line(capsys)


def test_every_option_says_its_default_or_has_to_be_given(capsys):
    with pytest.raises(SystemExit) as stopped:
        audit.main(["--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out.partition("\noptions:")[2].partition("\nexamples:")[0]
    entries = [entry.split()[0] for entry in text.split("\n  --")[1:] if "(default:" not in " ".join(entry.split())]
    assert entries == ["model", "classifier", "do"]


def test_help_and_wrong_options_do_not_wait_for_torch():
    code = (
        "import sys; from cfgen.commands.audit import main; code = main(['--modle', 'x']); "
        "sys.exit(10 * ('torch' in sys.modules) + code)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stderr


def test_what_comes_to_nothing_leaves_no_folder(run, here, capsys):
    """This classifier passes all checks, and then has no answer."""
    few = ["--count", "10", "--batch_size", "1", "--explain", "none"]
    words = options(run, *few, "--out", "new/found", do=["Bangs=1"])
    words[words.index(CLASSIFIER)] = "tests.audit.shifting:SoonBroken"
    assert audit.main(words) == 2
    assert capsys.readouterr().err.startswith("auditing: 10 images\nerror: ")
    assert not (here / "new").exists()
    assert audit.main(options(run, *few, "--out", "found", do=["Bangs=1"])) == 0
    assert (here / "found/report.html").is_file()


def test_a_function_in_the_working_directory_is_found(run, here):
    (here / "mine_to_audit.py").write_text("from tests.audit.shifting import Reddish\n\nmodel = Reddish\n")
    words = options(run, "--count", "5", "--explain", "none", "--out", "found", do=["Bangs=1"])
    words[words.index(CLASSIFIER)] = "mine_to_audit:model"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", list(sys.path))
        assert audit.main(words) == 0
    assert (here / "found/report.html").is_file()


def test_functions_without_weights_are_told_apart(run, here):
    """The file of two functions is one, their names and their answers are not."""
    found = set()
    for name in ("Reddish", "Blueish"):
        few = ["--count", "5", "--explain", "none", "--classifier", f"tests.audit.shifting:{name}", "--out", name]
        assert audit.main(options(run, *few, do=["Bangs=1"])) == 0
        found.add(json.loads((here / name / "audit.json").read_text())["classifiers"][0]["sha256"])
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
    assert audit.main(options(run, "--count", "1", do=[f"{name}=1"])) == 2
    assert refused_line(capsys).startswith("error: --do: ")
    assert audit.main(options(run, "--count", "1", "--among", f"{name}=0", do=[f"{name}=0"])) == 2
    assert refused_line(capsys).startswith("error: --among: ")


@pytest.mark.slow
def test_two_processes_find_what_one_finds(run, here):
    """21 images in batches of 5: a sampler that pads would count some twice."""
    found = []
    for devices in ("1", "2"):
        words = options(run, "--count", "21", "--batch_size", "5", "--devices", devices, "--out", f"on{devices}")
        words.append("--trusted")  # the model's class is the tests'
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "cfgen.audit", *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-3000:]
        assert done.stdout.count("report: ") == 1  # the first process alone prints
        folder = here / f"on{devices}"
        assert json.loads((folder / "provenance.json").read_text())["device"] == f"{devices} x cpu"
        tables = [
            (folder / name).read_bytes() for name in ("bias.csv", "importance.csv", "audit.json", "answers.parquet")
        ]
        found.append((sorted(path.name for path in folder.iterdir()), tables))
    assert found[0] == found[1]
    n = [int(row["n"]) for row in rows(here / "on2")]
    assert max(n) == 21


def test_the_command_is_listed(capsys):
    from cfgen.__main__ import main

    assert main([]) == 2
    assert "audit" in capsys.readouterr().out
