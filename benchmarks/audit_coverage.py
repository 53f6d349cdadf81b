"""Does the 95 % interval of an audit hold the true effect in 95 % of cases?  A study where the truth is known.

Faces that cfgen draws itself (their true counterfactuals are drawn, too) or digits (whose thickness and intensity a tool sets)
form a pool.  Five classifiers are asked about all of its images, their true counterfactuals and the generator's.  Then resamples
of the pool are audited, in which each face has the attribute or not with the probability of the causal model
(coverage_study/pool.py says why), and the intervals are compared with the truth of the pool:

    generator alone   the bootstrap over the generator's flips (cfgen.metrics.CounterfactualBias)
    real images       RealImages.estimate: images that have the attribute, weighted to be like those that do not
    combined          RealImages.combined: the same with the generator as a second outcome model
    + N pairs         combine([combined, by_pairs]): N true counterfactuals of changed images are known; by_pairs alone where real
                      images do not suffice

Answers are kept in the folder --out and used again if nothing that they depend on changes.  Writes FOLDER/faces.json (or
digits.json) with everything and prints Markdown tables.

    OMP_NUM_THREADS=1 python -m benchmarks.audit_coverage --classifier runs/faces_classifier --predictor runs/faces_predictor
    OMP_NUM_THREADS=1 python -m benchmarks.audit_coverage --study digits
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.coverage_study import digits, faces
from benchmarks.coverage_study.pool import Pool, load_if_made_so
from benchmarks.coverage_study.resampling import resample
from benchmarks.coverage_study.summary import summarise, tables
from cfgen.errors import UserError


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", choices=["faces", "digits"], default="faces", help="which images (default: faces)")
    parser.add_argument("--classifier", help="a finished run of faces_classifier, or for digits of morphomnist_classifier; "
                        "by default a small network is trained")  # fmt: skip
    parser.add_argument("--predictor", help="a finished run of faces_predictor, whose Black_Hair and Eyeglasses are the "
                        "hair-only and the glasses-only classifier; by default a small network is trained")  # fmt: skip
    parser.add_argument("--pool", type=int, help="images of the pool (default: 6000 faces, 2000 digits)")
    parser.add_argument(
        "--n", type=int, nargs="+", default=[500, 2000], help="images of a resample (default: 500 2000)"
    )
    parser.add_argument("--resamples", type=int, default=200, help="of each intervention and size (default: 200)")
    parser.add_argument("--epochs", type=int, default=6, help="of the small networks (default: 6)")
    parser.add_argument(
        "--training", type=int, help="images to train the small networks on (default: 20000 faces, 6000 digits)"
    )
    parser.add_argument("--seed", type=int, default=12345, help="of the pool and the resamples (default: 12345)")
    parser.add_argument("--processes", type=int, default=2, help="that share the work (default: 2)")
    parser.add_argument(
        "--out", type=Path, default=Path("runs/audit_coverage"), help="folder (default: runs/audit_coverage)"
    )
    return parser.parse_args()


def pool_of(options: argparse.Namespace, path: Path) -> Pool:
    """The pool that was made earlier, or a new one."""
    common = {"seed": options.seed, "epochs": options.epochs, "classifier": options.classifier}
    common |= {"processes": options.processes}
    common |= {"size": options.pool} if options.pool else {}
    common |= {"training": options.training} if options.training else {}
    study: Any = faces if options.study == "faces" else digits
    made = study.Options(**common | ({"predictor": options.predictor} if options.study == "faces" else {}))
    pool = load_if_made_so(path, made.recipe)
    if pool is None:
        pool = study.pool_of(made)
        pool.save(path)
    return pool


def cpu_minutes() -> float:
    """Of this process and of those that it started: what a busy machine does not change."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used) / 60


def main() -> None:
    options = parsed()
    started = time.perf_counter()
    answers = options.out / f"{options.study}.npz"
    try:
        pool = pool_of(options, answers)
    except UserError as error:
        sys.exit(f"error: {error}")
    asked = time.perf_counter()
    found, effective = resample(answers, options.n, options.resamples, options.seed, options.processes)
    finished = time.perf_counter()
    summary = summarise(pool, options.n, found, effective)
    summary["run"] = {
        "command": " ".join(["python", *sys.argv]),
        "recipe": pool.recipe,
        "sizes": options.n,
        "resamples": options.resamples,
        "seed": options.seed,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}",
        "minutes": {"answers": (asked - started) / 60, "resampling": (finished - asked) / 60, "cpu": cpu_minutes()},
    }
    (options.out / f"{options.study}.json").write_text(json.dumps(summary, indent=1))
    print(
        f"{options.study}: {len(pool):,} images, {len(pool.questions)} interventions, {options.resamples} resamples\n"
    )
    print("\n".join(tables(summary, options.n)))
    minutes = summary["run"]["minutes"]
    print(
        f"\n{minutes['answers']:.1f} minutes for the answers, {minutes['resampling']:.1f} for the resamples, ", end=""
    )
    print(f"{minutes['cpu']:.1f} of CPU; results: {options.out}")


if __name__ == "__main__":
    main()
