"""A model's files: in a folder that the user names, or on the hub when the user names it there."""

from __future__ import annotations

import hashlib
import json
import os
import re
from functools import cached_property
from pathlib import Path
from typing import Any

from canopy_rag._optional import require
from canopy_rag.core.errors import ConfigError, ModelError

HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
PARTS = ("*.json", "*.safetensors", "*.jinja", "*.txt", "*.model")
"""What of a repository is fetched: never code, never pickled weights."""
OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


def is_offline() -> bool:
    """Return whether `--offline`, or the hub's own variable, forbids downloads."""
    return any(os.environ.get(name, "").lower() in ("1", "true", "yes", "on") for name in OFFLINE)


class Checkpoint:
    """A model as the user named it: a folder, or `owner/name` on the hub, `@revision` added or not.

    Args:
        name: A folder is recognised by being one.
        extra: The extra of canopy-rag that its use needs.

    Raises:
        ConfigError: If it is neither a folder nor a name that the hub could know.
    """

    def __init__(self, name: str, *, extra: str) -> None:
        self._extra = extra
        folder = Path(name).expanduser()
        self._path = folder.resolve() if name and folder.is_dir() else None
        self._name, _, revision = name.partition("@")
        self._revision = revision or "main"
        if self._path is None and not HUB_NAME.fullmatch(self._name):
            raise ConfigError(
                f"encoder model {name!r}: no such folder, and not a name on the hub (owner/name)"
            )

    @property
    def name(self) -> str:
        """What opens it again: the absolute path, or the name on the hub with its revision."""
        if self._path is not None:
            return str(self._path)
        return self._name if self._revision == "main" else f"{self._name}@{self._revision}"

    @cached_property
    def identity(self) -> str:
        """The commit on the hub, or a checksum over weights, tokenizer and configuration.

        What the cache holds of the hub is taken as it is, so that a model does not change between
        two runs because its repository did.

        Raises:
            ModelError: If the hub cannot be asked and the cache holds nothing.
        """
        if self._path is not None:
            return checksum(self._path)
        if re.fullmatch(r"[0-9a-f]{40}", self._revision):
            return self._revision
        return self.file("config.json").parent.name

    def file(self, name: str) -> Path:
        """Return one small file, fetched if need be.

        Raises:
            ConfigError: If a folder does not hold it.
            ModelError: If the hub cannot be asked, or has no such model or file.
        """
        if self._path is not None:
            if not (self._path / name).is_file():
                raise ConfigError(f"encoder model {str(self._path)!r}: the folder has no {name}")
            return self._path / name
        return Path(self._fetch("hf_hub_download", self._name, name, revision=self._revision))

    def json(self, name: str) -> dict[str, Any]:
        """Return the content of a JSON file of the model.

        Raises:
            ConfigError: If it is not there or not JSON.
            ModelError: As `file`.
        """
        path = self.file(name)
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path}: cannot be read as JSON: {error}") from error
        return dict(found)

    def folder(self) -> Path:
        """Return a folder with all files; from the hub, of the commit that `identity` names.

        Raises:
            ModelError: If they are not cached and cannot be fetched.
        """
        if self._path is not None:
            return self._path
        return Path(
            self._fetch(
                "snapshot_download",
                self._name,
                revision=self.identity,
                allow_patterns=list(PARTS),
            )
        )

    def _fetch(self, function: str, *args: Any, **options: Any) -> str:
        hub = require("huggingface_hub", extra=self._extra, feature=f"the model {self._name!r}")
        errors = require("huggingface_hub.errors", extra=self._extra, feature="the hub")
        run = getattr(hub, function)
        try:
            return str(run(*args, local_files_only=True, **options))
        except errors.LocalEntryNotFoundError as error:
            if is_offline():
                raise ModelError(
                    f"encoder model {self._name!r} is not in the cache and downloads are "
                    "forbidden (--offline); run once without it, or name a folder"
                ) from error
        try:
            return str(run(*args, **options))
        except (errors.HfHubHTTPError, errors.HFValidationError, OSError) as error:
            raise ModelError(
                f"encoder model {self._name!r} cannot be fetched from the hub: {error}"
            ) from error


def checksum(folder: Path) -> str:
    """Return a sha256 over a model's weights, tokenizer and configuration, names included.

    Raises:
        ConfigError: If there are no safetensors.
    """
    paths = sorted(
        path
        for pattern in ("*.safetensors", "*.json", "*.jinja")
        for path in folder.rglob(pattern)
        if path.is_file()
    )
    if not any(path.suffix == ".safetensors" for path in paths):
        raise ConfigError(f"encoder model {str(folder)!r}: the folder has no *.safetensors")
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()
