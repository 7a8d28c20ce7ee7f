"""From random folders of files to what is shown of them: how often, and what did not hold.

Texts, Markdown, pages, tables and lists of documents in many scripts are written, indexed and
searched; what is shown is read again from the files. The checks are in `tests/property`, of which
the test suite runs a few. Every tenth folder is also indexed and searched by another process, with
other batches and threads. Writes `benchmarks/results/invariants.json`.

    python benchmarks/invariants.py [--folders 500] [--packaged 40]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import samples
from tests.property.invariants import CLOSE, Tally, check_all

ELSEWHERE_EVERY = 10


def run(encoder: str, seeds: range) -> dict[str, Any]:
    """Check folders; return counts."""
    tally, widest = Tally(), 0.0
    for seed in seeds:
        n_before = len(tally.violations)
        elsewhere = seed % ELSEWHERE_EVERY == 0
        widest = max(widest, check_all(seed, tally, encoder, elsewhere=elsewhere))
        for each in tally.violations[n_before:]:
            print(f"folder {seed}: {each}")
    return {
        "folders": len(seeds),
        "elsewhere": len([seed for seed in seeds if seed % ELSEWHERE_EVERY == 0]),
        "checks": dict(sorted(tally.checks.items())),
        "violations": len(tally.violations),
        "widest_gap": round(widest, 6),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folders", type=int, default=500)
    parser.add_argument("--packaged", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    first = args.seed
    result = {
        "close": CLOSE,
        "seed": first,
        "encoders": {
            "hashing": run("hashing", range(first, first + args.folders)),
            "minilm": run("minilm", range(first, first + args.packaged)),
        },
        **samples.machine(),
    }
    samples.write("invariants", result)


if __name__ == "__main__":
    main()
