"""The laws of the contract, over all image mechanisms: what every caller of one may rely on."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from lightning_utilities.core.apply_func import apply_to_collection, apply_to_collections
from torch import Tensor

from cfgen.checkpoints import spec_of
from cfgen.contracts import CausalImageMechanism, Noise, interpolate, rows
from cfgen.counterfactual import Asked, Swept, asked_of, reconstruct, sweep
from cfgen.networks.hierarchy import grid_name, grids
from cfgen.processes import Processes
from cfgen.runs.model import TrainedModel, load_trained
from lightning_modules import HVAE, CondALI, CyclicEncoder, DeepSCM, ImageMechanismModule, ResidualKept, StyleALI
from tests.fakes import DIGITS, SHAPE, Drawing, Painted, Painter
from tests.processes import Pool

COUNT = 14  # images
TINY: dict[str, Any] = {"width": 0.05, "latent_dim": 8}
HIERARCHY: dict[str, Any] = {"width": 0.25, "latent_dim": 8}
PAPER = {"generator": "paper", "encoder": "paper", "discriminator": "paper", "r1_gamma": 0.0}
Build = Callable[[dict[str, Any], tuple[int, int, int]], ImageMechanismModule]


def cyclic(ali: Build) -> Build:
    return lambda scm, shape: CyclicEncoder(scm, shape, mechanism=spec_of(ali(scm, shape)))


def latents(shape: tuple[int, int, int]) -> dict[str, int]:
    """Some on the two finest grids, such as {"14x14": 2, "7x7": 4}."""
    return {grid_name(grid): count for grid, count in zip(grids(shape[1]), (2, 4), strict=False)}


BUILD: dict[str, Build] = {
    "CondALI, paper": lambda scm, shape: CondALI(scm, shape, **TINY, **PAPER),
    "CondALI, plain": lambda scm, shape: CondALI(scm, shape, **TINY),
    "CondALI, modulated": lambda scm, shape: CondALI(scm, shape, **TINY, generator="modulated", encoder="he"),
    "CondALI, no average": lambda scm, shape: CondALI(scm, shape, **TINY, ema_decay=0.0, counterfactual=0.0),
    "StyleALI": lambda scm, shape: StyleALI(scm, shape, **TINY, mapping_layers=2),
    "CyclicEncoder of CondALI": cyclic(lambda scm, shape: CondALI(scm, shape, **TINY)),
    "CyclicEncoder of StyleALI": cyclic(lambda scm, shape: StyleALI(scm, shape, **TINY, mapping_layers=2)),
    "DeepSCM": lambda scm, shape: DeepSCM(scm, shape, **TINY, particles=3),
    "HVAE": lambda scm, shape: HVAE(scm, shape, **HIERARCHY),
    "HVAE, states on grids": lambda scm, shape: HVAE(
        scm, shape, **HIERARCHY, latents=latents(shape), threshold=1.0, fade=2.0
    ),
    "ResidualKept": lambda scm, shape: ResidualKept(CondALI(scm, shape, **TINY)),
    "ResidualKept of one that draws": lambda scm, shape: ResidualKept(Drawing(scm, shape)),
    "exact": Painter,
    "one that draws": Drawing,
}
# sizes beside 28: one that halves evenly and one that does not, in grey, in colour and with a fourth channel
SIZES: dict[tuple[int, int, int], list[str]] = {
    (1, 16, 16): ["CondALI, paper", "CyclicEncoder of StyleALI", "DeepSCM", "HVAE, states on grids"],
    (3, 32, 32): ["CondALI, modulated", "StyleALI", "HVAE"],
    (3, 60, 60): ["CondALI, modulated", "DeepSCM", "HVAE, states on grids"],
    (4, 96, 96): ["CondALI, plain", "HVAE"],
}
AT = {f"{name} at {'x'.join(map(str, shape))}": (name, shape) for shape, names in SIZES.items() for name in names}
NAMES = [*BUILD, *AT]
HVAES = {"HVAE", "HVAE, states on grids"}
EXACT = {"DeepSCM", *HVAES, "ResidualKept", "ResidualKept of one that draws", "exact"}
DRAWS = {"ResidualKept of one that draws", "one that draws"}
DO = {"thickness": 3.0}


def kind(name: str) -> str:
    """What a mechanism is, of whatever size."""
    return AT.get(name, (name, SHAPE))[0]


@cache
def data_for(shape: tuple[int, ...]) -> Painted:
    data = Painted(DIGITS, [["thickness", "label"]], shape, rows=COUNT, batch_size=7)  # type: ignore[arg-type]  # a shape has three numbers
    data.setup()
    return data


COLUMNS = data_for(SHAPE).columns("test")  # the same, whatever the size


def built(name: str) -> ImageMechanismModule:
    """A mechanism that has learned nothing but answers to images and attributes; the same in every process."""
    data = data_for(AT.get(name, (name, SHAPE))[1])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = BUILD[kind(name)](data.scm_spec, data.image_shape)
        for weight in module.parameters():
            if (
                kind(name) in HVAES
            ):  # its own initialisation lets images and attributes through, and residuals would add up
                weight.data += 0.02 * torch.randn_like(weight)
            elif weight.ndim > 1:  # as large as He's: images and attributes come through, as they do after training
                lacking = 2 / weight[0].numel() - weight.detach().square().mean().item()
                weight.data += max(0.0, lacking) ** 0.5 * torch.randn_like(weight)
    module.scm.fit(data.train_columns)
    return module.eval()


@pytest.fixture(scope="module", params=NAMES)
def name(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def mechanism(name) -> ImageMechanismModule:
    return built(name)


def asked(mechanism: CausalImageMechanism) -> dict[str, Asked]:
    return {"do": asked_of(mechanism, COLUMNS, DO)}


def swept(mechanism: CausalImageMechanism, **options: Any) -> list[Swept]:
    return list(sweep(mechanism, images_for(mechanism), COLUMNS, asked(mechanism), **options))


def images_for(mechanism: CausalImageMechanism) -> Tensor:
    return data_for(mechanism.image_shape).images("test")


def whole(mechanism: CausalImageMechanism, **options: Any) -> Swept:
    (batch,) = swept(mechanism, batch_size=COUNT, **options)
    return batch


def rounding(name: str) -> float:
    """What rounding may cost an image: the noise of HVAE's pixels multiplies it."""
    return 1e-4 if kind(name) in HVAES else 1e-5


def assert_same(one: Any, other: Any, tolerance: float = 1e-5) -> None:
    """Two states, or images, are equal."""
    apply_to_collections(
        one, other, Tensor, lambda x, y: torch.testing.assert_close(x, y, rtol=tolerance, atol=tolerance)
    )


def test_it_is_an_image_mechanism_that_answers_to_what_is_asked(mechanism):
    assert isinstance(mechanism, CausalImageMechanism)
    batch = whole(mechanism)
    assert batch.x_c("do").shape == batch.x_r.shape == batch.x.shape == (COUNT, *mechanism.image_shape)
    assert (batch.x_c("do") - batch.x_r).abs().amax(
        dim=(1, 2, 3)
    ).min() > 1e-4  # the other laws would hold of a constant
    apply_to_collection(batch.z, Tensor, lambda part: pytest.fail("one row an image") if len(part) != COUNT else None)


def test_a_null_intervention_is_the_reconstruction(mechanism, name):
    """And that is the image, to the bit or to rounding, where nothing is lost."""
    own = {"thickness": COLUMNS["thickness"], "label": COLUMNS["label"]}
    questions = {"nothing": asked_of(mechanism, COLUMNS, {}), "own": asked_of(mechanism, COLUMNS, own)}
    (batch,) = sweep(mechanism, images_for(mechanism), COLUMNS, questions, batch_size=COUNT)
    assert torch.equal(batch.a_c("nothing"), batch.a)
    assert_same(batch.x_c("nothing"), batch.x_r)
    assert_same(batch.x_c("own"), batch.x_r)
    if kind(name) in EXACT:
        assert_same(batch.x_r, batch.x, 1e-4 if kind(name) in {"DeepSCM", *HVAES} else 1e-6)
    if kind(name) not in DRAWS:
        with torch.inference_mode():
            assert_same(batch.x_r, reconstruct(mechanism, batch.x, batch.a))
    assert torch.equal(batch.x_r, batch.own_x_r) == (kind(name) not in HVAES and "ResidualKept" not in name)


@pytest.mark.parametrize("size", [1, 3, 7])
def test_an_image_does_not_depend_on_its_batch(mechanism, name, size):
    one, batches = whole(mechanism), swept(mechanism, batch_size=size)
    assert torch.equal(torch.cat([batch.rows for batch in batches]), one.rows)
    assert_same(torch.cat([batch.x_c("do") for batch in batches]), one.x_c("do"), rounding(name))
    assert_same(torch.cat([batch.x_r for batch in batches]), one.x_r)
    for batch in batches:
        assert_same(batch.z, rows(one.z, batch.rows), 10 * rounding(name))  # a state has any scale
        assert_same(batch.z_c("do"), rows(one.z_c("do"), batch.rows), 10 * rounding(name))


@pytest.mark.parametrize(
    "index",
    [torch.tensor([5, 0, 3]), slice(4, 9), torch.arange(COUNT) % 3 == 1, torch.tensor([], dtype=torch.long)],
    ids=["numbers", "slice", "mask", "none"],
)
def test_rows_are_chosen_before_or_after_decoding(mechanism, name, index):
    batch = whole(mechanism)
    a_c = batch.a_c("do")
    with torch.inference_mode():
        chosen = mechanism.decode(rows(batch.z, index), a_c[index]) if len(a_c[index]) else batch.x[:0]
    assert_same(chosen, batch.x_c("do")[index], rounding(name))


def test_states_can_be_mixed(mechanism):
    """At either end there is one image, between them another."""
    batch = whole(mechanism)
    other, a = rows(batch.z, torch.arange(COUNT).flip(0)), (batch.a, batch.a.flip(0))
    with torch.inference_mode():
        left, between, right = (
            mechanism.decode(interpolate(batch.z, other, t), torch.lerp(*a, t)) for t in (0.0, 0.5, 1.0)
        )
    assert_same(left, batch.x_r)
    assert_same(right, batch.x_r.flip(0))
    assert not torch.allclose(between, left, atol=1e-4)


def test_the_seed_alone_decides_what_is_drawn(mechanism, name):
    torch.manual_seed(1)
    one = whole(mechanism, seed=4)
    first, state = one.x_c("do"), torch.random.get_rng_state()
    torch.manual_seed(2)
    again, other = whole(mechanism, seed=4).x_c("do"), whole(mechanism, seed=5).x_c("do")
    assert torch.equal(first, again)
    assert torch.equal(first, other) == (name not in DRAWS)
    torch.manual_seed(1)
    assert torch.equal(torch.random.get_rng_state(), state)  # and nobody else's numbers move


def test_unseen_images_have_streams_of_their_own(mechanism):
    a = data_for(SHAPE).schema.encode(COLUMNS)

    @torch.inference_mode()
    def drawn(seed: int, numbers: Tensor) -> Tensor:
        return mechanism.decode(mechanism.prior(a[numbers], Noise(seed, numbers)), a[numbers])

    every, some = torch.arange(COUNT), torch.tensor([8, 2])
    assert_same(drawn(0, some), drawn(0, every)[some])
    assert torch.equal(drawn(0, every), drawn(0, every))
    assert (drawn(0, every) - drawn(1, every)).abs().amax(dim=(1, 2, 3)).min() > 1e-4


def test_shares_together_are_the_whole(mechanism, name):
    one = whole(mechanism)
    halves = [batch for i in (0, 1) for batch in swept(mechanism, share=(i, 2), batch_size=3)]
    numbers = torch.cat([batch.rows for batch in halves])
    assert sorted(numbers.tolist()) == list(range(COUNT))
    assert_same(torch.cat([batch.x_c("do") for batch in halves]), one.x_c("do")[numbers], rounding(name))


def test_a_selection_is_a_part_of_the_whole(mechanism, name):
    only = torch.tensor([11, 4, 5])
    part = torch.cat([batch.x_c("do") for batch in swept(mechanism, only=only, batch_size=2)])
    assert_same(part, whole(mechanism).x_c("do")[only], rounding(name))


@pytest.mark.parametrize("chosen", [name for name in NAMES if "ResidualKept" not in name])
def test_it_is_saved_and_loaded(chosen, tmp_path):
    """Apart from ResidualKept, which is put around a mechanism when that is loaded."""
    mechanism = built(chosen)
    loaded = load_trained(TrainedModel(mechanism).save(tmp_path / "export"))
    assert type(loaded.module) is type(mechanism)
    assert not loaded.module.training
    assert loaded.schema.spec == mechanism.scm.schema.spec
    assert torch.equal(whole(loaded.module).x_c("do"), whole(mechanism).x_c("do"))


def test_gradients_reach_every_parameter(name):
    """Of E and G, or of what is trained of them."""
    mechanism = built(name).train()
    data = data_for(mechanism.image_shape)
    x, a = data.images("train") / 255, data.schema.encode(data.train_columns)
    images = mechanism.decode(mechanism.abduct(x, a), a.flip(0))
    (images * torch.randn_like(images)).sum().backward()
    takes_part = {
        k: p
        for k, p in mechanism.named_parameters()
        if p.requires_grad and not {"C", "D", "P", "R"} & set(k.split("."))
    }
    assert takes_part
    missing = [k for k, p in takes_part.items() if p.grad is None or not p.grad.isfinite().all()]
    assert not missing
    assert any(p.grad.abs().sum() > 0 for p in takes_part.values())  # type: ignore[union-attr]


def swept_together(name: str) -> Tensor:
    """All counterfactuals, each made by one of the processes that run this."""
    processes = Processes("cpu", 2)
    processes.launch()
    mechanism = built(name)
    table = torch.zeros(COUNT, *mechanism.image_shape)
    for batch in swept(mechanism, share=processes.share, batch_size=3, seed=4):
        table[batch.rows] = batch.x_c("do")
    return processes.sum(table).tolist()


@pytest.mark.xdist_group("two_processes")
@pytest.mark.parametrize("chosen", ["one that draws", "CyclicEncoder of StyleALI", "HVAE at 3x32x32"])
def test_two_processes_equal_one(chosen, two_processes: Pool):
    first, second = two_processes.run(swept_together, chosen)
    assert first == second
    assert_same(torch.tensor(first), whole(built(chosen), seed=4).x_c("do"))
