"""The demo over several seeds, as a table: `python -m benchmarks.demo_seeds [SEED ...]`."""

from __future__ import annotations

import sys
from dataclasses import replace

from aetta.bench.demo import Setting, perform
from aetta.bench.demo.play import ADAPTED, RECOVERED, RUNS


def main(seeds: list[int]) -> None:
    print("seed  source  adapted (best -> last)  recovered (last)  MAE watched (each run)     resets  seconds")
    for seed in seeds:
        summary = perform(replace(Setting(), seed=seed), watch=lambda *_: None).summary
        runs = summary["runs"]
        adapted, recovered = runs[ADAPTED], runs[RECOVERED]
        each = ", ".join(f"{100 * runs[name]['mae']:.1f}" for name in RUNS)
        print(
            f"{seed:4d}  {100 * summary['source_accuracy']:5.1f}   {100 * summary['adapted_accuracy']:5.1f} "
            f"({100 * adapted['best']:.1f} -> {100 * adapted['last']:.1f})   {100 * summary['recovered_accuracy']:9.1f} "
            f"({100 * recovered['last']:.1f})   {100 * summary['estimate_mae']:6.1f} ({each})   {summary['resets']:6d} "
            f"{summary['seconds']:8.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main([int(seed) for seed in sys.argv[1:]] or [0, 1, 2, 3, 4])
