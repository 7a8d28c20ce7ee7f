"""The diagnosis of the frozen `minilm`, late pooling beside per-node encoding, on the test parts.

    CANOPY_DATA=folder-of-benchmark-folders python benchmarks/bench_diagnosis.py

The two modes run at the same time, one process each, over the same questions and the same pools.
Writes `benchmarks/results/diagnosis-late.json` and `-node.json`; `docs/diagnosis.md` is made from
them. Folders are named like the benchmarks.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
ASSETS = Path(__file__).parent.parent / "docs" / "assets"
BENCHMARKS = ("nq", "hotpotqa", "musique", "ottqa", "tatqa")
MAX_ITEMS = 800
"""Items of each pool besides the gold ones; OTT-QA alone would bring 13,457 passages."""
MODES = ("late", "node")


def run(mode: str, data: Path) -> None:
    from canopy_rag.datasets.registry import benchmark
    from canopy_rag.encoders.registry import encoder
    from canopy_rag.evaluation.diagnose import diagnose
    from canopy_rag.evaluation.tasks import load_task
    from canopy_rag.text import DefaultSplitter

    started = time.perf_counter()
    splitter = DefaultSplitter()
    tasks = [
        load_task(benchmark(name), data / name, splitter, part="test", max_items=MAX_ITEMS)
        for name in BENCHMARKS
    ]
    model = encoder("minilm:base", mode=mode)
    diagnosis = diagnose(tasks, model, k=10)
    body = {
        "what": "diagnosis of the frozen encoder on the test parts of the samples",
        "encoder": "minilm:base",
        "mode": mode,
        "fingerprint": model.fingerprint.revision,
        "k": 10,
        "split": "test",
        "max_items": MAX_ITEMS,
        "interval": "95 %, bootstrap by question, 10,000 resamples",
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "seconds": round(time.perf_counter() - started, 1),
        **diagnosis.to_dict(),
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"diagnosis-{mode}.json"
    path.write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if mode == "late":
        from canopy_rag.evaluation.diagnosis_plots import plot_curve

        plot_curve(diagnosis, "all", "retrieval", ASSETS / "diagnosis-curve.png")
    print(f"{mode}: {body['seconds']:.0f} s, wrote {path.name}", flush=True)


def main() -> None:
    folder = os.environ.get("CANOPY_DATA", "")
    missing = [name for name in BENCHMARKS if not (Path(folder) / name).is_dir()]
    if not folder or missing:
        print(f"left out: set CANOPY_DATA to a folder with {', '.join(missing or BENCHMARKS)}")
        return
    if len(sys.argv) > 1:
        run(sys.argv[1], Path(folder))
        return
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen([sys.executable, __file__, mode], env=environment) for mode in MODES
    ]
    failed = [process.args for process in running if process.wait()]
    if failed:
        sys.exit(f"failed: {failed}")


if __name__ == "__main__":
    main()
