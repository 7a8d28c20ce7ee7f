"""What starting costs: importing, the command line, the first query of a process.

Every run is a fresh interpreter, the programs in turns, each beside Python's own start. Peers are
imported where they are installed: what their compressors need before they can be used. Writes
`benchmarks/results/start.json`; the promise is an import in under 0.3 s.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from samples import machine, write

LIMIT_S = 0.3
CLI = "from canopy_rag.cli import main; main()"
PYTHON = "python alone"
IMPORT = "import canopy_rag"
FILTER = """
import warnings
warnings.simplefilter("ignore")
from langchain_classic.retrievers.document_compressors import EmbeddingsFilter
"""
PEERS = {
    "LangChain's EmbeddingsFilter": ("langchain_classic", FILTER),
    "LlamaIndex's SentenceEmbeddingOptimizer": (
        "llama_index",
        "from llama_index.core.postprocessor import SentenceEmbeddingOptimizer",
    ),
    "sentence-transformers": (
        "sentence_transformers",
        "from sentence_transformers import SentenceTransformer",
    ),
}
FIRST = """
import json, sys, time
started = time.perf_counter()
import canopy_rag
index = canopy_rag.Index.open(sys.argv[1])
opened = time.perf_counter()
index.search("Who designed the analytical engine?")
first = time.perf_counter()
for n in range(20):
    index.search(f"Where did number {n} live?")
later = (time.perf_counter() - first) / 20
print(json.dumps({"open": opened - started, "first": first - opened, "later": later}))
"""
TEXT = """# Notes

Charles Babbage designed the analytical engine. He lived in London. Ada Lovelace wrote of it.

The engine was never built. Its store was to hold a thousand numbers.
"""


def seconds(arguments: list[str]) -> float:
    """Return how long a fresh interpreter takes from its start to its end."""
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], capture_output=True, check=True, env=ENVIRONMENT)
    return time.perf_counter() - started


ENVIRONMENT = {**os.environ, "COLUMNS": "100"}


def programs(index: Path) -> dict[str, list[str]]:
    """Return what is started, by name."""
    found = {
        PYTHON: ["-c", "pass"],
        IMPORT: ["-c", "import canopy_rag"],
        "import canopy_rag; canopy_rag.refine": ["-c", "import canopy_rag; canopy_rag.refine"],
        "canopy --version": ["-c", CLI, "--version"],
        "canopy --help": ["-c", CLI, "--help"],
        "canopy search, with its answer": ["-c", CLI, "search", "engine", "--index", str(index)],
    }
    for name, (module, code) in PEERS.items():
        if importlib.util.find_spec(module) is not None:
            found[f"import of {name}"] = ["-c", code]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        index = Path(name) / "index"
        (Path(name) / "notes.md").write_text(TEXT, encoding="utf-8")
        seconds(["-c", CLI, "index", f"{name}/notes.md", "--index", str(index)])
        started = programs(index)
        runs: dict[str, list[float]] = {program: [] for program in started}
        stages: dict[str, list[float]] = {}
        for number in range(arguments.runs + 1):  # the first may write bytecode
            for program, command in started.items():
                took = seconds(command)
                if number:
                    runs[program].append(took)
            done = subprocess.run(
                [sys.executable, "-c", FIRST, str(index)],
                capture_output=True,
                text=True,
                check=True,
                env=ENVIRONMENT,
            )
            for stage, took in json.loads(done.stdout).items():
                stages.setdefault(stage, []).append(took)
    medians = {program: statistics.median(own) for program, own in runs.items()}
    over_python = medians[IMPORT] - medians[PYTHON]
    result = {
        "what": "fresh interpreters from start to end, medians, in turns",
        "runs": arguments.runs,
        "limit_s": LIMIT_S,
        **machine(),
        "s": {program: round(median, 4) for program, median in medians.items()},
        "worst_s": {program: round(max(own), 4) for program, own in runs.items()},
        "import_over_python_s": round(over_python, 4),
        "one_process_s": {
            stage: round(statistics.median(own[1:]), 4) for stage, own in stages.items()
        },
    }
    for program, median in medians.items():
        print(f"{program:48} {median:7.3f} s")
    print(result["one_process_s"])
    write("start", result)
    if over_python > LIMIT_S:
        sys.exit(f"importing canopy_rag takes {over_python:.2f} s, the limit is {LIMIT_S} s")


if __name__ == "__main__":
    main()
