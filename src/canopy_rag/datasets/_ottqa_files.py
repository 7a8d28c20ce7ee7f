"""Where OTT-QA's files are: in a folder, or in an archive that is read without unpacking it."""

from __future__ import annotations

import json
import lzma
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from canopy_rag.core.errors import DataError
from canopy_rag.datasets._read import Record, json_records, json_value, shown


class Files(Protocol):
    """JSON files by their names in the official layout.

    A name is looked up as it is; one that would lead out of the layout is not there.
    """

    @property
    def path(self) -> Path:
        """The folder or archive."""
        ...

    def has(self, name: str) -> bool:
        """Whether the file is there."""
        ...

    def read(self, name: str) -> dict[str, Any]:
        """Return a file that holds an object.

        Raises:
            DataError: Naming file and place, if it is no JSON object.
        """
        ...

    def records(self, name: str) -> Iterator[Record]:
        """Yield the objects of a file that holds an array.

        Raises:
            DataError: Naming file and place, if it is no JSON array of objects.
        """
        ...


class FolderFiles:
    """The layout unpacked in a folder."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise DataError(f"{folder}: there is no such folder")
        self.path = folder

    def has(self, name: str) -> bool:
        """Whether the file is there."""
        return ".." not in Path(name).parts and (self.path / name).is_file()

    def read(self, name: str) -> dict[str, Any]:
        """Return a file that holds an object."""
        return _object(name, json_value(self.path / name))

    def records(self, name: str) -> Iterator[Record]:
        """Yield the objects of a file that holds an array, one at a time."""
        return json_records(self.path / name)


class ArchiveFiles:
    """The layout in a tar archive: unpacked once, at first use, into memory.

    An archive can only be read from its beginning, while questions and tables are needed in
    another order; three quarters of the dev part make 18 MB and take under a second.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._unpacked: dict[str, bytes] | None = None

    @property
    def _contents(self) -> dict[str, bytes]:
        if self._unpacked is None:
            self._unpacked = _unpack(self.path)
        return self._unpacked

    def has(self, name: str) -> bool:
        """Whether the file is there."""
        return name in self._contents

    def read(self, name: str) -> dict[str, Any]:
        """Return a file that holds an object."""
        return _object(name, self._value(name))

    def records(self, name: str) -> Iterator[Record]:
        """Yield the objects of a file that holds an array."""
        values = self._value(name)
        if not isinstance(values, list):
            raise DataError(f"{self.path.name}, {name}: must be a JSON array")
        for number, value in enumerate(values, start=1):
            if not isinstance(value, dict):
                place = f"{self.path.name}, {name} (record {number})"
                raise DataError(f"{place}: must be an object, got {shown(value)}")
            yield Record(Path(name), f"record {number}", value)

    def _value(self, name: str) -> Any:
        try:
            return json.loads(self._contents[name])
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise DataError(f"{self.path.name}, {name}: is not valid JSON: {error}") from error


def _unpack(path: Path) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                stream = archive.extractfile(member) if member.isfile() else None
                if stream is not None:
                    contents[member.name.removeprefix("./")] = stream.read()
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise DataError(
            f"{path.name}: the archive is incomplete or damaged ({error}); get it again"
        ) from error
    return contents


def _object(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError(f"{name}: must be a JSON object, got {shown(value)}")
    return value
