"""An audit's numbers: against the public API's, against the truth, and what they cost."""

import json

import pytest
import torch

import cfgen
from cfgen import audit
from cfgen.audit.classifiers.external import ExternalClassifier, load_network
from cfgen.audit.quality import warnings
from cfgen.audit.results import EVERYONE, findings, flips
from cfgen.audit.run import Audit, Images, Plan
from cfgen.audit.transformations import brighten, horizontal_flip
from cfgen.counterfactual import as_unit_float
from lightning_modules import ImageMechanismModule
from tests.audit.shifting import CLASSIFIER, DO, Reddish, Shift, options, rows


def test_the_folder_and_its_numbers(run, data, here, capsys):
    more = ["--among", "Young=0", "--explain", "Bangs,Young", "--explain_images", "25", "--batch_size", "16"]
    assert audit.main(options(run, *more, "--label", "Attractive", "--out", "found")) == 0
    out = capsys.readouterr().out
    assert "report: found/report.html" in out
    assert "Bias towards Attractive" in out
    folder = here / "found"
    names = {path.name for path in folder.iterdir()}
    assert names >= {"report.html", "bias.csv", "importance.csv", "audit.json", "causal_graph.png"}
    assert names >= {"fairness_do.png", "fairness_affine.png", "attribute_ranking.png"}
    assert any(name.startswith("flipped_") for name in names)

    # the reference: the model and the classifier asked in a plain loop, image by image
    model, network = cfgen.load(run), load_network(CLASSIFIER)
    x, a = as_unit_float(data.images("test")), data.columns("test")
    base = model.counterfactual(x, a, {}).reconstructions
    say = lambda images: network(images) > 0  # noqa: E731
    changed = {"horizontal_flip": (horizontal_flip(base), torch.ones(len(x)).bool())}
    changed["brightness"] = (brighten(base), torch.ones(len(x)).bool())
    for text in DO:
        do = {pair.split("=")[0]: int(pair.split("=")[1]) for pair in text.split(",")}
        lacking = torch.stack([a[name] != value for name, value in do.items()]).any(dim=0)
        changed[text] = (model.counterfactual(x, a, do, seed=0).images, lacking)
    found = {(row["among"], row["change"]): row for row in rows(folder)}
    assert len(found) == 2 * len(changed)
    flipped = 0
    for among, members in ((EVERYONE, a["Young"] >= 0), ("Young=0", a["Young"] == 0)):
        for name, (images, counted) in changed.items():
            pairs = [(bool(say(base)[i]), bool(say(images)[i])) for i in range(len(x)) if members[i] and counted[i]]
            row = found[among, name]
            assert int(row["n"]) == len(pairs)
            if not pairs:
                continue
            up, down = pairs.count((False, True)), pairs.count((True, False))
            flipped += up + down
            assert float(row["up"]) == pytest.approx(up / len(pairs), abs=1e-5)
            assert float(row["down"]) == pytest.approx(down / len(pairs), abs=1e-5)
            assert float(row["bias"]) == pytest.approx((up - down) / len(pairs), abs=1e-5)
            assert float(row["bias/low"]) <= float(row["bias"]) <= float(row["bias/high"])
    assert flipped > 20

    scores = {row["attribute"]: row for row in rows(folder, "importance.csv")}
    assert set(scores) == {"Bangs", "Young"}
    for name, row in scores.items():
        p = [network(model.counterfactual(x, a, {name: value}, seed=0).images).sigmoid() for value in (1, 0)]
        assert float(row["score"]) == pytest.approx((p[0] - p[1])[:25].mean().item(), abs=1e-5)
        assert row["n"] == "25"

    facts = json.loads((folder / "audit.json").read_text())
    assert facts["command"].startswith("cfgen audit --generator")
    assert facts["data"]["images"] == len(x)
    right = (say(x) == (data.targets("test") == 1)).float().mean().item()
    assert facts["accuracy"] == pytest.approx(right)
    assert f"right about Attractive, as the data has it: {right:.1%} of {len(x)} images" in out
    assert f"{100 * right:.1f} % of its answers are the data's own label" in (folder / "report.html").read_text()
    assert len(facts["data"]["sha256"]) == len(facts["generator"]["sha256"]) == 64
    assert facts["generator_error"]["agreement"] == 1  # the mechanism is exact
    assert torch.__version__.startswith(facts["versions"]["torch"])


def test_what_a_generator_loses_can_be_kept(run, data, here, capsys):
    """A generator that loses some red but changes colours rightly: with the residual kept it is the exact one."""

    class Bluish(Shift):
        def decode(self, z, a):
            return super().decode(z, a) - torch.tensor([0.3, 0.0, 0.0])[:, None, None]

    exact, classifier = Shift(data.scm_spec, data.image_shape), ExternalClassifier(Reddish())
    bluish = Bluish(data.scm_spec, data.image_shape)
    images = Images(data.images("test"), data.columns("test"), "test")
    found = []
    for mechanism, keep in ((exact, True), (bluish, True), (bluish, False)):
        mechanism.scm.fit(data.train_columns)
        plan = Plan({"Young=0": {"Young": 0}}, ["Bangs"], keep_residual=keep)
        auditor = Audit(mechanism, classifier, images, plan)
        audit.quiet_trainer("cpu", "1").predict(auditor, return_predictions=False)
        found.append(auditor)
    best, kept, lost = (auditor.scores for auditor in found)
    for name in ("base", "do/Young=0", "flip/Bangs"):
        torch.testing.assert_close(kept[name], best[name], equal_nan=True)
        assert not torch.allclose(lost[name], best[name], equal_nan=True)
    assert torch.equal(kept["base"], kept["real"])
    torch.testing.assert_close(kept["own"], lost["base"])  # the reconstruction is asked about all the same
    torch.testing.assert_close(kept["mse"], torch.full_like(kept["mse"], 0.03))  # its own error is told all the same
    torch.testing.assert_close(found[1].examples("Young=0", torch.arange(3)).x_r, as_unit_float(images.x[:3]))
    told = []
    for auditor in found[1:]:
        result = findings(auditor.scores, images.columns, auditor.plan, {EVERYONE: torch.ones(len(images.x)).bool()})
        (warning,) = warnings(result, auditor.plan)[:1]
        differing = ((lost["real"] > 0.5) != (lost["base"] > 0.5)).float().mean().item()
        assert differing > 0.05
        assert f"{100 * differing:.1f} % of the" in warning
        told.append("What it loses is given back" in warning)
    assert told == [True, False]
    assert audit.main(options(run, "--images", "20", "--explain", "none", "--keep_residual", "--out", "kept")) == 0
    assert "the images themselves: what" in (here / "kept" / "report.html").read_text()
    facts = [json.loads((here / folder / "audit.json").read_text()) for folder in ("kept", plainly(run))]
    assert facts[0]["generator"] == facts[1]["generator"]  # the same one, whatever is done with its images


def plainly(run):
    assert (
        audit.main(options(run, "--images", "5", "--explain", "none", "--out", "plain", do=["Young=0", "Young=1"])) == 0
    )
    return "plain"


class Oracle(ImageMechanismModule):
    """The true mechanism: a state is which face it is, and decoding draws that face anew."""

    def __init__(self, data):
        super().__init__(data.scm_spec, data.image_shape)
        self.data = data
        self.rows = {image.numpy().tobytes(): row for row, image in enumerate(data.images("test"))}

    def prior(self, rows):
        return torch.arange(rows)

    def abduct(self, x, a):
        pixels = x.mul(255).round().to(torch.uint8)
        return torch.tensor([self.rows[image.numpy().tobytes()] for image in pixels])

    def decode(self, z, a):
        return as_unit_float(self.data.true_counterfactual("test", z, a))


def predicted(mechanism, classifier, data, plan, count=None):
    images = Images(data.images("test")[:count], {k: v[:count] for k, v in data.columns("test").items()}, "test", data)
    auditor = Audit(mechanism, classifier, images, plan)
    audit.quiet_trainer("cpu", "1").predict(auditor, return_predictions=False)
    return auditor


def test_with_the_true_mechanism_the_estimate_is_the_truth(data):
    oracle = Oracle(data)
    oracle.scm.fit(data.train_columns)
    do = {"pale": {"Black_Hair": 1, "Pale_Skin": 1}, "serious": {"Smiling": 0}, "bright": {"Blond_Hair": 1}}
    classifier = ExternalClassifier(load_network(CLASSIFIER))
    auditor = predicted(oracle, classifier, data, Plan(do))
    everyone = {EVERYONE: torch.ones(len(auditor.images.x), dtype=torch.bool)}
    found = findings(auditor.scores, auditor.images.columns, auditor.plan, everyone)
    assert found.generator["mse_x"] == 0
    for row in found.bias:
        if row.do:
            assert row.truth_within
            assert row.values["bias"] == row.truth["bias"]
            assert row.error == 0
            assert row.untouched > 0
    assert any(row.values["flipped"] > 0 for row in found.bias if row.do)


def test_work_and_memory_are_bounded(run, data):
    """No more than a batch is decoded at once, and only what an intervention changes."""
    do = {"young": {"Young": 1}, "old": {"Young": 0}}
    columns = data.columns("test")
    for batch_size in (7, 100):
        module = cfgen.load(run).module
        plan = Plan(do, ["Young", "Bangs"], explain_images=10, batch_size=batch_size)
        auditor = predicted(module, ExternalClassifier(load_network(CLASSIFIER)), data, plan)
        n = len(columns["Young"])
        assert module.largest <= batch_size
        # base, and every image's other age, which also is Young's importance; Bangs only where it is explained
        assert module.decoded == n + n + 10
        assert auditor.scores["flip/Bangs"].isnan().sum() == n - 10
        if batch_size == 7:
            first = auditor.scores.values
    torch.testing.assert_close(auditor.scores.values, first, equal_nan=True)


def test_examples_are_the_flipped_ones(run, data):
    plan = Plan({"pale": {"Pale_Skin": 1}}, batch_size=20)
    classifier = ExternalClassifier(load_network(CLASSIFIER))
    auditor = predicted(cfgen.load(run).module, classifier, data, plan)
    chosen = flips(auditor.scores, "pale", 0.5, 3, seed=0)
    assert sum(map(len, chosen.values())) > 0
    for way, which in chosen.items():
        assert len(which) <= 3
        if len(which):
            x, x_r, x_c = auditor.examples("pale", which)
            assert torch.equal(x, as_unit_float(data.images("test")[which]))
            assert (classifier(x_c) > 0.5).tolist() == [way == "up"] * len(which)
            assert (classifier(x_r) > 0.5).tolist() == [way == "down"] * len(which)
