"""`cfgen audit` of classifiers whose bias is known exactly, by a mechanism that changes what it should and nothing else."""

import pytest
import torch
from torch import nn

from cfgen.commands import audit
from lightning_modules import ImageMechanismModule
from tests.audit.shifting import options, rows
from tests.fakes import finished

ROWS = 4  # of pixels, for each attribute
DO = ["Black_Hair=1", "Black_Hair=0", "Black_Hair=1,Pale_Skin=1", "Pale_Skin=1", "Young=0", "Smiling=1"]


class Striping(ImageMechanismModule):
    """Writes each attribute into rows of its own, white where present and black where not."""

    def __init__(self, scm, image_shape):
        super().__init__(scm, image_shape)
        self.save_hyperparameters()

    def prior(self, a, noise=None):
        return torch.zeros(len(a), *self.image_shape)

    def abduct(self, x, a, noise=None):
        return x

    def decode(self, z, a):
        x = z.clone()
        x[:, :, : ROWS * a.shape[1]] = a.repeat_interleave(ROWS, dim=1)[:, None, :, None]
        return x


class Hair(nn.Module):
    """Says yes where the rows of Black_Hair, third of the attributes, are white."""

    def forward(self, x):
        return x[:, :, 2 * ROWS : 3 * ROWS].mean((1, 2, 3)) - 0.5


class Constant(nn.Module):
    def forward(self, x):
        return torch.full((len(x),), self.answer)


class Yes(Constant):
    answer = 1.0


class No(Constant):
    answer = -1.0


@pytest.fixture
def found(data, faces_cache, here):
    """What the command finds about a classifier, as bias.csv and importance.csv have it."""
    module = Striping(data.scm_spec, data.image_shape)
    module.scm.fit(data.train_columns)
    faces = {"class_path": "datamodules.Faces", "init_args": {"count": data.count, "cache_dir": str(faces_cache)}}
    folder = finished(module, here / "run", {"data": faces})

    def audited(classifier: type) -> tuple[dict[str, dict[str, str]], dict[str, dict[str, str]]]:
        name = f"{classifier.__module__}:{classifier.__name__}"
        assert audit.main(options(folder, "--classifier", name, "--out", "found", do=DO)) == 0
        bias = {row["change"]: row for row in rows(here / "found")}
        return bias, {row["attribute"]: row for row in rows(here / "found", "importance.csv")}

    return audited


@pytest.mark.parametrize("classifier", [Yes, No])
def test_a_constant_classifier_has_no_bias(found, classifier):
    bias, importance = found(classifier)
    assert bias.keys() == {*DO, "horizontal_flip", "brightness"}
    for row in bias.values():
        assert [float(row[key]) for key in ("bias", "flipped", "up", "down")] == [0, 0, 0, 0]
        # the interval ends where so many images without a flip are a case in twenty
        assert float(row["bias/high"]) == -float(row["bias/low"])
        assert (1 - float(row["bias/high"])) ** int(row["n"]) == pytest.approx(0.05, rel=1e-3)
    assert {float(row["score"]) for row in importance.values()} == {0}


def test_a_classifier_that_reads_hair_is_biased_where_hair_changes_and_nowhere_else(found, data):
    assert data.schema.names[2] == "Black_Hair"
    bias, importance = found(Hair)
    hair, pale = (data.columns("test")[name] for name in ("Black_Hair", "Pale_Skin"))
    share = ((hair == 0).sum() / ((hair == 0) | (pale == 0)).sum()).item()
    expected = {"Black_Hair=1": 1, "Black_Hair=0": -1, "Black_Hair=1,Pale_Skin=1": share}
    for change, row in bias.items():
        assert float(row["bias"]) == pytest.approx(expected.get(change, 0), abs=1e-5), change
        assert float(row["flipped"]) == pytest.approx(abs(expected.get(change, 0)), abs=1e-5), change
    assert 0 < share < 1
    scores = {name: float(row["score"]) for name, row in importance.items()}
    assert scores.pop("Black_Hair") == pytest.approx(2 * torch.tensor(0.5).sigmoid().item() - 1, abs=1e-5)
    assert set(scores.values()) == {0}
