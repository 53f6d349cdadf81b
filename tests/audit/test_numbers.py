"""An audit's numbers: against the public API's, against the ground truth, and what they cost."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from cfgen.audit import answer, estimate, illustrate
from cfgen.audit._illustrate import EXAMPLES
from cfgen.audit._transformations import brighten, horizontal_flip
from cfgen.audit.answers import MSE, REAL, RECONSTRUCTION, Picture
from cfgen.audit.questions import EVERYONE
from cfgen.classifiers import YesProbability, load_network
from cfgen.commands import audit
from cfgen.counterfactual import as_unit_float
from cfgen.image_ids import random_rows
from cfgen.runs.model import TrainedModel, load_trained
from lightning_modules import ImageMechanismModule
from tests.audit.shifting import (
    CLASSIFIER,
    DO,
    Reddish,
    Shift,
    answers_to,
    counterfactuals,
    options,
    questions_about,
    rows,
)


def test_the_folder_and_its_numbers(run, data, here, capsys):
    more = ["--among", "Young=0", "--explain", "Bangs,Young", "--explain_count", "25", "--batch_size", "16"]
    assert audit.main(options(run, *more, "--label", "Attractive", "--out", "found")) == 0
    out = capsys.readouterr().out
    assert "report: found/report.html" in out
    assert "Bias in points towards Attractive" in out
    folder = here / "found"
    names = {path.name for path in folder.iterdir()}
    assert names >= {"report.html", "bias.csv", "importance.csv", "audit.json", "provenance.json", "causal_graph.png"}
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
        changed[text] = (counterfactuals(model, x, a, do, data.ids("test")), lacking)
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

    ranked = random_rows(data.ids("test"), 0, "importance", 25)
    scores = {row["attribute"]: row for row in rows(folder, "importance.csv")}
    assert set(scores) == {"Bangs", "Young"}
    for name, row in scores.items():
        p = [network(counterfactuals(model, x, a, {name: value}, data.ids("test"))).sigmoid() for value in (1, 0)]
        assert float(row["score"]) == pytest.approx((p[0] - p[1])[ranked].mean().item(), abs=1e-5)
        assert row["n"] == "25"

    provenance = json.loads((folder / "provenance.json").read_text())
    assert provenance["command"].startswith("cfgen audit --model")
    assert provenance["device"] == "1 x cpu"
    assert provenance["seconds"] > 0
    assert provenance["options"]["do"] == DO
    assert provenance["classifiers"] == [{"name": CLASSIFIER, "label": "Attractive"}]
    assert torch.__version__.startswith(provenance["versions"]["torch"])
    facts = json.loads((folder / "audit.json").read_text())
    assert facts["seed"] == 0
    assert facts["data"]["images"] == len(x)
    right = (say(x) == (data.targets("test") == 1)).float().mean().item()
    assert facts["accuracy"] == pytest.approx(right)
    assert f"{right:.1%} of {len(x)} images" in out
    page = (folder / "report.html").read_text().replace("\N{NO-BREAK SPACE}", " ")
    assert f"accuracy {100 * right:.1f} % on the real images" in page
    assert len(facts["data"]["sha256"]) == len(facts["model"]["sha256"]) == len(facts["classifiers"][0]["sha256"]) == 64
    assert facts["model_error"]["agreement"] == 1  # the mechanism is exact


def audit_of(questions):
    return estimate(questions, *answer(questions))


class Bluish(Shift):
    """Loses some red, but changes colours rightly."""

    def decode(self, z, a):
        return super().decode(z, a) - torch.tensor([0.3, 0.0, 0.0])[:, None, None]


def model_of(run, data, kind=Shift):
    """A mechanism in memory, with the data of a run."""
    module = kind(data.scm_spec, data.image_shape)
    module.scm.fit(data.train_columns)
    return TrainedModel(module, source=run)


def pictures(questions):
    """The base image, the reconstruction, and the counterfactual under the first intervention and under the last toggle."""
    (model,) = questions.models
    base, after = questions.compared(questions.interventions[0])
    last = [questions.compared(toggle)[1] for toggle in questions.toggles[-1:]]
    return base, Picture(RECONSTRUCTION, model=model), after, *last


def test_what_a_model_loses_can_be_kept(run, data, here):
    """With the residual kept, a model that loses some red is the exact one."""
    questions, tables, readings = [], [], []
    for kind, keep in ((Shift, True), (Bluish, True), (Bluish, False)):
        model = model_of(run, data, kind)
        questions.append(questions_about(model, Reddish(), do=["Young=0"], explain=["Bangs"], keep_residual=keep))
        answers, read = answers_to(questions[-1])
        tables.append([answers[picture] for picture in (Picture(REAL), *pictures(questions[-1]))])
        readings.append(read)
    best, kept, lost = tables
    for which in (1, 3, 4):  # base, intervention, toggle
        np.testing.assert_allclose(kept[which], best[which], rtol=1e-5, atol=1e-6)
        assert not np.allclose(lost[which], best[which], equal_nan=True)
    assert np.array_equal(kept[0], kept[1])  # the base image is the real one
    np.testing.assert_allclose(kept[2], lost[1], rtol=1e-5)  # the classifier answers to the reconstruction all the same
    error = readings[1].get(pictures(questions[1])[1], MSE)
    np.testing.assert_allclose(error, np.full(len(error), 0.03), rtol=1e-4)  # its own error is measured all the same
    kinds = []
    for one in questions[1:]:
        found = audit_of(one)
        shown = illustrate(one, found).flips[0]
        assert torch.equal(shown.base, shown.real) == one.keep_residual
        differing = ((lost[0] > 0.5) != (lost[1] > 0.5)).mean()
        assert differing > 0.05
        assert f"{100 * differing:.1f} % of the" in found.warnings[0]
        kinds.append("is added back" in found.warnings[0])
    assert kinds == [True, False]
    assert audit.main(options(run, "--count", "20", "--explain", "none", "--keep_residual", "--out", "kept")) == 0
    assert "the images themselves: the residual" in (here / "kept" / "report.html").read_text()
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


def test_with_the_true_mechanism_the_estimate_is_the_truth(run, data):
    oracle = Oracle(data)
    oracle.scm.fit(data.train_columns)
    do = ["Black_Hair=1,Pale_Skin=1", "Smiling=0", "Blond_Hair=1"]
    found = audit_of(questions_about(TrainedModel(oracle, source=run), CLASSIFIER, do=do)).first
    assert found.model_error["mse_x"] == 0
    assert [row.change for row in found.findings] == do
    for row in found.findings:
        assert row.truth_within
        assert row.flips["bias"] == row.truth["bias"]
        assert row.error == 0
        assert row.untouched > 0
    assert any(row.flips["flipped"] > 0 for row in found.findings)


@pytest.mark.parametrize("keep_residual", [False, True])
def test_work_and_memory_are_bounded(run, data, keep_residual):
    """No more than a batch is decoded at once, only what an intervention changes, filled up to eight, and nothing twice."""
    n, tables = len(data.images("test")), []
    for batch_size in (7, 100):
        model, asked = load_trained(run), Counter()
        questions = questions_about(
            model, CLASSIFIER, do=["Young=1", "Young=0"], explain=["Young", "Bangs"], explain_count=10,
            batch_size=batch_size, keep_residual=keep_residual,
        )  # fmt: skip
        assert model.module.decoded == 0  # nothing is drawn before all is decided
        (classifier,) = questions.material.classifiers.values()
        classifier.network.register_forward_pre_hook(lambda _, images, asked=asked: asked.update(images=len(images[0])))
        answers, _ = answers_to(replace(questions, has_truth=False))
        tables.append(answers)
        assert model.module.largest <= batch_size
        filled = 4 * 7 * -(-n // batch_size)  # at most: two interventions and two toggles in each batch
        # base, and every image's other age, which also is Young's importance; Bangs only where it is explained
        assert 0 <= model.module.decoded - (n + n + 10) <= filled
        # real, base (or, with the residual kept, the reconstruction), two transformations, and the counterfactuals
        assert 0 <= asked["images"] - (4 * n + n + 10) <= filled
        assert np.isnan(answers[pictures(questions)[-1]]).sum() == n - 10
    assert_close(*tables)


def assert_close(one, other):
    """Two tables of answers have the same pictures, and nearly the same answers to them."""
    assert list(one) == list(other)
    for picture, answers in one.items():
        np.testing.assert_allclose(other[picture], answers, rtol=1e-5, atol=1e-6)


def row_of(image, data):
    """The number of a test image."""
    (found,) = ((as_unit_float(data.images("test")) - image).abs().amax(dim=(1, 2, 3)) == 0).nonzero()[:, 0].tolist()
    return found


def test_examples_are_the_flipped_ones(run, data):
    questions = questions_about(load_trained(run), CLASSIFIER, do=["Pale_Skin=1"], batch_size=20)
    found = audit_of(questions)
    classifier, flips = YesProbability(load_network(CLASSIFIER)), illustrate(questions, found).flips
    assert flips
    for flip in flips:
        assert 0 < len(flip.real) <= EXAMPLES
        assert len({row_of(image, data) for image in flip.real}) == len(flip.real)
        up = flip.direction == "up"
        assert (classifier(flip.counterfactual)[:, 0] > 0.5).tolist() == [up] * len(flip.real)
        assert (classifier(flip.base)[:, 0] > 0.5).tolist() == [not up] * len(flip.real)


class Part:
    """One of two processes, as the step that answers sees it."""

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
def test_the_parts_of_two_processes_add_up_to_the_whole(run, keep_residual):
    questions = questions_about(
        load_trained(run), Reddish(), do=["Young=0"], explain=["Young", "Bangs"], explain_count=15, batch_size=8,
        keep_residual=keep_residual,
    )  # fmt: skip
    whole, readings = answers_to(questions)
    parts, read = zip(*(answers_to(questions, Part(rank)) for rank in (0, 1)), strict=True)
    for rank, part in enumerate(parts):
        assert all((answers[1 - rank :: 2] == 0).all() for answers in part.values())
    assert_close({picture: parts[0][picture] + parts[1][picture] for picture in parts[0]}, whole)
    assert list(read[0].values) == list(readings.values)
    for key, values in readings.values.items():
        np.testing.assert_allclose(read[0].values[key] + read[1].values[key], values, rtol=1e-5)


class Drawing(Shift):
    """Draws a part of its state: the images depend on the noise."""

    def abduct(self, x, a, noise=None):
        z, total = super().abduct(x, a)
        return z + 0.2 * noise.normal(3, 1, 1), total


def test_examples_of_a_mechanism_that_draws_are_the_images_that_were_counted(run, data):
    model, classifier = model_of(run, data, Drawing), YesProbability(Reddish())
    tables = []
    for batch_size in (6, 100):
        questions = questions_about(model, Reddish(), do=["Young=0"], batch_size=batch_size, seed=3)
        found = audit_of(questions)
        base, after = (found.answers["Reddish", one][:, 0] for one in questions.compared(*questions.interventions))
        flips = illustrate(questions, found).flips
        assert flips
        for flip in flips:
            rows_ = [row_of(image, data) for image in flip.real]
            for images, said, table in ((flip.base, flip.before, base), (flip.counterfactual, flip.after, after)):
                np.testing.assert_allclose(classifier(images)[:, 0], table[rows_], rtol=1e-5, atol=1e-6)
                np.testing.assert_array_equal(np.float32(said), table[rows_])
        tables.append(answers_to(questions)[0])
    assert_close(*tables)
    other, _ = answers_to(questions_about(model, Reddish(), do=["Young=0"], seed=4))
    base = pictures(questions)[0]
    assert not np.allclose(other[base], tables[0][base])
