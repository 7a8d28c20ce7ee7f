"""How long importing the package takes in a fresh interpreter; the promise is under 0.3 s.

Writes `benchmarks/results/import.json`.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path

N_RUNS = 20
LIMIT_S = 0.3
CODE = "import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
STATEMENTS = {
    "import canopy_rag": "import canopy_rag",
    "the refinement rule": "import canopy_rag; canopy_rag.refine",
    "the command line": "import canopy_rag.cli",
}
RESULT = Path(__file__).parent / "results" / "import.json"


def seconds(statement: str) -> list[float]:
    """Return the time of each run, the first one (which may write bytecode) left out."""
    command = [sys.executable, "-c", CODE.format(statement=statement)]
    runs = [
        float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        for _ in range(N_RUNS + 1)
    ]
    return sorted(runs[1:])


def main() -> None:
    rows = {}
    for name, statement in STATEMENTS.items():
        runs = seconds(statement)
        rows[name] = {
            "median_s": round(statistics.median(runs), 4),
            "worst_s": round(runs[-1], 4),
        }
        print(
            f"{name:22} median {rows[name]['median_s']:.3f} s, worst {rows[name]['worst_s']:.3f} s"
        )
    result = {
        "what": "import time in a fresh interpreter",
        "n_runs": N_RUNS,
        "limit_s": LIMIT_S,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "rows": rows,
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    worst = rows["import canopy_rag"]["median_s"]
    if worst > LIMIT_S:
        sys.exit(f"importing canopy_rag takes {worst} s, the limit is {LIMIT_S} s")


if __name__ == "__main__":
    main()
