"""DeepSCM's published attribute flows: laws of flows, and how far off its intensity is on the data it was made for."""

import numpy as np
import pytest
import torch

from cfgen.scm import AttributeSCM

CONTINUOUS = {"kind": "continuous"}
PUBLISHED = {"thickness": "deepscm_root", "intensity": "deepscm"}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def true_intensity(thickness, noise):
    return 64 + 191 / (1 + np.exp(-(2 * (thickness - 2.5) + noise)))


def published_data(rows: int, seed: int) -> tuple[dict[str, torch.Tensor], np.ndarray]:
    """Thickness and intensity as DeepSCM's Morpho-MNIST was made, and the noise of the intensity."""
    rng = np.random.default_rng(seed)
    thickness, noise = 0.5 + rng.gamma(10, 1 / 5, rows), rng.normal(0, 0.5, rows)
    columns = {"thickness": torch.tensor(thickness), "intensity": torch.tensor(true_intensity(thickness, noise))}
    return columns, noise


def fitted(mechanisms, columns) -> AttributeSCM:
    return AttributeSCM(dict.fromkeys(columns, CONTINUOUS), [("thickness", "intensity")], mechanisms).fit(columns)


def counterfactual_error(mechanism) -> float:
    """Mean error of counterfactual intensities in grey levels, against the SCM that made the data."""
    columns, noise = published_data(30_000, seed=1)
    scm = fitted({"intensity": mechanism}, columns)
    wanted = columns["thickness"][torch.randperm(30_000, generator=seeded())]
    ours = scm.counterfactual(columns, {"thickness": wanted})["intensity"]
    return (ours - torch.tensor(true_intensity(wanted.numpy(), noise))).abs().mean().item()


def test_the_published_intensity_errs_by_five_grey_levels_where_the_mlp_is_right():
    assert counterfactual_error("deepscm") == pytest.approx(5.4, abs=0.4)
    assert counterfactual_error({"kind": "mlp", "low": 64, "high": 255}) < 0.3


def test_the_likelihood_tells_which_mechanism_fits():
    columns, _ = published_data(20_000, seed=2)
    unseen, _ = published_data(5000, seed=3)
    unseen = {name: column.clamp(columns[name].min(), columns[name].max()) for name, column in unseen.items()}
    bounds = {"low": 64, "high": 255}
    published, mlp = (
        fitted({"intensity": {"kind": kind} | bounds}, columns).log_prob(unseen)["intensity"].mean()
        for kind in ("deepscm", "mlp")
    )
    assert mlp > published + 0.05


def test_location_and_scale_are_affine_in_log_thickness():
    columns, _ = published_data(5000, seed=4)
    scm = fitted(PUBLISHED, columns)
    flow = scm.mechanisms["g_intensity"]
    t = torch.tensor([1.0, 2.0, 4.0])  # equally spaced logarithms
    parents = scm.schema.encode_one("thickness", t)
    location, log_scale = flow._location_scale(parents)
    torch.testing.assert_close(location[1] - location[0], location[2] - location[1], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(log_scale[1] - log_scale[0], log_scale[2] - log_scale[1], rtol=1e-4, atol=1e-4)
    assert location[1] > location[0]


def test_it_maximises_the_likelihood():
    """Moving any weight either way lowers it."""
    columns, _ = published_data(5000, seed=5)
    scm = fitted({"intensity": {"kind": "deepscm", "low": 64, "high": 255}}, columns)
    best = scm.log_prob(columns)["intensity"].double().mean()
    for parameter in scm.mechanisms["g_intensity"].net.parameters():
        for index in range(parameter.numel()):
            for step in (-0.05, 0.05):
                parameter.view(-1)[index] += step
                assert scm.log_prob(columns)["intensity"].double().mean() < best
                parameter.view(-1)[index] -= step


@pytest.mark.parametrize("name", ["thickness", "intensity"])
def test_flows_invert_and_log_determinants_match_autograd(name):
    columns, _ = published_data(2000, seed=6)
    scm = fitted(PUBLISHED, columns)
    flow, parents = scm.mechanisms[f"g_{name}"], scm._parents(name, scm._take(columns))
    y = torch.randn(2000, generator=seeded()).requires_grad_()
    eps, log_det = flow.inverse(y, parents)
    (slope,) = torch.autograd.grad(eps.sum(), y)
    torch.testing.assert_close(slope.log(), log_det, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(flow(eps, parents), y, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["thickness", "intensity"])
def test_density_is_that_of_the_noise_by_autograd(name):
    """log p(a) = log N(eps) + log |d eps / d a|, through logit or logarithm and all."""
    columns, _ = published_data(2000, seed=7)
    scm = fitted(PUBLISHED, columns)
    flow, parents = scm.mechanisms[f"g_{name}"], scm._parents(name, scm._take(columns))
    low, high = columns[name].float().quantile(torch.tensor([0.01, 0.99]))
    value = columns[name].float().clamp(low, high).requires_grad_()
    eps = flow.abduct(value, parents, seeded())
    (slope,) = torch.autograd.grad(eps.sum(), value)
    expected = torch.distributions.Normal(0, 1).log_prob(eps) + slope.log()
    torch.testing.assert_close(flow.log_prob(value, parents), expected, rtol=1e-3, atol=2e-3)
    torch.testing.assert_close(flow.predict(eps, parents), value, rtol=1e-4, atol=1e-3)


def test_thickness_has_its_distribution():
    columns, _ = published_data(5000, seed=8)
    scm = fitted(PUBLISHED, columns)
    thickness = columns["thickness"]
    grid = torch.linspace(-1, 14, 20_001)
    pair = {"thickness": grid, "intensity": torch.full_like(grid, 200.0)}
    assert torch.trapezoid(scm.log_prob(pair)["thickness"].exp(), grid).item() == pytest.approx(1, abs=0.01)
    drawn = scm.sample(20_000, generator=seeded())["thickness"]
    assert drawn.min() > 0
    assert drawn.mean().item() == pytest.approx(thickness.mean().item(), abs=0.05)
    assert drawn.std().item() == pytest.approx(thickness.std().item(), abs=0.05)


def test_state_travels_and_the_global_seed_does_not_matter():
    columns, _ = published_data(500, seed=9)
    scms = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        scms.append(fitted(PUBLISHED, columns))
        assert torch.rand(1) == torch.rand(1, generator=seeded(seed))
    states = [scm.state_dict() for scm in scms]
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])
    loaded = AttributeSCM(**scms[0].spec)
    loaded.load_state_dict(states[0])
    do = {"thickness": 3.0}
    ours, theirs = (scm.counterfactual(columns, do)["intensity"] for scm in (scms[0], loaded))
    assert torch.equal(ours, theirs)


def test_misuse_is_refused():
    two = {"t": CONTINUOUS, "i": CONTINUOUS}
    with pytest.raises(ValueError, match="one continuous parent"):
        AttributeSCM(two, (), {"t": "deepscm"})
    with pytest.raises(ValueError, match="for a root"):
        AttributeSCM(two, [("t", "i")], {"i": "deepscm_root"})
    columns = {"t": torch.linspace(-1, 1, 50), "i": torch.rand(50, generator=seeded())}
    with pytest.raises(ValueError, match="positive"):
        AttributeSCM(two, [("t", "i")], {"i": "deepscm"}).fit(columns)
    with pytest.raises(ValueError, match="positive"):
        AttributeSCM(two, [("t", "i")], {"t": "deepscm_root"}).fit(columns)
    with pytest.raises(ValueError, match="hidden"):
        AttributeSCM(two, [("t", "i")], {"i": {"kind": "deepscm", "hidden": 3}})
