"""What is on disk: the finished folder, written at once or not at all, and the run's checkpoint."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from canopy_rag import __version__
from canopy_rag._optional import require
from canopy_rag.core.errors import ConfigError, DataError

FORMAT = 1
MANIFEST = "adapter.json"
WEIGHTS_MANIFEST = "training.json"
"""Of a folder with whole weights, which is no adapter."""
UNFINISHED = ".training"
"""Added to the folder's name while a run is not finished."""
PACKAGES = ("numpy", "torch", "transformers", "peft", "safetensors")


def check_out(folder: Path) -> None:
    """Check that a result can be put into a folder that is not there yet, or empty.

    Raises:
        ConfigError: If something is there.
    """
    if folder.is_dir() and not any(folder.iterdir()):
        return
    if folder.exists():
        raise ConfigError(f"{str(folder)!r} is not empty; name another --out, or delete it")


def manifest(
    kind: str,
    base: Mapping[str, str],
    mode: str,
    *,
    config: Mapping[str, Any],
    data: Mapping[str, str],
    results: Mapping[str, Any],
    retrieves: bool = False,
    lexical_weight: float | None = None,
) -> dict[str, Any]:
    """Return what describes a result: what it belongs to, and how and on what it was made.

    Args:
        kind: Of the adapter.
        base: Encoder that it belongs to.
        mode: How nodes are read.
        config: The recipe.
        data: Checksums.
        results: What came out.
        retrieves: Whether items are ranked by the tuned encoder, too (D12).
        lexical_weight: Of the lexical term (D3); None: there is none.
    """
    lexical = {} if lexical_weight is None else {"lexical": {"weight": lexical_weight}}
    return {
        "format": FORMAT,
        "kind": kind,
        "base": dict(base),
        "mode": mode,
        "retrieves": retrieves,
        **lexical,
        "config": dict(config),
        "data": dict(data),
        "results": dict(results),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Return the versions of this package and of those installed that it trains with."""
    found = {"canopy-rag": __version__}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def write_folder(
    folder: Path, name: str, body: Mapping[str, Any], write: Callable[[Path], None]
) -> None:
    """Write a result: beside its place first, then moved there as a whole.

    What a killed process left beside the place is removed: the number of its process would come
    again, in a container at every start.

    Args:
        folder: Where it goes; not there yet, or empty.
        name: Of the file that describes it.
        body: What that file says.
        write: Writes the other files into the folder that it is given.
    """
    text = json.dumps(body, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = folder.with_name(f".{folder.name}.new")
    if beside.exists():
        shutil.rmtree(beside)
    beside.mkdir()
    try:
        write(beside)
        (beside / name).write_text(text, encoding="utf-8")
        if folder.is_dir():
            folder.rmdir()
        beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def digest(*parts: Any) -> str:
    """Return a checksum over JSON values."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of an unfinished run, beside the folder that it will write.

    Args:
        out: That folder.
        run: Checksum over everything that the run depends on.
    """

    out: Path
    run: str

    @property
    def folder(self) -> Path:
        """Where it is."""
        return self.out.with_name(self.out.name + UNFINISHED)

    def load(self) -> dict[str, Any] | None:
        """Return the state that was saved last, or None.

        Raises:
            ConfigError: If it is another run's.
            DataError: If it cannot be read.
        """
        path = self.folder / "state.pt"
        if not path.is_file():
            return None
        torch = require("torch", extra="train", feature="training")
        try:
            state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # whatever torch and pickle raise
            raise DataError(
                f"{path}: the checkpoint cannot be read ({error}); delete {str(self.folder)!r} to "
                "begin anew"
            ) from error
        if state.get("run") != self.run:
            raise ConfigError(
                f"{str(self.folder)!r} holds an unfinished training with another encoder, data or "
                "settings; repeat that command to finish it, or begin anew with --fresh"
            )
        return state

    def save(self, state: Mapping[str, Any]) -> None:
        """Save a state; a kill leaves the one before or this one."""
        torch = require("torch", extra="train", feature="training")
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "state.pt"
        beside = path.with_suffix(".new")
        with beside.open("wb") as file:
            torch.save({**state, "run": self.run}, file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)

    def remove(self) -> None:
        """Forget the run."""
        shutil.rmtree(self.folder, ignore_errors=True)
