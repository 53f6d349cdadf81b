"""`cfgen evaluate` as a user types it."""

import csv
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cfgen import evaluate, fit

ROOT = Path(__file__).parents[2]
FIGURES = ("target_against_measured", "reconstructions", "interpolations", "counterfactual_grid")


def trained(config, runs, *options):
    """A run of one epoch."""
    words = ["--config", config, *options, "--trainer.max_epochs", "1", "--runs_dir", str(runs)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WANDB_MODE", "disabled")
        assert fit.main([*words, "--trainer.enable_progress_bar", "false"]) == 0
    return runs / config


@pytest.fixture(scope="module")
def small(digits_cache):
    return [
        "--data.source",
        "embedded",
        "--data.limit",
        "300",
        "--data.batch_size",
        "50",
        "--data.cache_dir",
        str(digits_cache),
    ]


@pytest.fixture(scope="module")
def judge(tmp_path_factory, small):
    """A digit classifier of Appendix G."""
    return trained("morphomnist_classifier", tmp_path_factory.mktemp("judge"), *small)


@pytest.fixture(scope="module")
def reader(tmp_path_factory, small):
    """A predictor of all attributes."""
    return trained("morphomnist_predictor", tmp_path_factory.mktemp("reader"), *small, "--model.width", "0.1")


@pytest.fixture(scope="module")
def faces(tmp_path_factory):
    """A model of drawn faces, of a hundred of them."""
    runs = tmp_path_factory.mktemp("faces")
    options = ["--data.count", "100", "--data.cache_dir", str(runs), "--data.batch_size", "20"]
    trained("faces_styleali", runs, *options, "--model.width", "0.02", "--model.latent_dim", "4")
    trained("faces_classifier", runs, *options)
    return runs


@pytest.fixture
def run(tiny_run, tmp_path):
    """A copy of the run, for evaluation writes into it."""
    return shutil.copytree(tiny_run, tmp_path / "001")


def test_scores_are_written_and_repeatable(run, judge, reader, capsys):
    written = []
    for _ in range(2):
        assert evaluate.main([str(run), "--classifier", str(judge), "--predictor", str(reader)]) == 0
        written.append([(run / name).read_text() for name in ("metrics.json", "metrics-test.csv")])
    assert written[0] == written[1]
    metrics = json.loads(written[0][0])
    assert metrics["images"] == 30
    assert 0 <= metrics["accuracy/do(label)"] <= 1
    assert metrics["median_abs_error/floor/thickness"] < metrics["median_abs_error/untouched/thickness"]
    for name in ("composition_l1/1", "reversibility_l1/do(label)"):
        assert metrics[name] > metrics["standard_errors"][name] > 0
    assert metrics["commutativity_l1/do(thickness),do(label)"] >= 0
    assert 0.693 <= metrics["minimality_cld/do(slant)"] <= 1.694
    assert {f"predicted/{do}/thickness" for do in ("do(label)", "floor", "untouched")} <= metrics.keys()
    lines = list(csv.DictReader(written[0][1].splitlines()))
    assert [line["name"] for line in lines] == list(metrics)[: len(lines)]
    assert float(lines[0]["value"]) == pytest.approx(metrics[lines[0]["name"]], rel=1e-4)
    assert lines[0]["n"] == "30"
    for name in (*FIGURES, "misclassified_labels"):
        assert (run / f"{name}-test.png").stat().st_size > 1000
    assert (run / "metrics.csv").read_text().startswith("epoch")  # training's, untouched
    out = capsys.readouterr().out
    assert "do(thickness)" in out
    assert "Read by the predictor" in out


def test_validation_split_does_not_overwrite_test_scores(run):
    assert evaluate.main([str(run), "--split", "val", "--images", "10"]) == 0
    assert json.loads((run / "metrics-val.json").read_text())["images"] == 10
    assert not (run / "metrics.json").exists()


def test_only_what_is_wanted_as_often_as_wanted(run, capsys):
    assert evaluate.main([str(run), "--images", "12", "--metrics", "effectiveness,cycles", "--values", "3"]) == 0
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["values"] == 3
    assert {name.split("/")[0] for name in metrics["standard_errors"]} == {
        "median_abs_error", "mse_x", "mae_z", "composition_l1",
    }  # fmt: skip
    counted = {line["name"]: line["n"] for line in csv.DictReader((run / "metrics-test.csv").open())}
    assert counted["median_abs_error/do(slant)/slant"] == counted["mse_x"] == "12"
    with pytest.raises(SystemExit) as stopped:
        evaluate.main([str(run), "--metrics", "cycle"])
    assert stopped.value.code == 2
    assert "unknown metric 'cycle'. Did you mean 'cycles'?" in capsys.readouterr().err


def test_scores_that_tell_less_do_not_take_the_place_of_others(run, capsys):
    some = ["--metrics", "effectiveness,cycles"]
    assert evaluate.main([str(run), "--images", "20", *some]) == 0
    before = (run / "metrics.json").read_text()
    for less in (["--images", "12", *some], ["--images", "20", "--metrics", "cycles"]):
        assert evaluate.main([str(run), *less]) == 0
        assert "metrics-partial.json" in capsys.readouterr().out
        assert (run / "metrics.json").read_text() == before
    assert evaluate.main([str(run), "--metrics", "effectiveness,cycles,reversibility"]) == 0
    assert json.loads((run / "metrics.json").read_text())["images"] == 30


def test_over_seeds_is_the_mean_of_single_seeds(run):
    found = []
    for options in (["--seed", "4"], ["--seed", "5"], ["--seed", "4", "--seeds", "2"]):
        assert evaluate.main([str(run), "--images", "12", *options]) == 0
        found.append(json.loads((run / "metrics.json").read_text()))
    four, five, both = found
    assert both["seeds"] == 2
    for name in ("median_abs_error/untouched/slant", "mae_z"):
        assert four[name] != five[name]
        assert both[name] == pytest.approx((four[name] + five[name]) / 2)
        spread = statistics.stdev([four[name], five[name]]) / 2**0.5
        assert both["standard_errors_over_seeds"][name] == pytest.approx(spread)
    assert both["standard_errors_over_seeds"]["median_abs_error/floor/slant"] == 0


def test_faces_against_the_truth_and_a_biased_classifier(faces, tmp_path, monkeypatch, capsys):
    """Table 2's figures, the distance from the truth, Fig. 5 to 7."""
    run = shutil.copytree(faces / "faces_styleali/001", tmp_path / "001")
    assert evaluate.main([str(run), "--fid", "tests_features:Colours"]) == 2
    assert "tests_features" in capsys.readouterr().err
    (tmp_path / "colours.py").write_text(
        "import torch\nclass Colours(torch.nn.Module):\n    num_features = 3\n    def forward(self, x):\n        return x.mean((2, 3))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "odd.py").write_text("from colours import Colours\nclass Odd(Colours):\n    num_features = 5\n")
    for bad, message in ((["--fid", "odd:Odd"], "must return (2, 5)"), (["--images", "1"], "needs 2 images or more")):
        assert evaluate.main([str(run), "--fid", "colours:Colours", *bad]) == 2
        assert message in capsys.readouterr().err
    options = ["--fid", "colours:Colours", "--classifier", str(faces / "faces_classifier")]
    assert evaluate.main([str(run), *options]) == 0
    assert "Distance from the true counterfactual" in capsys.readouterr().out
    metrics = json.loads((run / "metrics.json").read_text())
    assert {"mse_x", "mae_z", "fid_Colours/generated", "true_error/do(Bangs)", "composition_l1/1"} <= metrics.keys()
    assert "fid_Colours/generated" not in metrics["standard_errors"]
    assert -1 <= metrics["bias/do(Smiling=1)"] <= 1
    assert sum(name.startswith("commutativity") for name in metrics) == 15
    assert metrics["images"] == 10
    for name in (*FIGURES[1:], "fairness_scatter", "attribute_ranking"):
        assert (run / f"{name}-test.png").stat().st_size > 1000


def test_several_runs_are_compared(run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    other = shutil.copytree(run, tmp_path / "again" / "001")
    shutil.copy(other / "last.ckpt", other / "best.ckpt")
    config = yaml.safe_load((other / "config.yaml").read_text())
    config["data"]["init_args"]["mechanisms"] = {"intensity": {"kind": "deepscm"}}  # assumed of the same images
    (other / "config.yaml").write_text(yaml.safe_dump(config))
    assert evaluate.main([str(run), str(other), "--images", "12"]) == 0
    folder = tmp_path / "comparisons" / "001"
    lines = list(csv.DictReader((folder / "comparison.csv").open()))
    for name, path in ((tmp_path.name, run), ("again", other)):
        metrics = json.loads((path / "metrics.json").read_text())
        values = {line["name"]: float(line[name]) for line in lines}
        assert values == pytest.approx(
            {key: math.inf if metrics[key] is None else metrics[key] for key in values}, rel=1e-4
        )
    text = (folder / "comparison.md").read_text()
    row = next(line for line in text.splitlines() if line.startswith("| mse_x"))
    assert "**" in row
    floor = next(line for line in text.splitlines() if line.startswith("| median_abs_error/floor/thickness"))
    assert "**" not in floor
    page = (folder / "comparison.html").read_text()
    assert "data:image/png;base64," in page
    assert "http" not in page
    assert (folder / "ablation.png").stat().st_size > 1000


def test_runs_of_other_data_are_not_compared(run, tmp_path, capsys):
    other = shutil.copytree(run, tmp_path / "other" / "001")
    config = yaml.safe_load((other / "config.yaml").read_text())
    config["data"]["init_args"]["batch_size"] = 7  # how it is gone through, not what it is
    config["data"]["init_args"]["limit"] = 200
    (other / "config.yaml").write_text(yaml.safe_dump(config))
    assert evaluate.main([str(run), str(other)]) == 2
    error = capsys.readouterr().err
    assert "different data (limit: 300 and 200): only models of the same images" in error
    assert not (run / "metrics.json").exists()


def test_unfinished_and_foreign_runs_are_refused(run, judge, tmp_path, capsys):
    (run / "finished.json").unlink()
    assert evaluate.main([str(run)]) == 2
    assert f"{run} was not trained to its end. `cfgen fit --config" in capsys.readouterr().err
    assert evaluate.main([str(run / "last.ckpt"), "--images", "5"]) == 0  # as it is
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "model.bin").write_bytes(b"?")
    assert evaluate.main([str(tmp_path / "foreign")]) == 2
    assert "holds no finished run" in capsys.readouterr().err
    (tmp_path / "foreign" / "best.ckpt").write_bytes(b"?")
    assert evaluate.main([str(tmp_path / "foreign" / "best.ckpt")]) == 2
    assert "is not a checkpoint of cfgen" in capsys.readouterr().err
    assert evaluate.main([str(tmp_path / "nothing")]) == 2
    assert "no run, checkpoint or exported model" in capsys.readouterr().err
    assert evaluate.main([str(judge)]) == 2
    assert "Classifier, but a ImageMechanismModule is needed" in capsys.readouterr().err


def test_refusals(run, faces, tmp_path, capsys):
    cases = {
        ("--classifier", str(run)): "but a Classifier is needed",
        ("--classifier", str(faces / "faces_classifier")): "sees images of shape (3, 64, 64)",
        ("--predictor", str(run)): "but a Predictor is needed",
        (str(run),): "is given twice",
        ("--out", str(tmp_path / "new")): "--out is for the comparison of several runs",
        ("--device", "abacus"): "--device abacus cannot be used here",
        ("--metrics", "cycles,labels"): "--metrics labels needs --classifier with a classifier of labels",
        ("--metrics", "truth"): "--metrics truth needs data whose true counterfactuals are known",
    }
    for options, message in cases.items():
        assert evaluate.main([str(run), *options]) == 2
        assert message in capsys.readouterr().err
    assert evaluate.main([str(run), str(faces / "faces_styleali"), "--out", str(tmp_path)]) == 2
    assert "exists already: --out takes a new folder" in capsys.readouterr().err
    (run / "config.yaml").unlink()
    assert evaluate.main([str(run)]) == 2
    assert "does not say which data" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_of_two_processes_evaluates_like_any_other(tiny, run, tmp_path):
    command = [sys.executable, "-m", "cfgen.fit", "--config", "quickstart", *tiny, "--data.batch_size", "25"]
    command += ["--trainer.devices", "2", "--trainer.accelerator", "cpu", "--trainer.max_epochs", "1"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "WANDB_MODE": "disabled"}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    found = []
    for path in (run, tmp_path / "runs/quickstart"):
        assert evaluate.main([str(path), "--images", "12"]) == 0
        written = path if path == run else path / "001"
        found.append(json.loads((written / "metrics.json").read_text()))
    one, two = found
    assert one.keys() == two.keys()
    assert all(one[name] == two[name] for name in one if "/floor/" in name or "/untouched/" in name)
    assert one["mse_x"] != two["mse_x"]
