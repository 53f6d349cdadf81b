"""How often the graph check contradicts a right graph, and how often it finds what is wrong with others.

    python -m benchmarks.graph_check --tables 200

Tables of 800 rows from a known graph (tests/graph_check/simulated.py): a -> b, a -> c, b -> d, c -> d, and e alone.
"""

from __future__ import annotations

import argparse
import time

from scipy import stats

from cfgen.graph_check import LEVEL
from tests.graph_check.simulated import CONTRADICTED, KINDS, World


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--rows", type=int, default=800)
    options = parser.parse_args()
    tables, rows = options.tables, options.rows
    low, high = (int(stats.binom(tables, LEVEL).ppf(q)) for q in (0.001, 0.999))
    print(f"of {tables} right graphs at a level of {LEVEL:.0%}, {low} to {high} are contradicted in 998 of 1,000 cases")
    heads = [
        "attributes",
        "right graph contradicted",
        "single tests, p < 0.05",
        *(f"{wrong} found" for wrong in CONTRADICTED),
    ]
    print(f"| {' | '.join(heads)} | seconds a check |")
    print("|---" * (4 + len(CONTRADICTED)) + "|")
    for kinds in KINDS:
        start = time.perf_counter()
        checks = [World(kinds, "true").check(rows, seed) for seed in range(tables)]
        each = (time.perf_counter() - start) / tables
        wrong = sum(bool(check.contradictions) for check in checks)
        p = [one.found.p_value for check in checks for one in check.independences]
        found = [sum(World(kinds, graph).found(rows, seed) for seed in range(tables)) for graph in CONTRADICTED]
        single = sum(value < 0.05 for value in p) / len(p)
        print(
            f"| {kinds} | {wrong} of {tables} | {single:.1%} | {' | '.join(f'{n} of {tables}' for n in found)} | {each:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
