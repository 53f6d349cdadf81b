"""The Attribute-SCM against independent references: counting, closed forms, dowhy.gcm, the published SCM, Proposition 1."""

import logging

import numpy as np
import pytest
import torch

from cfgen.counterfactual import asked_of, reconstruct, sweep
from cfgen.scm import AttributeSCM
from tests.fakes import Affine

CONTINUOUS = {"kind": "continuous"}
BINARY = {"kind": "binary"}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def published_scm(rows: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Thickness, intensity and its noise, as DeepSCM's Morpho-MNIST was made."""
    rng = np.random.default_rng(seed)
    thickness = 0.5 + rng.gamma(10, 1 / 5, rows)
    noise = rng.normal(0, 0.5, rows)
    return torch.tensor(thickness), torch.tensor(true_intensity(thickness, noise)), torch.tensor(noise)


def true_intensity(thickness, noise):
    return 64 + 191 / (1 + np.exp(-(2 * (thickness - 2.5) + noise)))


def test_tables_equal_counting():
    rows = 5000
    g = seeded()
    young = (torch.rand(rows, generator=g) < 0.7).float()
    colour = torch.randint(3, (rows,), generator=g).float()
    gray = (torch.rand(rows, generator=g) < 0.1 + 0.5 * (1 - young) + 0.1 * colour).float()
    scm = AttributeSCM(
        {"Young": BINARY, "colour": {"kind": "categorical", "values": "rgb"}, "Gray": BINARY},
        [("Young", "Gray"), ("colour", "Gray")],
        {"Gray": {"kind": "cpt", "smoothing": 0}},
    ).fit({"Young": young, "colour": colour, "Gray": gray})
    for y in (0, 1):
        for c in (0, 1, 2):
            rows_of = (young == y) & (colour == c)
            table_row = scm.mechanisms["g_Gray"].table[y * 3 + c, 1].item()
            assert table_row == pytest.approx(gray[rows_of].mean().item(), abs=1e-6)


def test_an_unseen_parent_state_answers_with_the_marginal():
    parent, child = torch.zeros(100), (torch.arange(100) < 30).float()
    for smoothing in (0, 1.0):
        scm = AttributeSCM({"p": BINARY, "c": BINARY}, [("p", "c")], {"c": {"kind": "cpt", "smoothing": smoothing}})
        table = scm.fit({"p": parent, "c": child}).mechanisms["g_c"].table
        assert table[1, 1].item() == pytest.approx(0.3, abs=0.01)


def test_logistic_regression_recovers_its_weights():
    rows, g = 40_000, seeded()
    t = torch.randn(rows, generator=g)
    p = torch.sigmoid(1.5 * t - 0.5)
    scm = AttributeSCM({"t": CONTINUOUS, "b": BINARY}, [("t", "b")])
    scm.fit({"t": t, "b": (torch.rand(rows, generator=g) < p).float()})
    estimate = scm.mechanisms["g_b"].probabilities(scm.schema.encode_one("t", t))[:, 1]
    assert (estimate - p).abs().max() < 0.03


def chain(rows: int) -> dict[str, torch.Tensor]:
    g = seeded(3)
    a = torch.randn(rows, generator=g)
    b = 2 * a + 1 + 0.5 * torch.randn(rows, generator=g)
    c = -b + 0.3 * a + 0.2 * torch.randn(rows, generator=g)
    return {"a": a, "b": b, "c": c}


def gaussian_chain(columns: dict[str, torch.Tensor]) -> AttributeSCM:
    names = dict.fromkeys("abc", CONTINUOUS)
    return AttributeSCM(names, [("a", "b"), ("b", "c"), ("a", "c")], dict.fromkeys("abc", "gaussian")).fit(columns)


def test_linear_gaussian_counterfactuals_equal_the_closed_form():
    """b_c = b + w_ab (a' - a); c_c = c + w_bc (b_c - b) + w_ac (a' - a), with least-squares weights."""
    columns = chain(3000)
    result = gaussian_chain(columns).counterfactual(columns, {"a": 0.5})
    a, b, c = (columns[name].double().numpy() for name in "abc")
    ones = np.ones_like(a)
    w_b = np.linalg.lstsq(np.stack([ones, a], 1), b, rcond=None)[0]
    w_c = np.linalg.lstsq(np.stack([ones, a, b], 1), c, rcond=None)[0]
    b_c = b + w_b[1] * (0.5 - a)
    c_c = c + w_c[1] * (0.5 - a) + w_c[2] * (b_c - b)
    np.testing.assert_allclose(result["b"], b_c, atol=1e-4)
    np.testing.assert_allclose(result["c"], c_c, atol=1e-4)


def test_continuous_chain_agrees_with_dowhy():
    nx = pytest.importorskip("networkx")
    pd = pytest.importorskip("pandas")
    gcm = pytest.importorskip("dowhy.gcm")
    gcm.config.disable_progress_bars()
    logging.getLogger("dowhy").setLevel(logging.ERROR)
    columns = chain(2000)
    frame = pd.DataFrame({name: column.double().numpy() for name, column in columns.items()})
    model = gcm.InvertibleStructuralCausalModel(nx.DiGraph([("a", "b"), ("b", "c"), ("a", "c")]))
    model.set_causal_mechanism("a", gcm.EmpiricalDistribution())
    for name in "bc":
        model.set_causal_mechanism(name, gcm.AdditiveNoiseModel(gcm.ml.create_linear_regressor()))
    gcm.fit(model, frame)
    theirs = gcm.counterfactual_samples(model, {"b": lambda _: 1.0}, observed_data=frame)
    ours = gaussian_chain(columns).counterfactual(columns, {"b": 1.0})
    for name in "abc":
        np.testing.assert_allclose(ours[name], theirs[name], atol=1e-4)


@pytest.mark.parametrize(
    ("mechanism", "limit"),
    [("mlp", 1.0), ({"kind": "mlp", "low": 64, "high": 255}, 0.3), ("spline", 1.0)],
    ids=["mlp", "mlp with the true bounds", "spline"],
)
def test_published_intensity_within_a_grey_level(mechanism, limit):
    """Thickness -> intensity of Morpho-MNIST: a fitted mechanism's counterfactual against the true SCM's."""
    thickness, intensity, noise = published_scm(30_000, seed=1)
    scm = AttributeSCM({"t": CONTINUOUS, "i": CONTINUOUS}, [("t", "i")], {"i": mechanism})
    scm.fit({"t": thickness, "i": intensity})
    wanted = thickness[torch.randperm(len(thickness), generator=seeded())]
    ours = scm.counterfactual({"t": thickness, "i": intensity}, {"t": wanted})["i"]
    truth = torch.tensor(true_intensity(wanted.numpy(), noise.numpy()))
    assert (ours - truth).abs().mean() < limit


@pytest.mark.parametrize("kind", ["mlp", "spline", "gaussian", "empirical"])
def test_densities_integrate_to_one_and_match_samples(kind):
    thickness, _, _ = published_scm(5000, seed=2)
    scm = AttributeSCM({"t": CONTINUOUS}, (), {"t": kind}).fit({"t": thickness})
    grid = torch.linspace(-2, 12, 20_001)
    density = scm.log_prob({"t": grid})["t"].exp()
    assert torch.trapezoid(density, grid).item() == pytest.approx(1, abs=0.02)
    drawn = scm.sample(20_000, generator=seeded())["t"]
    assert drawn.mean().item() == pytest.approx(thickness.mean().item(), abs=0.05)
    assert drawn.std().item() == pytest.approx(thickness.std().item(), abs=0.05)


@pytest.mark.parametrize("kind", ["mlp", "spline"])
def test_flow_log_determinants_match_autograd(kind):
    thickness, intensity, _ = published_scm(2000, seed=4)
    scm = AttributeSCM({"t": CONTINUOUS, "i": CONTINUOUS}, [("t", "i")], {"i": kind}).fit(
        {"t": thickness, "i": intensity}
    )
    flow, parents = scm.mechanisms["g_i"], scm.schema.encode_one("t", thickness)
    y = torch.randn(2000, generator=seeded()).requires_grad_()
    eps, log_det = flow.inverse(y, parents)
    (slope,) = torch.autograd.grad(eps.sum(), y)
    torch.testing.assert_close(slope.log(), log_det, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(flow(eps, parents), y, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("rows", [3, 5, 10, 20, 61])
@pytest.mark.parametrize("seed", range(4))
def test_few_rows_give_finite_counterfactuals(rows, seed):
    """Of few rows the likelihood has no maximum: a scale can fall to 0 at one of them."""
    g = seeded(seed)
    columns = {"t": 10 * torch.rand(rows, generator=g), "i": 10 * torch.rand(rows, generator=g)}
    scm = AttributeSCM({"t": CONTINUOUS, "i": CONTINUOUS}, [("t", "i")], {"i": "mlp"}).fit(columns)
    assert scm.counterfactual(columns, {"t": columns["t"].flip(0)})["i"].isfinite().all()


def test_flows_fit_the_same_whatever_the_global_seed():
    thickness, intensity, _ = published_scm(500, seed=4)
    states = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        scm = AttributeSCM({"t": CONTINUOUS, "i": CONTINUOUS}, [("t", "i")], {"i": "mlp", "t": "spline"})
        states.append(scm.fit({"t": thickness, "i": intensity}).state_dict())
        assert torch.rand(1) == torch.rand(1, generator=seeded(seed))  # nor do they disturb it
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


def test_proposition_1():
    """With the true g and SCM, x_c is the true counterfactual image: same z, same noise, other thickness."""
    thickness, intensity, noise = published_scm(20_000, seed=5)
    columns = {"t": thickness, "i": intensity}
    scm = AttributeSCM(
        {"t": CONTINUOUS, "i": CONTINUOUS}, [("t", "i")], {"i": {"kind": "mlp", "low": 64, "high": 255}}
    ).fit(columns)
    z, affine = torch.rand(20_000, 4, generator=seeded()), Affine(scm)
    a = scm.schema.encode(columns)
    x = affine.decode(z, a)
    wanted = thickness.flip(0)
    truth = affine.decode(
        z, scm.schema.encode({"t": wanted, "i": torch.tensor(true_intensity(wanted.numpy(), noise.numpy()))})
    )
    asked = {"do": asked_of(affine, columns, {"t": wanted})}
    (whole,) = sweep(affine, x, columns, asked, batch_size=20_000)
    torch.testing.assert_close(whole.x_r, x)
    assert (whole.x_c("do") - truth).abs().mean() < 0.005
    batches = list(sweep(affine, x, columns, asked, batch_size=999))
    assert len(batches) == 21
    torch.testing.assert_close(torch.cat([batch.x_c("do") for batch in batches]), whole.x_c("do"))
    torch.testing.assert_close(reconstruct(affine, x, a), x)


def test_counterfactuals_do_not_depend_on_the_batch_size():
    """Drawn noise belongs to the row: binary effects come out the same in batches of any size."""
    g = seeded()
    young = (torch.rand(3000, generator=g) < 0.6).float()
    gray = (torch.rand(3000, generator=g) < 0.1 + 0.6 * (1 - young)).float()
    columns = {"Young": young, "Gray": gray}
    scm = AttributeSCM({"Young": BINARY, "Gray": BINARY}, [("Young", "Gray")]).fit(columns)
    affine = Affine(scm)
    x = (torch.rand(3000, 4, generator=g) * 255).to(torch.uint8)
    asked = {"do": asked_of(affine, columns, {"Young": 0}, seed=9)}
    runs = [
        torch.cat([batch.a_c("do") for batch in sweep(affine, x, columns, asked, batch_size=size)])
        for size in (7, 256, 3000)
    ]
    assert torch.equal(runs[0], runs[1])
    assert torch.equal(runs[0], runs[2])


def test_binary_counterfactual_frequencies():
    """P(Gray_{Young=0} = 1 | Young=1, Gray=0) = (p0 - p1) / (1 - p1) for a = [u < p]."""
    g = seeded()
    young = (torch.rand(200_000, generator=g) < 0.6).float()
    gray = (torch.rand(200_000, generator=g) < 0.1 + 0.6 * (1 - young)).float()
    scm = AttributeSCM({"Young": BINARY, "Gray": BINARY}, [("Young", "Gray")]).fit({"Young": young, "Gray": gray})
    result = scm.counterfactual({"Young": young, "Gray": gray}, {"Young": 0})["Gray"]
    assert result[(young == 1) & (gray == 0)].mean().item() == pytest.approx((0.7 - 0.1) / 0.9, abs=0.01)
    assert result[(young == 1) & (gray == 1)].min() == 1  # the cause only became stronger


def test_appendix_o_on_the_real_celeba_table(real_data):
    """Young -> {Gray_Hair, Eyeglasses, Receding_Hairline} on 202,599 rows: frequencies as the tables say."""
    path = real_data / "celeba" / "list_attr_celeba.txt"
    with path.open() as file:
        rows, names = int(file.readline()), file.readline().split()
    chosen = ["Young", "Gray_Hair", "Eyeglasses", "Receding_Hairline"]
    table = np.loadtxt(path, skiprows=2, usecols=[1 + names.index(name) for name in chosen], dtype=np.int8)
    assert len(table) == rows == 202_599
    columns = {name: torch.tensor(table[:, i] == 1) for i, name in enumerate(chosen)}
    scm = AttributeSCM(dict.fromkeys(chosen, BINARY), [("Young", child) for child in chosen[1:]]).fit(columns)
    older = scm.counterfactual(columns, {"Young": 0})
    old = ~columns["Young"]
    for child in chosen[1:]:
        p_old = columns[child][old].float().mean().item()
        assert scm.mechanisms[f"g_{child}"].table[0, 1].item() == pytest.approx(p_old, abs=1e-4)
        assert older[child].mean().item() == pytest.approx(p_old, abs=0.005)
        assert torch.equal(older[child][old], columns[child][old].float())
