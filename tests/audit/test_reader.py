"""What a reader of attributes sees in an audit's images."""

import pytest
import pytorch_lightning as pl
import torch

from cfgen import audit
from cfgen.audit.classifiers.external import ExternalClassifier
from cfgen.audit.run import Audit, Images, Plan
from cfgen.counterfactual import as_unit_float
from cfgen.runs.loading import load, load_reader
from lightning_modules import Predictor
from tests.audit.shifting import options, rows


@pytest.fixture(scope="module")
def reader(data, tmp_path_factory):
    """Untrained, so that it is often wrong, with thresholds in the middle of what it says of real images."""
    torch.manual_seed(0)
    module = Predictor(data.scm_spec, data.image_shape, width=0.05).eval()
    with torch.no_grad():
        said = module(as_unit_float(data.images("test")))
        list(module.parameters())[-1].sub_(said.median(dim=0).values.reshape(list(module.parameters())[-1].shape))
    return saved(module, tmp_path_factory.mktemp("reader"))


def saved(module, folder):
    trainer = pl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
    trainer.strategy.connect(module)
    trainer.save_checkpoint(folder / "last.ckpt", weights_only=True)
    return folder


def test_seen_as_asked_is_what_the_reader_says_of_each_image(run, data, reader, here):
    do = {"Bangs=1": {"Bangs": 1}, "Young=0,Pale_Skin=1": {"Young": 0, "Pale_Skin": 1}}
    more = [
        "--reader",
        str(reader),
        "--among",
        "Smiling=1",
        "--explain",
        "none",
        "--batch_size",
        "16",
        "--out",
        "found",
    ]
    assert audit.main(options(run, *more, do=list(do))) == 0
    found = {(row["among"], row["change"]): row for row in rows(here / "found")}
    model, eyes = load(run), load_reader(reader)
    x, a = as_unit_float(data.images("test")), data.columns("test")
    for text, wanted in do.items():
        made = eyes.read(model.counterfactual(x, a, wanted, seed=0).images)
        real = eyes.read(x)
        for among, members in (("everyone", a["Young"] >= 0), ("Smiling=1", a["Smiling"] == 1)):
            lists = {"seen_as_asked": [], "seen_in_real_images": []}
            for i in members.nonzero()[:, 0].tolist():
                has = all(a[k][i] == v for k, v in wanted.items())
                read = real if has else made
                lists["seen_in_real_images" if has else "seen_as_asked"].append(
                    all(read[k][i] == v for k, v in wanted.items())
                )
            for column, right in lists.items():
                assert float(found[among, text][column]) == pytest.approx(sum(right) / len(right), abs=1e-5)
        assert 0 < float(found["everyone", text]["seen_as_asked"]) < 1
    assert found["everyone", "brightness"]["seen_as_asked"] == ""
    text = (here / "found/report.html").read_text()
    assert text.count('<th scope="col">seen as asked</th>') == 2


def test_a_reader_that_cannot_judge_is_refused(run, data, here, capsys):
    spec = data.scm_spec | {
        "attributes": {"Hat": {"kind": "binary"}, "Bangs": {"kind": "continuous", "low": 0, "high": 1}}
    }
    other = Predictor(spec | {"edges": []}, data.image_shape, width=0.05)
    small = Predictor(data.scm_spec, (1, 28, 28), width=0.05)
    for module, message in (
        (other, "decides Hat: it can judge no --do of these"),
        (small, "--reader sees images of shape (1, 28, 28), and the generator makes images of shape (3, 64, 64)"),
    ):
        folder = here / str(module.image_shape[0])
        folder.mkdir()
        assert audit.main(options(run, "--reader", str(saved(module, folder)), "--images", "5", do=["Bangs=1"])) == 2
        assert message in capsys.readouterr().err
    assert audit.main(options(run, "--reader", str(run), "--images", "5", do=["Bangs=1"])) == 2
    assert "a Predictor is needed here" in capsys.readouterr().err


def test_continuous_attributes_are_left_out(tiny_run, here):
    """Of `thickness=3,label=7` the label alone is seen or not; of `thickness=3` nothing is."""
    from cfgen.runs.loading import run_data

    digits = run_data(tiny_run)
    digits.setup()
    module = load(tiny_run).module
    eyes = Predictor(digits.scm_spec, digits.image_shape, width=0.1).eval()
    eyes.schema.fit_ranges(digits.train_columns)
    plan = Plan({"both": {"thickness": 3, "label": 7}, "thick": {"thickness": 3}})
    images = Images(digits.images("test")[:20], {k: v[:20] for k, v in digits.columns("test").items()}, "test")
    classifier = ExternalClassifier(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 1)))
    auditor = Audit(module, classifier, images, plan, reader=eyes)
    audit.quiet_trainer("cpu", "1").predict(auditor, return_predictions=False)
    assert [name for name in auditor.scores.names if name.startswith(("seen", "floor"))] == ["seen/both", "floor/both"]
    read = eyes.read(auditor.examples("both", torch.arange(20)).x_c)["label"]
    assert auditor.scores["seen/both"].tolist() == (read == 7).float().tolist()
    is_seven = images.columns["label"] == 7
    assert torch.equal(~auditor.scores["floor/both"].isnan(), is_seven)
