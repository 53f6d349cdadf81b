"""`cfgen evaluate` as a user types it."""

import json
import shutil

import pytest

from cfgen import evaluate, fit


@pytest.fixture(scope="module")
def judge(tmp_path_factory, digits_cache):
    """A digit classifier of Appendix G, trained for one epoch."""
    runs = tmp_path_factory.mktemp("judge")
    options = [
        "--data.source",
        "embedded",
        "--data.limit",
        "300",
        "--data.batch_size",
        "50",
        "--data.cache_dir",
        str(digits_cache),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WANDB_MODE", "disabled")
        arguments = [
            "--config",
            "morphomnist_classifier",
            *options,
            "--trainer.max_epochs",
            "1",
            "--runs_dir",
            str(runs),
        ]
        assert fit.main([*arguments, "--trainer.enable_progress_bar", "false"]) == 0
    return runs / "morphomnist_classifier"


@pytest.fixture
def run(tiny_run, tmp_path):
    """A copy of the run, for evaluation writes into it."""
    return shutil.copytree(tiny_run, tmp_path / "001")


def test_scores_are_written_and_repeatable(run, judge, capsys):
    written = []
    for _ in range(2):
        assert evaluate.main([str(run), "--classifier", str(judge)]) == 0
        written.append((run / "metrics.json").read_text())
    assert written[0] == written[1]
    metrics = json.loads(written[0])
    assert metrics["images"] == 30
    assert 0 <= metrics["accuracy/do(label)"] <= 1
    assert metrics["median_abs_error/floor/thickness"] < metrics["median_abs_error/untouched/thickness"]
    assert metrics["composition_l1/1"] > 0
    assert (run / "target_against_measured-test.png").stat().st_size > 1000
    assert "do(thickness)" in capsys.readouterr().out


def test_validation_split_does_not_overwrite_test_scores(run):
    assert evaluate.main([str(run), "--split", "val", "--images", "10"]) == 0
    assert json.loads((run / "metrics-val.json").read_text())["images"] == 10
    assert not (run / "metrics.json").exists()


def test_refusals(run, judge, capsys):
    assert evaluate.main([str(judge)]) == 2
    assert "Classifier, but a ImageMechanismModule is needed" in capsys.readouterr().err
    assert evaluate.main([str(run), "--classifier", str(run)]) == 2
    assert "but a Classifier is needed" in capsys.readouterr().err
    (run / "config.yaml").unlink()
    assert evaluate.main([str(run)]) == 2
    assert "does not say which data" in capsys.readouterr().err
