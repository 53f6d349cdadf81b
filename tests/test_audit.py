"""`cfgen audit` as a user types it, its numbers against the public API's, against the truth, and on two processes."""

import csv
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml

import cfgen
from cfgen import audit
from cfgen.affine import brighten, horizontal_flip
from cfgen.audit_results import EVERYONE, findings, flips
from cfgen.audit_run import Audit, Images, Plan
from cfgen.counterfactual import as_unit_float
from cfgen.external_classifier import ExternalClassifier, load_network
from cfgen.loading import CounterfactualModel
from datamodules import Faces
from lightning_modules import ImageMechanismModule

ROOT = Path(__file__).parents[1]
# An exact mechanism without training, and a classifier that its counterfactuals do turn.
SOURCE = '''
import torch
from torch import nn
from lightning_modules import ImageMechanismModule

class Shift(ImageMechanismModule):
    """Each attribute makes one colour a little brighter or darker; a state is what is left without that."""

    def __init__(self, scm, image_shape):
        super().__init__(scm, image_shape)
        self.save_hyperparameters()
        amounts = 0.2 * torch.randn(self.scm.schema.size, 3, 1, 1, generator=torch.Generator().manual_seed(1))
        self.register_buffer("amounts", amounts)
        self.largest, self.decoded = 0, 0

    def prior(self, rows):
        return torch.zeros(rows, *self.image_shape), torch.zeros(rows)

    def abduct(self, x, a):
        return x - torch.einsum("nk,kchw->nchw", a, self.amounts), a.sum(1)

    def decode(self, z, a):
        self.largest, self.decoded = max(self.largest, len(a)), self.decoded + len(a)
        assert len(z[1]) == len(a)
        return z[0] + torch.einsum("nk,kchw->nchw", a, self.amounts)

class Reddish(nn.Module):
    def forward(self, x):
        return 12 * (x[:, 0].mean((1, 2)) - x[:, 2].mean((1, 2)) - 0.15)

def reddish():
    return Reddish()
'''
DO = ["Black_Hair=1,Pale_Skin=1", "Young=0", "Young=1", "Smiling=0"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the module above, importable."""
    folder = tmp_path_factory.mktemp("audit")
    (folder / "shifting.py").write_text(SOURCE)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield folder


@pytest.fixture(scope="module")
def data(place):
    faces = Faces(count=430, cache_dir=str(place / "cache"))
    faces.prepare_data()
    faces.setup()
    return faces


@pytest.fixture(scope="module")
def run(place, data):
    """A generator as a user would have it: an exported model with its config beside it."""
    import shifting

    module = shifting.Shift(data.scm_spec, data.image_shape)
    module.scm.fit(data.train_columns)
    folder = CounterfactualModel(module).save(place / "run")
    settings = {"count": 430, "cache_dir": str(place / "cache")}
    (folder / "config.yaml").write_text(
        yaml.safe_dump({"data": {"class_path": "datamodules.Faces", "init_args": settings}})
    )
    return folder


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def options(run, *more, do=DO):
    words = ["--generator", str(run), "--classifier", "shifting:reddish", "--accelerator", "cpu"]
    return [*words, *(word for text in do for word in ("--do", text)), *more]


def rows(folder, name="bias.csv"):
    return list(csv.DictReader((folder / name).open()))


def test_the_folder_and_its_numbers(run, data, here, capsys):
    more = ["--among", "Young=0", "--explain", "Bangs,Young", "--explain_images", "25", "--batch_size", "16"]
    assert audit.main(options(run, *more, "--out", "found")) == 0
    out = capsys.readouterr().out
    assert "report: found/report.html" in out
    assert "Bias towards Attractive" in out
    folder = here / "found"
    names = {path.name for path in folder.iterdir()}
    assert names >= {"report.html", "bias.csv", "importance.csv", "audit.json", "causal_graph.png"}
    assert names >= {"fairness_do.png", "fairness_affine.png", "attribute_ranking.png"}
    assert any(name.startswith("flipped_") for name in names)

    # the reference: the model and the classifier asked in a plain loop, image by image
    model, network = cfgen.load(run), load_network("shifting:reddish")
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
    assert len(facts["data"]["sha256"]) == len(facts["generator"]["sha256"]) == 64
    assert facts["generator_error"]["agreement"] == 1  # the mechanism is exact
    assert torch.__version__.startswith(facts["versions"]["torch"])


def test_what_a_generator_loses_can_be_kept(run, data, here, capsys):
    """A generator that loses some red but changes colours rightly: with the residual kept it is the exact one."""
    import shifting

    class Bluish(shifting.Shift):
        def decode(self, z, a):
            return super().decode(z, a) - torch.tensor([0.3, 0.0, 0.0])[:, None, None]

    exact, classifier = shifting.Shift(data.scm_spec, data.image_shape), ExternalClassifier(shifting.reddish())
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
    torch.testing.assert_close(kept["mse"], torch.full_like(kept["mse"], 0.03))  # its own error is told all the same
    torch.testing.assert_close(found[1].examples("Young=0", torch.arange(3)).x_r, as_unit_float(images.x[:3]))
    assert audit.main(options(run, "--images", "20", "--explain", "none", "--keep_residual", "--out", "kept")) == 0
    assert "the images themselves: what" in (here / "kept" / "report.html").read_text()


def test_audits_are_never_overwritten_and_can_be_repeated(run, here, capsys):
    few = ["--images", "20", "--explain", "none"]
    for _ in range(2):
        assert audit.main(options(run, *few, do=["Young=1"])) == 0
    one, two = sorted((run / "audits").iterdir())
    assert (one.name, two.name) == ("001", "002")
    assert (one / "bias.csv").read_text() == (two / "bias.csv").read_text()
    assert not (one / "attribute_ranking.png").exists()
    assert audit.main(options(run, *few, "--out", str(one))) == 2
    assert "exists already: --out takes a new folder" in capsys.readouterr().err


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
    classifier = ExternalClassifier(load_network("shifting:reddish"))
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
        auditor = predicted(module, ExternalClassifier(load_network("shifting:reddish")), data, plan)
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
    classifier = ExternalClassifier(load_network("shifting:reddish"))
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


def test_digits_with_a_classifier_of_ten_classes(tiny_run, here, place):
    (place / "digits_for_audit.py").write_text(
        "import torch\nfrom torch import nn\n"
        "def model():\n    torch.manual_seed(0)\n    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))\n"
    )
    words = ["--generator", str(tiny_run), "--classifier", "digits_for_audit:model", "--do", "thickness=3"]
    words += ["--do", "label=7", "--among", "label=3", "--accelerator", "cpu", "--out", "found"]
    assert audit.main(words) == 2  # which of the ten?
    assert audit.main([*words, "--positive", "7"]) == 0
    found = {(row["among"], row["change"]): row for row in rows(here / "found")}
    assert int(found[EVERYONE, "thickness=3"]["n"]) == 30
    assert int(found[EVERYONE, "label=7"]["n"]) < 30
    assert "“class 7”" in (here / "found/report.html").read_text()


def test_a_run_of_cfgen_as_the_classifier(run, data, here):
    import pytorch_lightning as pl

    from lightning_modules import Classifier

    classifier = Classifier((3, 64, 64), classes=2, width=0.05).eval()
    trainer = pl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
    trainer.strategy.connect(classifier)
    trainer.save_checkpoint(here / "last.ckpt", weights_only=True)
    words = options(run, "--images", "10", "--explain", "none", "--out", "found", do=["Bangs=1"])
    words[words.index("shifting:reddish")] = str(here)
    assert audit.main(words) == 0
    with torch.no_grad():
        positive = (classifier(as_unit_float(data.images("test")[:10])) > 0).float().mean().item()
    facts = json.loads((here / "found/audit.json").read_text())
    assert facts["generator_error"]["positive_real"] == pytest.approx(positive)


class Bomb:
    def __reduce__(self):
        return (open, ("executed", "w"))


@pytest.mark.parametrize("name", ["model.pt", "model.ckpt", "model.pt2", "model.onnx"])
def test_a_hostile_pickle_is_refused_without_being_executed(run, here, capsys, name):
    (here / name).write_bytes(pickle.dumps(Bomb()))
    words = options(run)
    words[words.index("shifting:reddish")] = name
    assert audit.main(words) == 2
    assert capsys.readouterr().err.startswith(f"error: {name} is not ")
    assert not (here / "executed").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--do", "Bald=1"], "unknown attribute 'Bald'"),
        (["--do", "Bangs=2"], "do(Bangs=2) is out of range. Valid: 0 or 1"),
        (["--do", "Bangs"], "written name=value"),
        (["--among", "Yong=1"], "unknown attribute 'Yong'. Did you mean 'Young'"),
        (["--explain", "Bang"], "--explain: unknown binary attribute 'Bang'. Did you mean 'Bangs'"),
        (["--threshold", "1.5"], "--threshold is a probability between 0 and 1"),
        (["--mean", "0.1,0.2"], "one for each of the 3 channels"),
        (["--positive", "3"], "the classifier has two classes: --positive is 0 or 1, not 3"),
        (["--accelerator", "abacus"], "--accelerator abacus --devices 1:"),
    ],
)
def test_bad_input_gets_one_line(run, capsys, more, message):
    assert audit.main(options(run, "--images", "5", *more)) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err


def test_nothing_to_change_and_no_one_to_look_at(run, data, capsys):
    a = data.columns("test")
    name = next(k for k in a if a[k][0] == 1)
    assert audit.main(options(run, "--images", "1", do=[f"{name}=1"])) == 2
    assert f"--do {name}=1: all 1 images are so already" in capsys.readouterr().err
    assert audit.main(options(run, "--images", "1", "--among", f"{name}=0", do=[f"{name}=0"])) == 2
    assert f"--among {name}=0: none of the 1 images is so" in capsys.readouterr().err


@pytest.mark.slow
def test_two_processes_find_what_one_finds(run, place, here):
    """21 images in batches of 5: a sampler that pads would count some twice."""
    found = []
    for devices in ("1", "2"):
        words = options(run, "--images", "21", "--batch_size", "5", "--devices", devices, "--out", f"on{devices}")
        environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{place}"}
        command = [sys.executable, "-m", "cfgen.audit", *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-3000:]
        folder = here / f"on{devices}"
        assert json.loads((folder / "audit.json").read_text())["device"] == f"{devices} x cpu"
        found.append([(folder / name).read_text() for name in ("bias.csv", "importance.csv")])
    assert found[0] == found[1]
    n = [int(row["n"]) for row in rows(here / "on2")]
    assert max(n) == 21


def test_the_command_is_listed(capsys):
    from cfgen.__main__ import main

    assert main([]) == 2
    assert "audit" in capsys.readouterr().out
