"""The paper's full Morpho-MNIST protocol, extrapolated from a hundredth of it, and where its time goes.

The paper asks each of 10,000 test images for 100 values of each of 3 attributes: 3 million counterfactuals, each decoded and
measured.  Here 100 images are asked, by the code of `cfgen evaluate --values 100`.  Weights are random, which does not change the
time of a pass; since they draw no digits, the real ones are what is measured.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch

from cfgen.metrics import effectiveness
from cfgen.metrics.effectiveness import compare
from datamodules import MorphoMNIST
from lightning_modules import CondALI

PROTOCOL = 10_000 * 100 * 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--values", type=int, default=100)
    parser.add_argument("--width", type=float, default=1.0)
    options = parser.parse_args()

    torch.manual_seed(0)
    data = MorphoMNIST(limit=max(1000, 10 * options.images))
    data.prepare_data()
    data.setup()
    x = data.images("test")[: options.images]
    columns = {name: column[: options.images] for name, column in data.columns("test").items()}
    mechanism: Any = CondALI(data.scm_spec, data.image_shape, width=options.width).eval()
    mechanism.scm.fit(data.train_columns)

    seconds = {"decode": 0.0, "measure": 0.0}

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            started = time.perf_counter()
            result = function(*arguments)
            seconds[name] += time.perf_counter() - started
            return result

        return run

    decode = timed("decode", mechanism.decode)
    digits = x.float() / 255

    def decode_digits(z: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        decode(z, a)
        return digits[: len(a)]

    mechanism.decode = decode_digits
    effectiveness.measured_columns = timed("measure", effectiveness.measured_columns)

    for warm in (True, False):
        seconds.update(decode=0.0, measure=0.0)
        started = time.perf_counter()
        for _ in compare(mechanism, mechanism.scm, x, columns, values=1 if warm else options.values):
            pass
        total = time.perf_counter() - started
    made = options.images * options.values * 3
    seconds["the rest"] = total - sum(seconds.values())
    print(f"{made:,} counterfactuals at width {options.width:g} in {total:.1f} s: {made / total:,.0f} a second")
    for name, value in seconds.items():
        print(f"{name:10s} {value:8.1f} s {value / total:7.1%}")
    print(f"the whole protocol, {PROTOCOL:,} counterfactuals: {total * PROTOCOL / made / 60:.0f} minutes")


if __name__ == "__main__":
    main()
