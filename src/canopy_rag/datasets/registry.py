"""From the name of a benchmark to its loader; loaders are imported when they are asked for."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from canopy_rag.core.errors import ConfigError, DataError, UnknownNameError
from canopy_rag.core.protocols import SentenceSplitter
from canopy_rag.datasets.base import Benchmark, Loaded

_MODULES = {
    "nq": "nq",
    "hotpotqa": "hotpotqa",
    "ottqa": "ottqa",
    "mmqa": "mmqa",
    "lvbench": "lvbench",
    "2wikimultihopqa": "wiki2",
    "tatqa": "tatqa",
    "longvideobench": "longvideobench",
    "musique": "musique",
    "jsonl": "jsonl",
    "flashrag": "flashrag",
}
NAMES = tuple(_MODULES)
"""Every benchmark: in domain, out of domain, extra."""


def benchmark(name: str) -> Benchmark:
    """Return the benchmark of a name.

    Raises:
        UnknownNameError: If there is none, with the nearest one.
    """
    if name not in _MODULES:
        raise UnknownNameError("benchmark", name, NAMES)
    module = importlib.import_module(f"canopy_rag.datasets.{_MODULES[name]}")
    found: Benchmark = module.BENCHMARK
    return found


def benchmarks() -> Iterator[Benchmark]:
    """Yield every benchmark, in the order of `NAMES`."""
    for name in NAMES:
        yield benchmark(name)


def parse_place(text: str) -> tuple[Benchmark, Path]:
    """Return the benchmark and folder of `NAME=PATH`.

    Raises:
        ConfigError: If it has another form.
        UnknownNameError: If there is no such benchmark.
    """
    name, equals, path = text.partition("=")
    if not equals or not path:
        known = name in _MODULES
        hint = f"such as {name}=FOLDER" if known else "such as nq=data/nq"
        raise ConfigError(f"{text!r}: must be NAME=PATH, {hint}")
    return benchmark(name), Path(path).expanduser()


def load(name: str, folder: Path, splitter: SentenceSplitter) -> Loaded:
    """Read a benchmark from a folder with some of its official files.

    Raises:
        UnknownNameError: If there is no such benchmark.
        DataError: If the folder has none of its files, or naming file and place of what is wrong.
    """
    found = benchmark(name)
    if not folder.exists():
        raise DataError(f"{folder}: there is no such folder")
    return replace(found.load(folder, splitter), name=name)
