"""An exact mechanism without training, a classifier that it turns, and the command that audits the one by the other."""

import csv

import torch
from torch import nn

from cfgen.audit import AuditOptions, answer, prepare
from cfgen.image_ids import random_order
from lightning_modules import ImageMechanismModule


class Shift(ImageMechanismModule):
    """Each attribute makes one colour a little brighter or darker; a state is what is left without that."""

    def __init__(self, scm, image_shape):
        super().__init__(scm, image_shape)
        self.save_hyperparameters()
        amounts = 0.2 * torch.randn(self.scm.schema.size, 3, 1, 1, generator=torch.Generator().manual_seed(1))
        self.register_buffer("amounts", amounts)
        self.largest, self.decoded = 0, 0

    def prior(self, a, noise=None):
        return torch.zeros(len(a), *self.image_shape), torch.zeros(len(a))

    def abduct(self, x, a, noise=None):
        return x - torch.einsum("nk,kchw->nchw", a, self.amounts), a.sum(1)

    def decode(self, z, a):
        self.largest, self.decoded = max(self.largest, len(a)), self.decoded + len(a)
        assert len(z[1]) == len(a)
        return z[0] + torch.einsum("nk,kchw->nchw", a, self.amounts)


class Reddish(nn.Module):
    def forward(self, x):
        return 12 * (x[:, 0].mean((1, 2)) - x[:, 2].mean((1, 2)) - 0.15)


class Blueish(nn.Module):
    def forward(self, x):
        return -Reddish()(x)


class SoonBroken(nn.Module):
    """Has an answer twenty times, and then none."""

    def __init__(self):
        super().__init__()
        self.asked = 0

    def forward(self, x):
        self.asked += 1
        return torch.full((len(x),), 0.0 if self.asked <= 20 else torch.nan)


def ten_classes():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))


DO = ["Black_Hair=1,Pale_Skin=1", "Young=0", "Young=1", "Smiling=0"]
CLASSIFIER = "tests.audit.shifting:Reddish"


def options(run, *more, do=DO, classifier=CLASSIFIER):
    """The command line of an audit; what `more` says of model, classifier or predictor takes the place of what is said here."""
    said = {"--model": str(run), "--classifier": classifier, "--predictor": "none", "--accelerator": "cpu"}
    words = [word for pair in said.items() if pair[0] not in more for word in pair]
    return [*words, *(word for text in do for word in ("--do", text)), *more]


def questions_about(model, classifier, **more):
    """What an audit of one classifier asks; without a predictor and a ranking, unless `more` says otherwise."""
    return prepare(model, classifier, AuditOptions(**{"predictor": None, "explain": ()} | more))


def answers_to(questions, processes=None):
    """The answers of the only classifier by picture, (n,), and the readings."""
    answers, readings = answer(questions, processes=processes)
    ((name, found),) = answers.tables.items()
    assert answers.columns[name] == ("",)
    return {picture: raw[:, 0] for picture, raw in found.items()}, readings


def rows(folder, name="bias.csv"):
    return list(csv.DictReader((folder / name).open()))


def counterfactuals(model, x, columns, do, ids):
    """What the public API draws, with the noise of the attributes drawn in the order that the ids decide, as an audit does."""
    order = torch.from_numpy(random_order(ids, 0, "attributes"))
    made = model.counterfactual(x[order], {name: column[order] for name, column in columns.items()}, do, seed=0)
    return made.images[order.argsort()]
