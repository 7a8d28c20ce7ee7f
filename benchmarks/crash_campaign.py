"""Kills at random moments of indexing, pruning, upgrades, evaluation, training, and uploads.

After each kill: what is on disk is sound and holds whole files alone; the same command again ends
where a run that nobody disturbed ended; searches show the same. The kinds and what is checked are
in `tests/faults/crashes`, of which the test suite runs a few kills. Results of kinds that are not
named stay. Training needs the extra `train`; Ray a cluster by `RAY_ADDRESS`. Writes
`benchmarks/results/crash.json`.

    python benchmarks/crash_campaign.py [--kills 50] [--kind index --kind prune ...]
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import samples
from tests.faults.crashes import kinds
from tests.faults.crashes.campaign import kills
from tests.faults.crashes.serving import Serving
from tests.faults.crashes.upgrading import Upgrading

KINDS = {
    each.name: each
    for each in (
        kinds.Indexing,
        kinds.IndexingWithWorkers,
        kinds.IndexingOnRay,
        kinds.Pruning,
        kinds.Evaluating,
        kinds.Training,
        Serving,
        Upgrading,
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--kind", action="append", choices=sorted(KINDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--add", action="store_true", help="To kills by other seeds before.")
    parser.add_argument("--keep", type=Path, help="Where trials with faults are kept.")
    parser.add_argument("--dry", action="store_true", help="Write no result.")
    args = parser.parse_args()
    for name in args.kind or KINDS:
        begin = time.perf_counter()
        folder = Path(tempfile.mkdtemp(dir=args.keep)).resolve()
        try:
            outcome = kills(KINDS[name](folder), args.kills, args.seed, print)
        finally:
            if args.keep is None:
                shutil.rmtree(folder)
        told = {**outcome.to_dict(), "seeds": [args.seed]}
        print(name, told, f"{time.perf_counter() - begin:.0f} s")
        if not args.dry:
            _write(name, told, add=args.add)


def _write(name: str, told: dict[str, Any], *, add: bool) -> None:
    """Put the outcome of one kind beside the others, or add it to that of the same kind."""
    path = samples.RESULTS / "crash.json"
    result: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {"kinds": {}}
    before = result["kinds"].get(name)
    if add and before is not None:
        if set(before["seeds"]) & set(told["seeds"]):
            raise ValueError(f"{name}: the kills of seed {told['seeds']} are counted already")
        told = {each: before[each] + value for each, value in told.items()}
    result["kinds"][name] = told
    samples.write("crash", {**result, **samples.machine()})


if __name__ == "__main__":
    main()
