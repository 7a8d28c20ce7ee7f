"""All methods and ablations on the pooled samples, with an oracle, and the packaged small reader.

    CANOPY_DATA=folder-of-benchmark-folders python benchmarks/quality_methods.py
    ... --encoder minilm+FOLDER     another adapter
    ... --no-local                  without the packaged reader (its part takes minutes)

Three runs of `canopy evaluate`, resumed where they were left if the script is stopped:

- `titles`: NQ, HotpotQA, OTT-QA (tables and passages, one pool) and MuSiQue beside them, test
  parts; the reader is the oracle ("answerable": the answer stands in the evidence), decisions ask
  for the title of what is missing;
- `hops`: MuSiQue, decisions follow its own decomposition;
- `local`: ten questions of each with the packaged small model as reader, for four methods.

An oracle says what evidence is worth, and nothing of what a reader makes of it; the packaged model
is too small to say much of anything. Writes `benchmarks/results/methods.json`, from which
`docs/benchmarks.md` is made.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import samples

from canopy_rag.config import Config, load
from canopy_rag.datasets.registry import benchmark
from canopy_rag.evaluation.evaluate import Evaluation, Plan
from canopy_rag.evaluation.folder import RunFolder
from canopy_rag.evaluation.report import write_report
from canopy_rag.evaluation.runner import Running

RUNS = Path(__file__).parent / ".cache" / "methods"
LIMIT = 150
"""Questions of each benchmark, as far as its test part has them."""
MAX_ITEMS = 1500
"""Items of each benchmark besides the gold ones."""
METHODS = (
    "vanilla",
    "recomp:n=5",
    "recomp:n=20",
    "s2g-rag",
    "ircot",
    "universalrag",
    "canopy",
    "canopy:select=set",
    "canopy-routed",
    "canopy-norefine",
    "canopy-oneround",
    "canopy-f0",
    "flat:m=1",
    "flat:m=5",
    "flat:m=10",
    "flat:m=1,encoder=f0",
    "flat:m=5,encoder=f0",
)
LOCAL_METHODS = ("vanilla", "canopy", "flat:m=1", "recomp:n=5")
FIGURES = (
    "f1", "em", "evidence_tokens", "llm_calls", "gold_leaf_recall", "rounds", "held_share",
    "hop_coverage", "amortized_latency_s",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One call of `canopy evaluate`."""

    name: str
    llm: str
    benchmarks: Sequence[str]
    methods: Sequence[str]
    limit: int = LIMIT


ORACLES = (
    Run(name="titles", llm="oracle:titles", benchmarks=samples.BENCHMARKS, methods=METHODS),
    Run(name="hops", llm="oracle:hops", benchmarks=("musique",), methods=METHODS),
)
LOCAL = Run(
    name="local", llm="local", benchmarks=samples.BENCHMARKS, methods=LOCAL_METHODS, limit=10
)


def settings(run: Run, encoder: str) -> Config:
    """Return the settings: the paper's rule, critic and cap, the embedded encoder."""
    config = load({}, {}, None)
    oracle = run.llm.startswith("oracle")
    return replace(
        config,
        encoder=replace(config.encoder, name=encoder),
        llm=replace(config.llm, name=run.llm, max_in_flight=8),
        retrieval=replace(config.retrieval, critic="llm" if oracle else "auto"),
        select=replace(config.select, select="paper", min_tokens=0, budget=16_000, cap="tail"),
    )


def evaluated(run: Run, data: Path, encoder: str) -> dict[str, Any]:
    """Run, or go on with, one evaluation, and return its metrics."""
    folder = RunFolder(RUNS / run.name)

    def tell(running: Running) -> None:
        n = running.n + running.failed
        if n == running.total or (run.llm == "local" and n):
            score = running.score / max(1, running.n)
            print(f"{run.name}: {running.benchmark} {running.method} {n} {score:.3f}", flush=True)

    plan = Plan(
        places=[(benchmark(name), data / name) for name in run.benchmarks],
        config=settings(run, encoder),
        methods=run.methods,
        limit=run.limit,
        max_items=MAX_ITEMS,
        index=RUNS / f"index-{run.name}",
    )
    outcome = asyncio.run(Evaluation(plan=plan, folder=folder, tell=tell).run())
    for failure in outcome.failures:
        print(f"failed: {failure}", flush=True)
    report = write_report([folder.path], folder.path)
    return report.metrics[0]


def shortened(metrics: dict[str, Any]) -> dict[str, Any]:
    """Return what is committed of a run's metrics."""
    return {
        "reader": metrics["reader"],
        "encoder": metrics["encoder"],
        "benchmarks": {
            name: {
                "n": each["n"],
                "group": each["group"],
                "decision_accuracy": rounded(each["decision_accuracy"]),
                "methods": {
                    method: {figure: rounded(own[figure]) for figure in FIGURES}
                    | {"n_failed": own["n_failed"], "tokens_are": own["tokens_are"]}
                    for method, own in each["methods"].items()
                },
            }
            for name, each in metrics["benchmarks"].items()
        },
        "pooled": rounded(metrics["pooled"]),
        "differences": [rounded(each) for each in metrics["differences"] if each["figure"] != "em"],
    }


def rounded(value: Any) -> Any:
    """Return JSON with its numbers cut to what can be read."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    if isinstance(value, float):
        return round(value, 4 if abs(value) < 10 else 1)
    return value


def main() -> None:
    parser = samples.parser(__doc__)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--no-local", action="store_true", help="leave out the packaged reader")
    arguments = parser.parse_args()
    data = samples.require(arguments.data, *samples.BENCHMARKS)
    started = time.perf_counter()
    runs = ORACLES if arguments.no_local else (*ORACLES, LOCAL)
    result: dict[str, Any] = {
        "what": "methods of docs/methods.md on pooled samples, test parts; `oracle`: the answer "
        "counts if it stands in the evidence, decisions know the gold; `local`: the packaged "
        "small model reads",
        "pool": f"gold items and at most {MAX_ITEMS:,} others of each benchmark; NQ, HotpotQA and "
        "OTT-QA are one pool, MuSiQue another",
        "selection": "select=paper, min_tokens=0, budget 16,000, cap=tail, as in the paper",
        "tokens": "the encoder's tokenizer, estimated",
        "interval": "95 %, paired bootstrap over questions, 10,000 resamples, seed 0",
        "runs": {run.name: shortened(evaluated(run, data, arguments.encoder)) for run in runs},
        **samples.machine(),
        "seconds": round(time.perf_counter() - started),
    }
    samples.write("methods", result)


if __name__ == "__main__":
    main()
