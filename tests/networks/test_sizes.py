"""Networks of any size: the paper's presets to the letter, the rule for all others, and what is refused."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cfgen.errors import UserError
from cfgen.networks import CELEBA, tables_for
from cfgen.networks.classifiers import ATTRACTIVE
from cfgen.networks.sizes import SIZES, check_image_size, resolutions
from cfgen.networks.tables import Row, mirrored, resized
from lightning_modules import HVAE, Classifier, CondALI, DeepSCM, Predictor, StyleALI

SCM: dict[str, Any] = {
    "attributes": {
        "thickness": {"kind": "continuous", "low": 0.0, "high": 4.0},
        "label": {"kind": "categorical", "values": [0, 1, 2]},
    },
    "edges": [],
}
PAPER = {"generator": "paper", "encoder": "paper", "discriminator": "paper", "r1_gamma": 0.0}
PRESETS: dict[str, Callable[[tuple[int, int, int]], nn.Module]] = {
    "CondALI, paper": lambda shape: CondALI(SCM, shape, **PAPER),
    "CondALI, modulated": lambda shape: CondALI(SCM, shape, generator="modulated", encoder="he"),
    "StyleALI": lambda shape: StyleALI(SCM, shape),
    "DeepSCM": lambda shape: DeepSCM(SCM, shape),
    "HVAE": lambda shape: HVAE(SCM, shape, latents={"7x7" if shape[1] == 28 else "4x4": 8}, joint=0.5, adversary=0.1),
    "Classifier": lambda shape: Classifier(shape, 2),
    "Predictor, table": lambda shape: Predictor(SCM, shape),
    "Predictor, residual": lambda shape: Predictor(SCM, shape, network="residual"),
    "Predictor, patches": lambda shape: Predictor(SCM, shape, network="patches"),
}
# parameters, and a fingerprint of the names and shapes in the state dict, as they were when 28 and 64 were the only sizes
RECORDED = {
    ("CondALI, paper", 28): (16245065, "fd1baa8246913938"),
    ("CondALI, modulated", 28): (24328391, "8a9438aeb7a9f633"),
    ("StyleALI", 28): (39212271, "bef5f10ab7dfb5e5"),
    ("DeepSCM", 28): (7363373, "6d66fce3463d400a"),
    ("HVAE", 28): (8774882, "f242092efe4f5599"),
    ("Classifier", 28): (2411393, "22196a3e80f02bd8"),
    ("Predictor, table", 28): (1871620, "df8729b10655e2b7"),
    ("Predictor, residual", 28): (120644, "509f1db2d2eb87e4"),
    ("Predictor, patches", 28): (149328, "03def17cc5c1fc1e"),
    ("CondALI, paper", 64): (63440017, "c4a7dedfa98996b1"),
    ("CondALI, modulated", 64): (48335883, "5a79a5ee84f01d2f"),
    ("StyleALI", 64): (76241547, "d29195341f174338"),
    ("DeepSCM", 64): (4602179, "3e449668f45150d9"),
    ("HVAE", 64): (7553058, "c81ec090b8461e72"),
    ("Classifier", 64): (6877697, "0d73dc930deeb044"),
    ("Predictor, table", 64): (6533060, "763e990532f294f9"),
    ("Predictor, residual", 64): (122044, "c8f33a8cfb7a4a25"),
    ("Predictor, patches", 64): (232948, "69f8e9b417ebc78b"),
}


@pytest.mark.parametrize(("name", "size"), RECORDED)
def test_presets_stay_to_the_letter(name, size):
    """So packaged weights and old checkpoints load."""
    with torch.device("meta"), torch.random.fork_rng(devices=[]):
        module = PRESETS[name]((1 if size == 28 else 3, size, size))
    names = "\n".join(f"{key} {tuple(value.shape)}" for key, value in module.state_dict().items())
    count = sum(parameter.numel() for parameter in module.parameters())
    assert (count, hashlib.sha256(names.encode()).hexdigest()[:16]) == RECORDED[name, size]


def walk(rows: tuple[Row, ...], size: int) -> list[int]:
    """The sizes that convolutions without padding leave; none may leave out a row of pixels."""
    found = []
    for row in rows:
        assert (size - row.K) % row.S == 0
        size = (size - row.K) // row.S + 1
        found.append(size)
    return found


@pytest.mark.parametrize("size", SIZES)
def test_tables_of_every_size_come_out_exactly(size):
    tables = tables_for((3, size, size))
    for rows in (tables.encoder, tables.d_x, *([resized(ATTRACTIVE, size)] if size != 28 else [])):
        assert walk(rows, size)[-1] == 1
    grown = 1
    for row in tables.generator:
        grown = (grown - 1) * row.S + row.K
    assert grown == size
    assert len(resolutions(size)) < len(tables.generator)  # a modulated generator takes a row's filters for each
    assert tables.d_x[-1].F == tables.encoder[-2].F == 512  # what the coarse end has is the same in every size


def test_the_rule_is_that_of_celeba():
    """Its generator is the way back of its encoder, and a resized table differs in kernels and in the fine end alone."""
    assert mirrored(CELEBA.encoder[:-1], CELEBA.generator[0]) == CELEBA.generator[:-1]
    again = resized(CELEBA.encoder, 64)
    assert [row._replace(K=0) for row in again] == [row._replace(K=0) for row in CELEBA.encoder]
    assert [row.F for row in tables_for((1, 256, 256)).encoder] == [16, 32, 64, 128, 256, 256, 512, 512]
    assert [row.F for row in tables_for((1, 16, 16)).encoder] == [256, 256, 512, 512]
    assert tables_for((1, 96, 96)).slope == CELEBA.slope


TINY: dict[str, Any] = {"width": 0.03, "latent_dim": 4}
LARGE: dict[str, Callable[[tuple[int, int, int]], Any]] = {
    "CondALI": lambda shape: CondALI(SCM, shape, **TINY, ema_decay=0.0),
    "CondALI, modulated": lambda shape: CondALI(SCM, shape, **TINY, generator="modulated", ema_decay=0.0),
    "StyleALI": lambda shape: StyleALI(SCM, shape, **TINY, mapping_layers=2, ema_decay=0.0),
    "DeepSCM": lambda shape: DeepSCM(SCM, shape, **TINY, particles=1),
    "HVAE": lambda shape: HVAE(SCM, shape, width=0.25, latent_dim=4, latents={"4x4": 2}, ema_decay=0.0),
}


@pytest.mark.parametrize("size", [128, 256])
@pytest.mark.parametrize("name", LARGE)
def test_large_images_keep_shape_null_intervention_and_gradients(name, size):
    torch.manual_seed(0)
    module = LARGE[name]((3, size, size))
    x, a = torch.rand(2, 3, size, size), torch.tensor([[0.2, 1.0, 0.0, 0.0], [0.8, 0.0, 0.0, 1.0]])
    with torch.inference_mode():
        module.eval()
        z = module.abduct(x, a)
        x_r, again = module.decode(z, a), module.decode(z, a.clone())
    assert x_r.shape == x.shape
    assert torch.equal(x_r, again)
    if name in ("DeepSCM", "HVAE"):
        torch.testing.assert_close(x_r, x, rtol=1e-4, atol=1e-4)
    module.train()
    images = module.decode(module.abduct(x, a), a.flip(0))
    (images * torch.randn_like(images)).sum().backward()
    parts = {key: p for key, p in module.named_parameters() if not {"C", "D", "P", "R"} & set(key.split("."))}
    assert [key for key, p in parts.items() if p.grad is None or not p.grad.isfinite().all()] == []


READS: dict[str, Callable[[tuple[int, int, int]], nn.Module]] = {
    "Classifier": lambda shape: Classifier(shape, 4, width=0.05),
    "table": lambda shape: Predictor(SCM, shape, width=0.05),
    "residual": lambda shape: Predictor(SCM, shape, width=0.2, network="residual"),
    "patches": lambda shape: Predictor(SCM, shape, width=0.2, network="patches"),
}


@pytest.mark.parametrize("shape", [(1, 16, 16), (3, 32, 32), (4, 60, 60), (3, 96, 96), (3, 256, 256)])
@pytest.mark.parametrize("name", READS)
def test_classifiers_and_predictors_see_every_pixel(name, shape):
    """One answer an image, and a gradient at every part of it."""
    torch.manual_seed(0)
    x = torch.rand(3, *shape, requires_grad=True)
    found: Tensor = READS[name](shape)(x)
    assert found.shape == (3, 4)
    found.square().sum().backward()
    assert x.grad is not None
    assert (x.grad.abs().sum(dim=(0, 1)) > 0).float().mean() > 0.95


NEAREST = {
    (3, 17, 17): "16 or 20",
    (1, 30, 30): "28 or 32",
    (3, 300, 300): "256",
    (3, 8, 8): "16",
    (3, 64, 48): "48",
    (3, 50, 90): "48 or 52",
}


@pytest.mark.parametrize("shape", NEAREST)
def test_a_wrong_size_is_told_the_nearest_right_ones(shape):
    with pytest.raises(UserError) as refused:
        check_image_size(shape)
    message = str(refused.value)
    assert message.startswith(f"images are {shape[1]}x{shape[2]} pixels")
    assert message.endswith(f"resize them to {NEAREST[shape]}")
    assert "\n" not in message


@pytest.mark.parametrize(
    "build",
    [*PRESETS.values(), *LARGE.values(), *READS.values()],
    ids=[*PRESETS, *(f"tiny {name}" for name in LARGE), *(f"reading {name}" for name in READS)],
)
def test_every_network_has_the_same_rule(build):
    """But for the networks of judges, which also read images of a model of one's own."""
    for shape in ((3, 300, 300), (3, 64, 48)):
        with pytest.raises(UserError, match="square images of 16 to 256 pixels"):
            build(shape)
