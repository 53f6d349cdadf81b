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

from cfgen.commands import evaluate
from datamodules import Faces, MorphoMNIST
from lightning_modules import Classifier, CondALI, Predictor, StyleALI
from tests.evaluation.scoring import make_run
from tests.fakes import fitted
from tests.refusals import refusal

ROOT = Path(__file__).parents[2]
FIGURES = ("target_against_measured", "reconstructions", "interpolations", "counterfactual_grid")


@pytest.fixture(scope="module")
def digits(tmp_path_factory, digits_cache):
    """Untrained models of digits, by name: a model, a classifier of Appendix G and a predictor."""
    options = {"limit": 300, "cache_dir": str(digits_cache)}
    data, section = MorphoMNIST(**options), {"class_path": "datamodules.MorphoMNIST", "init_args": options}
    data.prepare_data()
    predictor = Predictor(data.scm_spec, data.image_shape, width=0.1)
    data.setup()
    predictor.schema.fit_ranges(data.train_columns)
    modules = {
        "model": fitted(CondALI, data, width=0.1),
        "classifier": Classifier(data.image_shape, 10, width=0.1),
        "predictor": predictor,
    }
    folder = tmp_path_factory.mktemp("digits")
    return {name: make_run(folder / name / "001", module, section) for name, module in modules.items()}


@pytest.fixture(scope="module")
def faces(tmp_path_factory):
    """An untrained model of a hundred drawn faces, and a classifier."""
    folder = tmp_path_factory.mktemp("faces")
    options = {"count": 100, "cache_dir": str(folder)}
    data, section = Faces(**options), {"class_path": "datamodules.Faces", "init_args": options}
    data.prepare_data()
    modules = {
        "model": fitted(StyleALI, data, width=0.02, latent_dim=4),
        "classifier": Classifier(data.image_shape, 2, width=0.02),
    }
    return {name: make_run(folder / name / "001", module, section) for name, module in modules.items()}


@pytest.fixture
def run(digits, tmp_path):
    """A copy of the model's run, for evaluation writes into it."""
    return shutil.copytree(digits["model"], tmp_path / "001")


def metrics_of(run: Path, name: str = "metrics.json"):
    return json.loads((run / name).read_text())


def test_scores_are_written_and_repeatable(run, digits, capsys):
    (run / "metrics.csv").write_text("epoch\n0\n")
    written = []
    for batch_size in ("250", "7"):
        words = [str(run), "--classifier", str(digits["classifier"]), "--predictor", str(digits["predictor"])]
        assert evaluate.main([*words, "--batch_size", batch_size]) == 0
        written.append(metrics_of(run))
    metrics, again = written
    assert metrics.keys() == again.keys()
    for name, value in metrics.items():
        if isinstance(value, float):
            assert again[name] == pytest.approx(value, rel=1e-3, abs=1e-6), name
    assert metrics["images"] == 30
    assert 0 <= metrics["accuracy/do(label)"] <= 1
    assert metrics["median_abs_error/floor/thickness"] < metrics["median_abs_error/untouched/thickness"]
    for name in ("composition_l1/1", "reversibility_l1/do(label)"):
        assert metrics[name] > metrics["standard_errors"][name] > 0
    assert metrics["commutativity_l1/do(thickness),do(label)"] >= 0
    assert 0.693 <= metrics["minimality_cld/do(slant)"] <= 1.694
    assert {f"predicted/{do}/thickness" for do in ("do(label)", "floor", "untouched")} <= metrics.keys()
    assert metrics["about"]["predicted/do(label)/label"] == {"unit": "share right", "attribute": "label"}
    assert metrics["about"]["mse_x"]["attribute"] is None
    lines = list(csv.DictReader((run / "metrics-test.csv").open()))
    assert [line["name"] for line in lines] == list(metrics)[: len(lines)]
    row = next(line for line in lines if line["name"] == "mse_x")
    assert float(row["value"]) == pytest.approx(again["mse_x"], rel=1e-4)
    assert row["n"] == "30"
    for name in (*FIGURES, "misclassified_labels"):
        assert (run / f"{name}-test.png").stat().st_size > 1000
    assert (run / "metrics.csv").read_text() == "epoch\n0\n"  # training's, untouched
    out = capsys.readouterr().out
    assert "do(thickness)" in out
    assert "Read by the judges" in out
    assert f"into {run}" in out


def test_a_run_of_training_is_evaluated(tiny_run, tmp_path):
    run = shutil.copytree(tiny_run, tmp_path / "001")
    assert evaluate.main([str(run), "--count", "12", "--metrics", "effectiveness,cycles"]) == 0
    assert metrics_of(run)["median_abs_error/floor/slant"] < 0.01
    assert (run / "metrics.csv").read_text().startswith("epoch")


def test_judges_that_come_with_cfgen_are_the_default(run, capsys):
    """Their mean with the lowest and the highest of them, in all that is printed and written."""
    assert evaluate.main([str(run), "--count", "12", "--metrics", "effectiveness,labels"]) == 0
    metrics = metrics_of(run)
    names = metrics["judges"]
    assert len(names) == 3
    assert all(name.startswith("morphomnist-") for name in names)
    out = " ".join(capsys.readouterr().out.split())
    assert f"Judges: {', '.join(names)}; in brackets, the lowest and the highest of them." in out
    lines = {line["name"]: line for line in csv.DictReader((run / "metrics-test.csv").open())}
    for name in (
        "predicted/do(label)/thickness",
        "predicted/floor/label",
        "predicted/untouched/slant",
        "accuracy/do(label)",
    ):
        each = metrics["scores_by_judge"][name]
        assert list(each) == names
        assert metrics[name] == pytest.approx(statistics.fmean(each.values()), rel=1e-5)
        assert float(lines[name]["lowest_judge"]) == pytest.approx(min(each.values()), rel=1e-4)
        assert float(lines[name]["highest_judge"]) == pytest.approx(max(each.values()), rel=1e-4)
    assert metrics["accuracy/do(label)"] == metrics["predicted/do(label)/label"]
    assert lines["median_abs_error/floor/slant"]["lowest_judge"] == ""
    one = [str(run), "--count", "12", "--metrics", "effectiveness", "--predictor", names[0], "--split", "val"]
    assert evaluate.main(one) == 0
    alone = metrics_of(run, "metrics-val.json")
    assert alone["judges"] == names[:1]
    assert "in brackets" not in capsys.readouterr().out


def test_validation_split_does_not_overwrite_test_scores(run):
    assert evaluate.main([str(run), "--split", "val", "--count", "10", "--metrics", "cycles"]) == 0
    assert metrics_of(run, "metrics-val.json")["images"] == 10
    assert not (run / "metrics.json").exists()


def test_only_what_is_wanted_as_often_as_wanted(run, capsys):
    words = [str(run), "--count", "12", "--metrics", "effectiveness,cycles", "--values", "3", "--predictor", "none"]
    assert evaluate.main(words) == 0
    metrics = metrics_of(run)
    assert "judges" not in metrics
    assert metrics["values"] == 3
    assert {name.split("/")[0] for name in metrics["standard_errors"]} <= {
        "median_abs_error", "mse_x", "mae_z", "composition_l1",
    }  # fmt: skip
    assert not [name for name in metrics if name.startswith(("reversibility", "commutativity", "minimality"))]
    counted = {line["name"]: line["n"] for line in csv.DictReader((run / "metrics-test.csv").open())}
    assert counted["median_abs_error/do(slant)/slant"] == counted["mse_x"] == "12"


def test_over_seeds_is_the_mean_of_single_seeds(run):
    found = []
    for options in (["--seed", "4"], ["--seed", "5"], ["--seed", "4", "--seeds", "2"]):
        assert evaluate.main([str(run), "--count", "12", "--metrics", "effectiveness,cycles", *options]) == 0
        found.append(metrics_of(run))
    four, five, both = found
    assert both["seeds"] == 2
    for name in ("median_abs_error/untouched/slant", "mae_z"):
        assert four[name] != five[name]
        assert both[name] == pytest.approx((four[name] + five[name]) / 2)
        spread = statistics.stdev([four[name], five[name]]) / 2**0.5
        assert both["standard_errors_over_seeds"][name] == pytest.approx(spread)
    assert both["standard_errors_over_seeds"]["median_abs_error/floor/slant"] == 0


def test_faces_against_the_truth_and_a_biased_classifier(faces, tmp_path, capsys):
    """Table 2's figures, the distance from the truth, Fig. 5 to 7."""
    run = shutil.copytree(faces["model"], tmp_path / "001")
    features = "tests.evaluation.scoring:Bands"
    refusal(evaluate.main, [run, "--fid", "tests_features:Colours"], capsys, "fid")
    refusal(evaluate.main, [run, "--fid", features, "--count", "1"], capsys, "fid")
    assert evaluate.main([str(run), "--fid", features, "--classifier", str(faces["classifier"])]) == 0
    assert "Distance from the true counterfactual" in capsys.readouterr().out
    metrics = metrics_of(run)
    assert {"mse_x", "mae_z", "fid_Bands/generated", "true_error/do(Bangs)", "composition_l1/1"} <= metrics.keys()
    assert "fid_Bands/generated" not in metrics["standard_errors"]
    assert -1 <= metrics["bias/do(Smiling=1)"] <= 1
    assert sum(name.startswith("commutativity") for name in metrics) == 15
    assert metrics["images"] == 10
    for name in (*FIGURES[1:], "fairness_scatter", "attribute_ranking"):
        assert (run / f"{name}-test.png").stat().st_size > 1000


def test_several_models_are_compared(run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    other = shutil.copytree(run, tmp_path / "again" / "001")
    config = yaml.safe_load((other / "config.yaml").read_text())
    config["data"]["init_args"]["mechanisms"] = {"intensity": {"kind": "deepscm"}}  # assumed of the same images
    config["data"]["init_args"]["batch_size"] = 7  # how it is gone through, not what it is
    (other / "config.yaml").write_text(yaml.safe_dump(config))
    assert evaluate.main([str(run), str(other), "--count", "12", "--metrics", "effectiveness,cycles"]) == 0
    folder = tmp_path / "comparisons" / "001"
    lines = list(csv.DictReader((folder / "comparison.csv").open()))
    for name, path in ((tmp_path.name, run), ("again", other)):
        metrics = metrics_of(path)
        values = {line["name"]: float(line[name]) for line in lines}
        expected = {key: math.inf if metrics[key] is None else metrics[key] for key in values}
        assert values == pytest.approx(expected, rel=1e-4)
    text = (folder / "comparison.md").read_text()
    assert "**" in next(line for line in text.splitlines() if line.startswith("| mse_x"))
    floor = next(line for line in text.splitlines() if line.startswith("| median_abs_error/floor/thickness"))
    assert "**" not in floor
    assert "data:image/png;base64," in (folder / "comparison.html").read_text()
    assert (folder / "ablation.png").stat().st_size > 1000
    assert "comparison.html" in capsys.readouterr().out
    words = [str(run), str(other), "--count", "4", "--metrics", "cycles", "--out", "elsewhere"]
    assert evaluate.main(words) == 0
    assert (tmp_path / "elsewhere" / "comparison.csv").is_file()
    refusal(evaluate.main, words, capsys, "out")


def test_models_of_other_data_are_not_compared(run, tmp_path, capsys):
    other = shutil.copytree(run, tmp_path / "other" / "001")
    config = yaml.safe_load((other / "config.yaml").read_text())
    config["data"]["init_args"]["limit"] = 200
    (other / "config.yaml").write_text(yaml.safe_dump(config))
    assert "limit: 300 and 200" in refusal(evaluate.main, [run, other], capsys, "models")
    assert not (run / "metrics.json").exists()


def test_unfinished_and_foreign_runs_are_refused(run, digits, tmp_path, capsys):
    (run / "finished.json").unlink()
    refusal(evaluate.main, [run], capsys, "model")
    assert evaluate.main([str(run / "last.ckpt"), "--count", "5", "--metrics", "cycles"]) == 0  # as it is
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "model.bin").write_bytes(b"?")
    (tmp_path / "torn.ckpt").write_bytes(b"?")
    for wrong in (tmp_path / "foreign", tmp_path / "torn.ckpt", tmp_path / "nothing", digits["classifier"]):
        refusal(evaluate.main, [wrong], capsys, "model")
    (run / "finished.json").write_text("{}")
    (run / "config.yaml").unlink()
    refusal(evaluate.main, [run], capsys, "model")


def test_refusals(run, digits, faces, tmp_path, capsys):
    cases = {
        ("--classifier", str(run)): "classifier",
        ("--classifier", str(faces["classifier"])): "classifier",
        ("--predictor", str(run)): "predictor",
        (str(run),): "models",
        ("--out", str(tmp_path / "new")): "out",
        ("--accelerator", "abacus"): "accelerator",
        ("--metrics", "cycle"): "metrics",
        ("--metrics", "cycles,labels", "--predictor", "none"): "metrics",
        ("--predictor", "none", "--predictor", str(digits["predictor"])): "predictor",
        ("--predictor", str(digits["predictor"]), "--predictor", str(digits["predictor"])): "predictor",
        ("--predictor", "faces-residual-0"): "predictor",  # sees images of another shape
        ("--metrics", "truth"): "metrics",
        ("--split", "train"): "split",
        ("--count", "0"): "count",
        ("--values", "x"): "values",
    }
    for options, argument in cases.items():
        refusal(evaluate.main, [run, *options], capsys, argument)
    refusal(evaluate.main, [run, faces["model"], "--out", tmp_path], capsys, "out")
    refusal(evaluate.main, [], capsys)
    assert not (run / "metrics.json").exists()


@pytest.mark.slow
def test_the_command_on_two_processes_writes_what_one_writes(run, tmp_path):
    assert evaluate.main([str(run), "--count", "13"]) == 0
    one = metrics_of(run)
    (run / "metrics.json").unlink()
    words = [str(run), "--count", "13", "--accelerator", "cpu", "--devices", "2", "--batch_size", "4"]
    done = subprocess.run(
        [sys.executable, "-m", "cfgen.evaluate", *words],
        env=os.environ | {"PYTHONPATH": str(ROOT)}, cwd=tmp_path, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("wrote metrics.json") == 1
    two = metrics_of(run)
    assert one.keys() == two.keys()
    for name, value in one.items():
        if isinstance(value, float):
            assert two[name] == pytest.approx(value, rel=1e-3, abs=1e-6), name


@pytest.mark.slow
def test_a_run_of_two_processes_evaluates_like_any_other(tiny, tiny_run, tmp_path):
    command = [
        sys.executable,
        "-m",
        "cfgen.fit",
        "--config",
        "quickstart",
        *[{"50": "25"}.get(word, word) for word in tiny],
    ]
    command += ["--trainer.devices", "2", "--trainer.accelerator", "cpu", "--trainer.max_epochs", "1"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "WANDB_MODE": "disabled"}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    found = []
    for path in (shutil.copytree(tiny_run, tmp_path / "001"), tmp_path / "runs/quickstart/001"):
        assert evaluate.main([str(path), "--count", "12"]) == 0
        found.append(metrics_of(path))
    one, two = found
    assert one.keys() == two.keys()
    assert all(one[name] == two[name] for name in one if "/floor/" in name or "/untouched/" in name)
    assert one["mse_x"] != two["mse_x"]
