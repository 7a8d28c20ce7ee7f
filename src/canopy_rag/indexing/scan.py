"""From paths to source files: streaming, in a fixed order, each real file once.

Hidden files, files of unsupported kinds, and what `.gitignore` files name are ignored and counted;
a path that the user names is never ignored. `.gitignore` files count from the named folder down.
Links are followed after everything else, so that a file is known by its own name; a link to what
was seen already, a loop for one, is ignored.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from canopy_rag._optional import require
from canopy_rag.core.errors import ConfigError
from canopy_rag.indexing.report import Failure
from canopy_rag.indexing.roots import resolved
from canopy_rag.indexing.sources import SourceReader, reason_of

Rules = tuple[tuple[str, Any], ...]
"""`.gitignore` rules with the path of their folder below the named one, outermost first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file to be indexed."""

    path: Path
    """Absolute, its folders resolved."""
    display: str
    """As the user named it, or below a folder that the user named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A file or folder on the way."""

    path: Path
    """Where it lies below the named folder; links on the way keep their names."""
    real: str
    """Its path with all links resolved."""
    display: str
    below: str
    """Path below the named folder, with `/`; empty for that folder itself."""
    is_folder: bool
    is_regular: bool
    """Whether opening it cannot block, as a pipe's or a device's would."""
    rules: Rules


class Scanner:
    """Finds source files; counts what it leaves out.

    Args:
        reader: Knows which files are sources and which are companions.
        include: Patterns as in `.gitignore`, relative to a named folder: only files that fit one.
        exclude: Patterns of files and folders to leave out.
        skip: A folder that is never entered: the index itself.

    Raises:
        ConfigError: If a pattern cannot be understood.
    """

    def __init__(
        self,
        reader: SourceReader,
        *,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        skip: Path | None = None,
    ) -> None:
        self._reader = reader
        self._include = _spec(include, "include") if include else None
        self._exclude = _spec(exclude, "exclude") if exclude else None
        self._skip = None if skip is None else os.path.realpath(skip)
        self._folders: list[Path] = []
        self._visited: set[str] = set()
        self._links: deque[_Place] = deque()
        self.ignored = 0
        """Files and folders left out; a folder counts once."""
        self.failed: list[Failure] = []
        self.unread: list[Path] = []
        """Folders whose entries could not be listed."""

    def scan(self, paths: Sequence[Path]) -> Iterator[SourceFile]:
        """Yield the source files of files and folders, in the order named, names sorted."""
        for path in paths:
            yield from self._named(path)
        while self._links:
            yield from self._linked(self._links.popleft())

    def leaves_out(self, path: Path) -> bool:
        """Whether `include` and `exclude` alone keep a file of a named folder out."""
        for folder in self._folders:
            if path.is_relative_to(folder):
                return self._filtered(path.relative_to(folder).as_posix(), is_folder=False)
        return False

    def _named(self, path: Path) -> Iterator[SourceFile]:
        real = resolved(path)
        if real.is_dir():
            self._folders.append(real)
            top = _Place(
                path=real,
                real=str(real),
                display=str(path),
                below="",
                is_folder=True,
                is_regular=False,
                rules=(),
            )
            yield from self._walk(top)
        elif real.is_file():
            if self._reader.supports(real):
                yield from self._once(real, os.path.realpath(real), str(path))
            else:
                kind = real.suffix or "without a suffix"
                self._fail(str(path), f"files of this kind ({kind}) are not supported")
        elif real.exists():
            self._fail(str(path), "is neither a file nor a folder")
        else:
            self._fail(str(path), "does not exist; check the path")

    def _walk(self, top: _Place) -> Iterator[SourceFile]:
        stack = [top]
        while stack:
            place = stack.pop()
            if place.is_folder:
                stack.extend(reversed(self._entries(place)))
            else:
                yield from self._once(place.path, place.real, place.display)

    def _entries(self, folder: _Place) -> list[_Place]:
        """Return what to go on with in a folder: sources and folders, by name."""
        if folder.real in self._visited or folder.real == self._skip:
            return []
        self._visited.add(folder.real)
        try:
            with os.scandir(folder.path) as listing:
                entries = sorted(listing, key=lambda entry: os.fsencode(entry.name))
        except OSError as error:
            self.unread.append(folder.path)
            self._fail(folder.display, reason_of(error))
            return []
        rules = self._rules_of(folder)
        kept = []
        for entry in entries:
            place = _Place(
                path=folder.path / entry.name,
                real=f"{folder.real.rstrip(os.sep)}{os.sep}{entry.name}",
                display=str(Path(folder.display) / entry.name),
                below=f"{folder.below}/{entry.name}" if folder.below else entry.name,
                is_folder=entry.is_dir(follow_symlinks=False),
                is_regular=entry.is_file(follow_symlinks=False),
                rules=rules,
            )
            if entry.is_symlink():
                self._links.append(place)
            elif self._wanted(place):
                kept.append(place)
        return kept

    def _wanted(self, place: _Place) -> bool:
        """Whether to go on with an entry; counts it otherwise."""
        if place.real == self._skip:
            return False
        if place.is_regular and self._is_companion(place.path):
            return False  # part of another source, which is counted itself
        readable = place.is_folder or (place.is_regular and self._reader.supports(place.path))
        if (
            not readable
            or place.path.name.startswith(".")
            or self._filtered(place.below, is_folder=place.is_folder)
            or _ignored_by(place.rules, place.below, is_folder=place.is_folder)
        ):
            self.ignored += 1
            return False
        return True

    def _is_companion(self, path: Path) -> bool:
        try:
            return self._reader.is_companion(path)
        except OSError:  # it vanished: said when it is read
            return False

    def _linked(self, link: _Place) -> Iterator[SourceFile]:
        """Follow a link to what has not been seen."""
        target = Path(os.path.realpath(link.path))
        place = replace(
            link, real=str(target), is_folder=target.is_dir(), is_regular=target.is_file()
        )
        if not target.exists() and self._reader.supports(link.path):
            self._fail(link.display, "is a link to a file that does not exist; mend or remove it")
        elif place.real in self._visited or self._holds(target):
            self.ignored += 1
        elif self._wanted(place):
            yield from self._walk(place)

    def _holds(self, target: Path) -> bool:
        """Whether a link leads to a folder above one that is being walked: a loop."""
        return any(folder.is_relative_to(target) for folder in self._folders)

    def _once(self, path: Path, real: str, display: str) -> Iterator[SourceFile]:
        if real not in self._visited:
            self._visited.add(real)
            yield SourceFile(path=path, display=display)

    def _filtered(self, below: str, *, is_folder: bool) -> bool:
        if self._exclude is not None and self._exclude.match_file(below + "/" * is_folder):
            return True
        return self._include is not None and not is_folder and not self._include.match_file(below)

    def _rules_of(self, folder: _Place) -> Rules:
        try:
            lines = (folder.path / ".gitignore").read_bytes().splitlines()
        except OSError:  # there is none, or none that we may read
            return folder.rules
        text = [line.decode("utf-8", "surrogateescape") for line in lines]
        return (*folder.rules, (folder.below, _git_rules(text)))

    def _fail(self, display: str, reason: str) -> None:
        self.failed.append(Failure(path=display, reason=reason))


def _ignored_by(rules: Rules, below: str, *, is_folder: bool) -> bool:
    """Whether `.gitignore` rules leave a path out; the innermost file that knows it decides."""
    for base, spec in reversed(rules):
        relative = below[len(base) + 1 :] if base else below
        verdict = spec.check_file(relative + "/" * is_folder).include
        if verdict is not None:
            return bool(verdict)
    return False


def _spec(patterns: Sequence[str], name: str) -> Any:
    pathspec = require("pathspec", extra="index", feature="Indexing a folder")
    try:
        return pathspec.GitIgnoreSpec.from_lines(patterns)
    except ValueError as error:
        raise ConfigError(f"{name}: {list(patterns)} holds no valid pattern: {error}") from error


def _git_rules(lines: Sequence[str]) -> Any:
    """Return the rules of a `.gitignore`; as in git, a line that makes no sense is skipped."""
    pathspec = require("pathspec", extra="index", feature="Indexing a folder")
    valid = []
    for line in lines:
        try:
            pathspec.GitIgnoreSpec.from_lines([line])
        except ValueError:
            continue
        valid.append(line)
    return pathspec.GitIgnoreSpec.from_lines(valid)
