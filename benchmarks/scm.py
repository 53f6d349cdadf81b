"""Counterfactual rows per second of the Attribute-SCM beside dowhy.gcm, on the same graph and data, in one run.

The graph is a continuous chain a -> b -> c with a -> c, linear-Gaussian in both (dowhy.gcm has no abduction for discrete
effects).  Both fit first; only the counterfactual for do(a = 0.5) is timed, best of the repeats.
"""

import argparse
import logging
import time

import networkx as nx
import pandas as pd
import torch
from dowhy import gcm

from cfgen.scm import AttributeSCM

EDGES = [("a", "b"), ("b", "c"), ("a", "c")]


def chain(rows: int) -> dict[str, torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    a = torch.randn(rows, generator=g)
    b = 2 * a + 0.5 * torch.randn(rows, generator=g)
    return {"a": a, "b": b, "c": 0.3 * a - b + 0.2 * torch.randn(rows, generator=g)}


def best_seconds(run, repeats: int) -> float:
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    gcm.config.disable_progress_bars()
    logging.getLogger("dowhy").setLevel(logging.ERROR)

    columns = chain(options.rows)
    frame = pd.DataFrame({name: column.double().numpy() for name, column in columns.items()})
    theirs = gcm.InvertibleStructuralCausalModel(nx.DiGraph(EDGES))
    theirs.set_causal_mechanism("a", gcm.EmpiricalDistribution())
    for name in "bc":
        theirs.set_causal_mechanism(name, gcm.AdditiveNoiseModel(gcm.ml.create_linear_regressor()))
    gcm.fit(theirs, frame)
    seconds = best_seconds(
        lambda: gcm.counterfactual_samples(theirs, {"a": lambda _: 0.5}, observed_data=frame), options.repeats
    )
    print(f"{'dowhy.gcm, linear':28s} {options.rows / seconds:14,.0f} rows/s")
    base = options.rows / seconds

    for kind in ("gaussian", "mlp", "spline"):
        ours = AttributeSCM(
            {name: {"kind": "continuous"} for name in "abc"}, EDGES, {"a": "empirical", "b": kind, "c": kind}
        ).fit(columns)
        seconds = best_seconds(lambda: ours.counterfactual(columns, {"a": 0.5}), options.repeats)  # noqa: B023
        print(f"{'cfgen, ' + kind:28s} {options.rows / seconds:14,.0f} rows/s  {options.rows / seconds / base:6.1f} x")


if __name__ == "__main__":
    main()
