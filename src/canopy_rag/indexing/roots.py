"""Which folders an index was made from, and what their files are called in it.

A file's uri is its path below the folder that was indexed, with `/`. The first folder of an index
gives its files no prefix. Every other one, and all of them when the first call names several, puts
its own name before them, `name/...`, or `name-2/...` when the name is taken. A path inside a folder
that is known already, also a single file, belongs to that folder; a single file outside belongs to
its parent folder. A folder that has moved keeps its prefix if the old one is gone and the name is
the same. The folders are in `roots.json` beside the index.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from canopy_rag.core.errors import StoreError

_NAME = "roots.json"


class Roots:
    """The indexed folders with their prefixes.

    Args:
        folder: The index's folder.

    Raises:
        StoreError: If `roots.json` is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / _NAME
        self._prefix_of: dict[Path, str] = {}
        try:
            data = json.loads(self._file.read_bytes())
            self._prefix_of = {Path(root["path"]): root["prefix"] for root in data["roots"]}
        except FileNotFoundError:
            pass  # a new index
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise StoreError(
                f"{str(self._file)!r} is damaged ({error}); restore it from a backup, or index "
                "again into a new folder"
            ) from error

    def add(self, paths: Sequence[Path]) -> None:
        """Take up the folders that are named, or that files named lie in, if they are new."""
        folders = {each if each.is_dir() else each.parent for each in map(resolved, paths)}
        new: list[Path] = []
        for folder in sorted(folders, key=lambda each: (len(each.parts), each)):
            if self.root_of(folder) is None and not any(
                folder.is_relative_to(above) for above in new
            ):
                new.append(folder)
        bare = not self._prefix_of and len(new) == 1
        for folder in new:
            moved = self._moved(folder)
            if moved is not None:
                self._prefix_of[folder] = self._prefix_of.pop(moved)
            else:
                self._prefix_of[folder] = "" if bare else self._free_prefix(folder)
        if new:
            self._save()

    def uri(self, path: Path) -> str:
        """Return what a file is called in the index.

        Args:
            path: The file with its folders resolved; it lies in one of the roots.
        """
        root = self.root_of(path)
        if root is None:
            raise ValueError(f"{str(path)!r} lies in no indexed folder")
        return self._prefix_of[root] + path.relative_to(root).as_posix()

    def path(self, uri: str) -> Path | None:
        """Return where a source lies, or None if its folder is not known.

        Args:
            uri: As in an item's source.
        """
        places = [
            root / uri[len(prefix) :]
            for root, prefix in sorted(self._prefix_of.items(), key=lambda each: -len(each[1]))
            if uri.startswith(prefix)
        ]
        there = [place for place in places if place.exists()]
        return next(iter(there or places), None)

    def folders(self) -> list[Path]:
        """Return the indexed folders, those with the first prefixes first."""
        return sorted(self._prefix_of, key=lambda folder: (self._prefix_of[folder], folder))

    def root_of(self, path: Path) -> Path | None:
        """Return the innermost root that holds a path."""
        for folder in (path, *path.parents):
            if folder in self._prefix_of:
                return folder
        return None

    def _moved(self, folder: Path) -> Path | None:
        for root in self._prefix_of:
            if root.name == folder.name and not root.exists():
                return root
        return None

    def _free_prefix(self, folder: Path) -> str:
        name = folder.name or "root"
        taken = set(self._prefix_of.values())
        bare = [root for root, prefix in self._prefix_of.items() if not prefix]
        number = 1
        while True:
            free = name if number == 1 else f"{name}-{number}"
            if f"{free}/" not in taken and not any((root / free).exists() for root in bare):
                return f"{free}/"
            number += 1

    def _save(self) -> None:
        roots = [{"path": str(path), "prefix": p} for path, p in self._prefix_of.items()]
        temporary = self._file.with_name(f".{_NAME}.{os.getpid()}")
        try:
            with temporary.open("w", encoding="utf-8") as file:
                json.dump({"roots": roots}, file, indent=2)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._file)
        except OSError as error:
            raise StoreError(
                f"{str(self._file)!r} cannot be written ({error}); make room or give write "
                "permission, and run the same command again"
            ) from error


def resolved(path: Path) -> Path:
    """Return a path with its folders resolved; the last part keeps its name if it is a file.

    A link to a file keeps the link's name, since that is what the user named.
    """
    absolute = Path.cwd() / path
    if absolute.is_dir():
        return absolute.resolve()
    return absolute.parent.resolve() / absolute.name
