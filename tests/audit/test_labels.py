"""What yes means, and with what the classifier's answers are compared."""

import json

import pytest
import pytorch_lightning as pl
import yaml

from cfgen.audit._labels import labels_of
from cfgen.classifiers import ExternalClassifier
from cfgen.commands import audit
from lightning_modules import Classifier
from tests.audit.shifting import CLASSIFIER, options


def labels_from(data, classifier, label, positive):
    (loaded,) = ExternalClassifier(classifier, label=label, positive=positive).load(data.image_shape)
    return labels_of(loaded, data, "test", len(data.targets("test")))


def classifier_run(folder, data=None, shape=(3, 64, 64), classes=2):
    """A run of cfgen, untrained, with the config it would have."""
    folder.mkdir()
    trainer = pl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
    trainer.strategy.connect(Classifier(shape, classes=classes, width=0.05))
    trainer.save_checkpoint(folder / "last.ckpt", weights_only=True)
    if data is not None:
        (folder / "config.yaml").write_text(yaml.safe_dump({"data": data}))
    return str(folder)


FACES = {"class_path": "datamodules.Faces", "init_args": {"count": 100}}
SMILING = {"class_path": "datamodules.CelebA", "init_args": {"target": "Smiling"}}
MALE = {"class_path": "datamodules.CelebA", "init_args": {"target": "Male"}}


@pytest.mark.parametrize(
    ("config", "label", "positive", "title", "source", "yes"),
    [
        (FACES, None, None, "Attractive", "target", 1),
        (FACES, None, 0, "not Attractive", "target", 0),
        (FACES, "Attractive", None, "Attractive", "target", 1),
        (FACES, "Young", None, "Young", "Young", 1),
        (FACES, "handsome", None, "handsome", None, 1),
        (SMILING, None, None, "Smiling", "Smiling", 1),  # not what the model's data has as its target
        (SMILING, None, 0, "not Smiling", "Smiling", 0),
        (MALE, None, None, "Male", None, 1),  # which the model's data does not know
        (None, None, None, "yes", None, 1),  # a checkpoint alone
        ("foreign", None, None, "yes", None, 1),
        ("foreign", None, 31, "class 31", None, 1),
        ("foreign", "Attractive", None, "Attractive", "target", 1),
        ("foreign", "Smiling", 31, "Smiling", "Smiling", 1),  # whichever class says it, yes is that it is there
        ("foreign", "Smiling", 0, "Smiling", "Smiling", 1),
    ],
)
def test_answers_are_compared_with_what_was_asked(data, here, config, label, positive, title, source, yes):
    classifier = CLASSIFIER if config == "foreign" else classifier_run(here / "theirs", config)
    found = labels_from(data, classifier, label, positive)
    assert found.meaning == title
    if source is None:
        assert found.answers is None
    else:
        values = data.targets("test") if source == "target" else data.columns("test")[source]
        assert found.answers.tolist() == (values == yes).tolist()
        assert 0 < found.answers.sum() < len(values)


def test_digits_have_classes_by_number(tiny_run, here):
    from cfgen.runs.data import run_data

    digits = run_data(tiny_run)
    digits.setup()
    config = yaml.safe_load((tiny_run / "config.yaml").read_text())["data"]
    theirs = classifier_run(here / "theirs", config, (1, 28, 28), 10)
    labels = digits.columns("test")["label"]
    cls = int(labels[0])
    for classifier, label, title in ((theirs, None, f"class {cls}"), (CLASSIFIER, "label", "label")):
        found = labels_from(digits, classifier, label, cls)
        assert found.meaning == title
        assert found.answers.tolist() == (labels == cls).tolist()
    assert labels_from(digits, CLASSIFIER, None, cls).answers is None
    assert labels_from(digits, CLASSIFIER, "label", 11).answers is None  # no such digit
    assert labels_from(digits, CLASSIFIER, "thickness", 1).answers is None  # no class at all


def test_a_run_is_held_to_its_own_target(run, data, here, capsys):
    words = options(run, "--count", "30", "--explain", "none", "--out", "found", do=["Bangs=1"])
    words[words.index(CLASSIFIER)] = classifier_run(here / "theirs", SMILING)
    assert audit.main(words) == 0
    out = capsys.readouterr().out
    assert "Bias in points towards Smiling" in out
    assert "Attractive" not in out
    facts = json.loads((here / "found/audit.json").read_text())
    says_yes = facts["model_error"]["positive_real"]
    assert says_yes in (0, 1)  # untrained, and so of one opinion
    smiling = data.columns("test")["Smiling"][:30].mean().item()
    assert facts["accuracy"] == pytest.approx(smiling if says_yes else 1 - smiling)
    assert f"says {'yes' if says_yes else 'no'} to every base image" in out


def test_nobody_knows_what_a_foreign_classifier_was_asked(run, here, capsys):
    for more in ([], ["--label", "Reddish"]):
        folder = "-".join(["found", *more])
        assert audit.main(options(run, "--count", "10", "--explain", "none", *more, "--out", folder)) == 0
        out = capsys.readouterr().out
        assert "accuracy" not in out
        assert ("Bias in points towards Reddish, all" if more else "Bias in points, all images (total effect)") in out
        assert json.loads((here / folder / "audit.json").read_text())["accuracy"] is None
        page = (here / folder / "report.html").read_text()
        assert "above 0.5" in page
        assert "; accuracy" not in page
