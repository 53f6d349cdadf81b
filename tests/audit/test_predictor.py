"""What a predictor of attributes sees in an audit's counterfactuals."""

import pytest
import pytorch_lightning as pl
import torch

from cfgen import audit
from cfgen.audit.plan import Plan
from cfgen.audit.run import Images, example_images
from cfgen.checkpoints import load_module
from cfgen.counterfactual import as_unit_float
from cfgen.external.classifier import ExternalClassifier
from cfgen.runs.data import run_data
from cfgen.runs.model import load_trained
from lightning_modules import Predictor
from tests.audit.shifting import options, rows, table


@pytest.fixture(scope="module")
def predictor(data, tmp_path_factory):
    """Untrained, so that it is often wrong, with thresholds in the middle of its outputs for real images."""
    torch.manual_seed(0)
    module = Predictor(data.scm_spec, data.image_shape, width=0.05).eval()
    with torch.no_grad():
        outputs = module(as_unit_float(data.images("test")))
        list(module.parameters())[-1].sub_(outputs.median(dim=0).values.reshape(list(module.parameters())[-1].shape))
    return saved(module, tmp_path_factory.mktemp("predictor"))


def saved(module, folder):
    trainer = pl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
    trainer.strategy.connect(module)
    trainer.save_checkpoint(folder / "last.ckpt", weights_only=True)
    return folder


def test_recognised_is_what_the_predictor_reads_in_each_image(run, data, predictor, here):
    do = {"Bangs=1": {"Bangs": 1}, "Young=0,Pale_Skin=1": {"Young": 0, "Pale_Skin": 1}}
    more = ["--predictor", str(predictor), "--among", "Smiling=1", "--explain", "none", "--batch_size", "16"]
    assert audit.main(options(run, *more, "--out", "found", do=list(do))) == 0
    found = {(row["among"], row["change"]): row for row in rows(here / "found")}
    model, eyes = load_trained(run), load_module(predictor, Predictor).eval()
    x, a = as_unit_float(data.images("test")), data.columns("test")
    for text, wanted in do.items():
        made = eyes.read(model.counterfactual(x, a, wanted, seed=0).images)
        real = eyes.read(x)
        for among, members in (("everyone", a["Young"] >= 0), ("Smiling=1", a["Smiling"] == 1)):
            lists = {True: [], False: []}  # of real images that have it, of counterfactuals of those that do not
            for i in members.nonzero()[:, 0].tolist():
                has = all(a[k][i] == v for k, v in wanted.items())
                lists[has].append(all((real if has else made)[k][i] == v for k, v in wanted.items()))
            share = sum(lists[False]) / len(lists[False])
            assert float(found[among, text]["seen_as_asked"]) == pytest.approx(share, abs=1e-5)
            # real images that have it are weighted to be like the others
            assert min(lists[True]) <= float(found[among, text]["seen_in_real_images"]) <= max(lists[True])
        assert 0 < float(found["everyone", text]["seen_as_asked"]) < 1
    assert found["everyone", "brightness"]["seen_as_asked"] == ""


def test_a_predictor_that_cannot_judge_is_refused(run, data, here, capsys):
    spec = data.scm_spec | {
        "attributes": {"Hat": {"kind": "binary"}, "Bangs": {"kind": "continuous", "low": 0, "high": 1}}
    }
    other = Predictor(spec | {"edges": []}, data.image_shape, width=0.05)
    small = Predictor(data.scm_spec, (1, 28, 28), width=0.05)
    folders = {"a model": run}
    for name, module in (("other attributes", other), ("other images", small)):
        folders[name] = here / name
        folders[name].mkdir()
        saved(module, folders[name])
    for name, folder in folders.items():
        words = options(run, "--predictor", str(folder), "--count", "5", "--out", "found", do=["Bangs=1"])
        assert audit.main(words) == 2, name
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("error: --predictor: ")
        assert not (here / "found").exists()


def test_of_a_continuous_attribute_the_value_is_read(tiny_run):
    """Of `thickness=3,label=7` the label alone is seen or not; of `thickness=3` how thick it is."""
    digits = run_data(tiny_run)
    digits.setup()
    module = load_trained(tiny_run).module
    eyes = Predictor(digits.scm_spec, digits.image_shape, width=0.1).eval()
    eyes.schema.fit_ranges(digits.train_columns)
    plan = Plan({"both": {"thickness": 3, "label": 7}, "thick": {"thickness": 3}})
    images = Images(digits.images("test")[:20], {k: v[:20] for k, v in digits.columns("test").items()}, "test")
    classifier = ExternalClassifier(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 1)))
    scores = table(module, classifier, images, plan, predictor=eyes)
    read = [name for name in scores.names if name.startswith(("seen", "read"))]
    assert sorted(read) == ["read/both", "read/thick", "seen/both", "seen/thick"]
    both, thick = (eyes.read(example_images(module, images, plan, name, torch.arange(20)).x_c) for name in plan.do)
    assert scores["seen/both"].tolist() == (both["label"] == 7).float().tolist()
    torch.testing.assert_close(scores["seen/thick"], thick["thickness"])
    # the log-odds of the label, in x_c and in x
    logits = eyes(example_images(module, images, plan, "both", torch.arange(20)).x_c)[:, eyes.schema.slices["label"]]
    seven = logits.softmax(dim=1)[:, 7]
    torch.testing.assert_close(scores["drawn/both"], seven.log() - (1 - seven).log(), rtol=1e-3, atol=1e-3)
    assert "drawn/thick" not in scores.names
    real = eyes.read(as_unit_float(images.x))
    assert scores["read/both"].tolist() == (real["label"] == 7).float().tolist()
    torch.testing.assert_close(scores["read/thick"], real["thickness"])
