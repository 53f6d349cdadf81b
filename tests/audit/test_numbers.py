"""An audit's numbers: against the public API's, against the ground truth, and what they cost."""

import json

import pytest
import torch

from cfgen import audit
from cfgen.audit.classifiers.load import load_network
from cfgen.audit.plan import Plan
from cfgen.audit.report.quality import warnings
from cfgen.audit.results import EVERYONE, findings, flips
from cfgen.audit.run import Images, example_images
from cfgen.audit.transformations import brighten, horizontal_flip
from cfgen.counterfactual import as_unit_float
from cfgen.external.classifier import ExternalClassifier
from cfgen.runs.model import load_trained
from lightning_modules import ImageMechanismModule
from tests.audit.shifting import CLASSIFIER, DO, Reddish, Shift, options, rows, table


def test_the_folder_and_its_numbers(run, data, here, capsys):
    more = ["--among", "Young=0", "--explain", "Bangs,Young", "--explain_count", "25", "--batch_size", "16"]
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
    model, network = load_trained(run), load_network(CLASSIFIER)
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
    assert facts["command"].startswith("cfgen audit --model")
    assert facts["seed"] == 0
    assert facts["device"] == "1 x cpu"
    assert facts["seconds"] > 0
    assert facts["options"]["do"] == DO
    assert facts["data"]["images"] == len(x)
    right = (say(x) == (data.targets("test") == 1)).float().mean().item()
    assert facts["accuracy"] == pytest.approx(right)
    assert f"{right:.1%} of {len(x)} images" in out
    assert f"{100 * right:.1f} % of the images themselves" in (folder / "report.html").read_text()
    assert len(facts["data"]["sha256"]) == len(facts["model"]["sha256"]) == len(facts["classifiers"][0]["sha256"]) == 64
    assert facts["model_error"]["agreement"] == 1  # the mechanism is exact
    assert torch.__version__.startswith(facts["versions"]["torch"])


class Bluish(Shift):
    """Loses some red, but changes colours rightly."""

    def decode(self, z, a):
        return super().decode(z, a) - torch.tensor([0.3, 0.0, 0.0])[:, None, None]


def test_what_a_model_loses_can_be_kept(run, data, here):
    """With the residual kept, a model that loses some red is the exact one."""
    exact, classifier = Shift(data.scm_spec, data.image_shape), ExternalClassifier(Reddish())
    bluish = Bluish(data.scm_spec, data.image_shape)
    images = Images(data.images("test"), data.columns("test"), "test")
    tables, plans = [], []
    for mechanism, keep in ((exact, True), (bluish, True), (bluish, False)):
        mechanism.scm.fit(data.train_columns)
        plans.append(Plan({"Young=0": {"Young": 0}}, ["Bangs"], keep_residual=keep))
        tables.append(table(mechanism, classifier, images, plans[-1]))
    best, kept, lost = tables
    for name in ("base", "do/Young=0", "flip/Bangs"):
        torch.testing.assert_close(kept[name], best[name], equal_nan=True)
        assert not torch.allclose(lost[name], best[name], equal_nan=True)
    assert torch.equal(kept["base"], kept["real"])
    torch.testing.assert_close(kept["own"], lost["base"])  # the reconstruction is asked about all the same
    torch.testing.assert_close(kept["mse"], torch.full_like(kept["mse"], 0.03))  # its own error is told all the same
    shown = example_images(bluish, images, plans[1], "Young=0", torch.arange(3))
    assert torch.equal(shown.x_r, as_unit_float(images.x[:3]))
    kinds = []
    for scores, plan in zip(tables[1:], plans[1:], strict=True):
        result = findings(scores, plan, {EVERYONE: torch.ones(len(images.x)).bool()})
        (warning,) = warnings(result, plan)[:1]
        differing = ((lost["real"] > 0.5) != (lost["base"] > 0.5)).float().mean().item()
        assert differing > 0.05
        assert f"{100 * differing:.1f} % of the" in warning
        kinds.append("is added back" in warning)
    assert kinds == [True, False]
    assert audit.main(options(run, "--count", "20", "--explain", "none", "--keep_residual", "--out", "kept")) == 0
    assert "the images themselves: what" in (here / "kept" / "report.html").read_text()
    few = ["--count", "5", "--explain", "none", "--out", "plain"]
    assert audit.main(options(run, *few, do=["Young=0", "Young=1"])) == 0
    facts = [json.loads((here / folder / "audit.json").read_text()) for folder in ("kept", "plain")]
    assert facts[0]["model"] == facts[1]["model"]  # the same one, whatever is done with its images


class Oracle(ImageMechanismModule):
    """The true mechanism: a state is which face it is, and decoding draws that face anew."""

    def __init__(self, data):
        super().__init__(data.scm_spec, data.image_shape)
        self.data = data
        self.rows = {image.numpy().tobytes(): row for row, image in enumerate(data.images("test"))}

    def prior(self, a, noise=None):
        return torch.arange(len(a))

    def abduct(self, x, a, noise=None):
        pixels = x.mul(255).round().to(torch.uint8)
        return torch.tensor([self.rows[image.numpy().tobytes()] for image in pixels])

    def decode(self, z, a):
        return as_unit_float(self.data.true_counterfactual("test", z, a))


def face_images(data):
    return Images(data.images("test"), data.columns("test"), "test", data)


def test_with_the_true_mechanism_the_estimate_is_the_truth(data):
    oracle = Oracle(data)
    oracle.scm.fit(data.train_columns)
    do = {"pale": {"Black_Hair": 1, "Pale_Skin": 1}, "serious": {"Smiling": 0}, "bright": {"Blond_Hair": 1}}
    images, plan = face_images(data), Plan(do)
    scores = table(oracle, ExternalClassifier(load_network(CLASSIFIER)), images, plan)
    found = findings(scores, plan, {EVERYONE: torch.ones(len(images.x), dtype=torch.bool)})
    assert found.model_error["mse_x"] == 0
    for row in found.bias:
        if row.do:
            assert row.truth_within
            assert row.values["bias"] == row.truth["bias"]
            assert row.error == 0
            assert row.untouched > 0
    assert any(row.values["flipped"] > 0 for row in found.bias if row.do)


class Counting(ExternalClassifier):
    """Counts the images that it is asked about."""

    def __init__(self, network):
        super().__init__(network)
        self.count = 0

    def forward(self, x):
        self.count += len(x)
        return super().forward(x)


@pytest.mark.parametrize("keep_residual", [False, True])
def test_work_and_memory_are_bounded(run, data, keep_residual):
    """No more than a batch is decoded at once, only what an intervention changes, filled up to eight, and nothing twice."""
    do = {"young": {"Young": 1}, "old": {"Young": 0}}
    columns = data.columns("test")
    tables = []
    for batch_size in (7, 100):
        module, classifier = load_trained(run).module, Counting(load_network(CLASSIFIER))
        images = Images(data.images("test"), columns, "test")
        plan = Plan(do, ["Young", "Bangs"], 10, batch_size=batch_size, keep_residual=keep_residual)
        tables.append(table(module, classifier, images, plan))
        n = len(columns["Young"])
        assert module.largest <= batch_size
        filled = 4 * 7 * -(-n // batch_size)  # at most: two interventions and two lines in each batch
        # base, and every image's other age, which also is Young's importance; Bangs only where it is explained
        assert 0 <= module.decoded - (n + n + 10) <= filled
        # real, base (or, with the residual kept, the reconstruction), two transformations, and the counterfactuals
        assert 0 <= classifier.count - (4 * n + n + 10) <= filled
        assert tables[-1]["flip/Bangs"].isnan().sum() == n - 10
    torch.testing.assert_close(tables[0].values, tables[1].values, equal_nan=True)


def test_examples_are_the_flipped_ones(run, data):
    images, plan = face_images(data), Plan({"pale": {"Pale_Skin": 1}}, batch_size=20)
    classifier, module = ExternalClassifier(load_network(CLASSIFIER)), load_trained(run).module
    scores = table(module, classifier, images, plan)
    chosen = flips(scores, "pale", 0.5, 3, seed=0)
    assert sum(map(len, chosen.values())) > 0
    for way, which in chosen.items():
        assert len(which) <= 3
        if len(which):
            x, x_r, x_c = example_images(module, images, plan, "pale", which)
            assert torch.equal(x, as_unit_float(data.images("test")[which]))
            assert (classifier(x_c) > 0.5).tolist() == [way == "up"] * len(which)
            assert (classifier(x_r) > 0.5).tolist() == [way == "down"] * len(which)


class Part:
    """One of two processes, as a table of scores sees it."""

    device, count = torch.device("cpu"), 2

    def __init__(self, rank):
        self.rank, self.first, self.share = rank, rank == 0, (rank, 2)
        self.launched = False

    def launch(self):
        self.launched = True

    def sum(self, values):
        assert self.launched
        return values


@pytest.mark.parametrize("keep_residual", [False, True])
def test_the_parts_of_two_processes_add_up_to_the_whole(run, data, keep_residual):
    images = face_images(data)
    plan = Plan({"old": {"Young": 0}}, ["Young", "Bangs"], 15, batch_size=8, keep_residual=keep_residual)
    classifier, module = ExternalClassifier(Reddish()), load_trained(run).module
    whole = table(module, classifier, images, plan)
    parts = [table(module, classifier, images, plan, processes=Part(rank)) for rank in (0, 1)]
    assert all((part.values[1 - rank :: 2] == 0).all() for rank, part in enumerate(parts))
    assert parts[0].names == whole.names
    torch.testing.assert_close(parts[0].values + parts[1].values, whole.values, equal_nan=True)


class Drawing(Shift):
    """Draws a part of its state: the images depend on the noise."""

    def abduct(self, x, a, noise=None):
        z, total = super().abduct(x, a)
        return z + 0.2 * noise.normal(3, 1, 1), total


def test_examples_of_a_mechanism_that_draws_are_the_images_that_were_counted(data):
    module = Drawing(data.scm_spec, data.image_shape)
    module.scm.fit(data.train_columns)
    images = face_images(data)
    classifier = ExternalClassifier(Reddish())
    rows_ = (images.columns["Young"] == 1).nonzero()[3:9:2, 0]
    tables = []
    for batch_size in (6, 100):
        plan = Plan({"old": {"Young": 0}}, batch_size=batch_size, seed=3)
        tables.append(table(module, classifier, images, plan))
        shown = example_images(module, images, plan, "old", rows_)
        torch.testing.assert_close(classifier(shown.x_c), tables[-1]["do/old"][rows_])
        torch.testing.assert_close(classifier(shown.x_r), tables[-1]["base"][rows_])
    torch.testing.assert_close(tables[0].values, tables[1].values, equal_nan=True)
    other = table(module, classifier, images, Plan({"old": {"Young": 0}}, seed=4))
    assert not torch.allclose(other["base"], tables[0]["base"])
