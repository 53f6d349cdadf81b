"""Time of DeepSCM's training step and of its counterfactuals, beside a plain loop over particles.

    python benchmarks/deepscm.py --steps 5

The loop does what the vectorised form does, one particle after another: in training Pyro's ELBO runs guide and model
anew for each, in counterfactuals each particle is abducted and decoded by itself.  The two take turns, so that a busy
machine disturbs both alike; seconds on the wall and CPU seconds of all threads are both printed.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable, Mapping

import torch
from pyro.infer import TraceMeanField_ELBO
from torch import Tensor

from lightning_modules.deep_scm import DeepSCM

SCM = {
    "attributes": {
        **{name: {"kind": "continuous", "low": 0.0, "high": 1.0} for name in ("thickness", "intensity", "slant")},
        "label": {"kind": "categorical", "values": list(range(10))},
    }
}

Seconds = list[tuple[float, float]]  # (wall, CPU)


def timed(work: Callable[[], object]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def alternately(repeats: int, works: Mapping[str, Callable[[], object]]) -> dict[str, Seconds]:
    """Each one's seconds, in turns; a first round, which warms up, is dropped."""
    seconds: dict[str, Seconds] = {name: [] for name in works}
    for _ in range(repeats + 1):
        for name, work in works.items():
            seconds[name].append(timed(work))
    return {name: values[1:] for name, values in seconds.items()}


def training_step(model: DeepSCM, vectorised: bool, x: Tensor, a: Tensor) -> Callable[[], object]:
    optimiser = torch.optim.Adam(model.parameters(), model.lr)
    looped = TraceMeanField_ELBO(model.elbo_particles, max_plate_nesting=1, vectorize_particles=False)

    def step() -> None:
        optimiser.zero_grad()
        if vectorised:
            loss = -model.elbo(x, a)
        else:
            loss = looped.differentiable_loss(model.model, model.guide, model.flow.dequantised(x), a) / len(x)
        loss.backward()
        optimiser.step()

    return step


def counterfactual(model: DeepSCM, x: Tensor, a: Tensor, a_c: Tensor) -> Tensor:
    with torch.inference_mode():
        return model.decode(model.abduct(x, a), a_c)


def counterfactual_loop(model: DeepSCM, x: Tensor, a: Tensor, a_c: Tensor) -> Tensor:
    """z, its pixel noise and its image, a particle at a time."""
    with torch.inference_mode():
        v = model.flow.centred(x)
        y, images = model.flow.unconstrained(v), []
        for eps_z in model.eps_z:
            loc, scale = model.posterior(v, a)
            z = loc + scale * eps_z
            eps = (y - model.locations(z, a)) / model.sigma
            images.append(model.flow.image(model.locations(z, a_c) + model.sigma * eps))
        return torch.stack(images).mean(dim=0)


def main(report: Callable[[str], None] = print) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=5, help="training steps to time (default: 5)")
    parser.add_argument("--repeats", type=int, default=2, help="batches of counterfactuals to time (default: 2)")
    parser.add_argument("--batch-size", type=int, default=256, help="images in a batch (default: 256, as published)")
    parser.add_argument(
        "--elbo-particles", type=int, default=4, help="draws of z in the ELBO (default: 4, as published)"
    )
    parser.add_argument("--particles", type=int, default=32, help="draws of z in a counterfactual (default: 32)")
    parser.add_argument("--width", type=float, default=1.0, help="width of the networks (default: 1, as published)")
    parser.add_argument("--size", type=int, default=28, choices=(28, 64), help="digits or faces (default: 28)")
    parser.add_argument("--threads", type=int, help="threads of PyTorch (default: its own choice)")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    shape = (1, 28, 28) if options.size == 28 else (3, 64, 64)
    model = DeepSCM(
        SCM, shape, options.width, elbo_particles=options.elbo_particles, particles=options.particles
    )  # fmt: skip
    n = options.batch_size
    x = torch.rand(n, *shape)
    a, a_c = (model.scm.schema.encode(columns(n)) for _ in range(2))
    report(f"batch {n}, {shape[1]}x{shape[2]}, width {options.width}, {torch.get_num_threads()} threads")

    steps = {"vectorised": training_step(copy.deepcopy(model), True, x, a), "loop": training_step(model, False, x, a)}
    report(f"training step, {options.elbo_particles} particles:")
    for name, seconds in alternately(options.steps, steps).items():
        wall, cpu = (statistics.median(values) for values in zip(*seconds, strict=True))
        report(f"  {name:10} {wall:7.3f} s a step, {cpu:7.3f} CPU seconds")

    model.eval()
    torch.testing.assert_close(
        counterfactual(model, x[:4], a[:4], a_c[:4]), counterfactual_loop(model, x[:4], a[:4], a_c[:4])
    )
    works = {
        "vectorised": lambda: counterfactual(model, x, a, a_c),
        "loop": lambda: counterfactual_loop(model, x, a, a_c),
    }
    report(f"counterfactuals, {options.particles} particles:")
    for name, seconds in alternately(options.repeats, works).items():
        wall, cpu = (statistics.median(values) for values in zip(*seconds, strict=True))
        report(f"  {name:10} {n / wall:7.1f} images/s, {n / cpu:7.1f} a CPU second")


def columns(rows: int) -> dict[str, Tensor]:
    """Random attributes in real units."""
    continuous = {name: torch.rand(rows) for name in ("thickness", "intensity", "slant")}
    return {**continuous, "label": torch.randint(10, (rows,))}


if __name__ == "__main__":
    main()
