"""The folder of one run: what it was made with, and what may go on in it.

| file | holds |
|---|---|
| `config.json` | settings, data, models and their fingerprints; the environments it ran in |
| `predictions.jsonl` | an answer a line, appended as they come, each with its checksum |
| `batches.jsonl` | what each batch took |
| `decisions.jsonl` | decision instances of each question (P11), no model asked |
| `failures.jsonl` | questions that got no answer, and why; they are asked again |
| `metrics.json`, `report.md`, `tables/`, `figures/` | made from those |
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from canopy_rag._optional import require
from canopy_rag.core.errors import ConfigError, DataError

FORMAT = 1
_ABSENT = '"absent"'
CONFIG, PREDICTIONS, BATCHES = "config.json", "predictions.jsonl", "batches.jsonl"
DECISIONS, FAILURES, METRICS = "decisions.jsonl", "failures.jsonl", "metrics.json"
_PACKAGES = (
    "canopy-rag",
    "numpy",
    "onnxruntime",
    "tokenizers",
    "lancedb",
    "torch",
    "transformers",
    "sentence-transformers",
    "openai",
    "xllamacpp",
)


class RunFolder:
    """A run on disk.

    Args:
        path: The folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder for one process.

        Raises:
            DataError: If another one runs in it, or it cannot be written.
        """
        filelock = require("filelock", extra="eval", feature="running an evaluation")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = filelock.FileLock(self.path / ".lock", timeout=0)
            lock.acquire()
        except filelock.Timeout as error:
            raise DataError(f"{self.path}: another evaluation runs in this folder") from error
        except OSError as error:
            raise DataError(f"{self.path} cannot be written: {error.strerror}") from error
        try:
            yield
        finally:
            lock.release()

    def begin(self, fixed: Mapping[str, Any], free: Mapping[str, Any]) -> None:
        """Write what the run is made with, or check that it is what it was made with.

        Args:
            fixed: What results depend on. A run goes on only with the same.
            free: What may change from one start to the next: paths, servers, how many at once.

        Raises:
            ConfigError: Naming all that differs.
            DataError: If the folder has results but no settings, or those cannot be read.
        """
        fixed = json.loads(json.dumps(fixed))
        environment = {**environment_now(), **free}
        before = self.config()
        if before is None:
            if (self / PREDICTIONS).exists():
                raise DataError(
                    f"{self.path} has predictions but no {CONFIG}: nobody knows what they were "
                    "made with; choose another folder"
                )
            environments = [environment]
        else:
            self.check(fixed)
            fixed = before["fixed"]  # it may know more: methods of then had needs of their own
            environments = [*before["environments"]]
            if environment != environments[-1]:
                environments.append(environment)
        body = {"format": FORMAT, "fixed": fixed, "environments": environments}
        write_json(self / CONFIG, body)

    def config(self) -> dict[str, Any] | None:
        """Return what the run was made with; None before it began.

        Raises:
            DataError: If the file cannot be read.
        """
        path = self / CONFIG
        if not path.exists():
            return None
        try:
            body = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(f"{path} cannot be read: {error}") from error
        if not isinstance(body, dict) or body.get("format") != FORMAT:
            raise DataError(f"{path} is not of a run of this version (format {FORMAT})")
        return body

    def check(self, known: Mapping[str, Any]) -> None:
        """Check that the run may go on with settings; of a new run nothing is known.

        Args:
            known: The settings as far as they are known, before items are encoded.

        Raises:
            ConfigError: Naming all that differs.
            DataError: If the settings of before cannot be read.
        """
        before = self.config()
        if before is None:
            return
        found = differences(before["fixed"], json.loads(json.dumps(known)))
        differing = [
            (name, old, new)
            for name, old, new in found
            if new != _ABSENT or re.fullmatch(r"benchmarks\.[^.]+", name)  # one fewer: another pool
        ]
        if differing:
            lines = "\n".join(f"  {name}: {old} there, {new} now" for name, old, new in differing)
            raise ConfigError(
                f"{self.path} holds a run with other settings:\n{lines}\n"
                "Go on with those, or choose another folder"
            )


def differences(
    old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, str, str]]:
    """Yield `(name, old, new)` of every value that differs between two nested mappings.

    >>> list(differences({"a": {"b": 1, "c": 2}}, {"a": {"b": 3, "c": 2}}))
    [('a.b', '1', '3')]
    """
    for key in dict.fromkeys([*old, *new]):
        name = f"{prefix}{key}"
        one, other = old.get(key, "absent"), new.get(key, "absent")
        if isinstance(one, dict) and isinstance(other, dict):
            yield from differences(one, other, f"{name}.")
        elif one != other:
            yield name, json.dumps(one), json.dumps(other)


def environment_now() -> dict[str, Any]:
    """Return machine, interpreter and the versions of the packages that results may depend on."""
    versions: dict[str, str] = {}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "packages": versions,
    }


def write_json(path: Path, body: Any) -> None:
    """Write a JSON file in one step: a reader sees the old one or the new one."""
    temporary = path.with_name(f".{path.name}.new")
    text = json.dumps(body, indent=1, ensure_ascii=False, allow_nan=False)
    temporary.write_text(f"{text}\n", encoding="utf-8")
    temporary.replace(path)
