"""The reader's own tokenizer on this machine, for exact counts without asking a server."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from canopy_rag.core.errors import ConfigError, MissingDependencyError

PREFIX = "tiktoken:"
_FILE = "tokenizer.json"
_URL = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
_TABLES = {
    "r50k_base": "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
    "p50k_base": "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
}
_TABLE_OF = {"p50k_edit": "p50k_base", "o200k_harmony": "o200k_base"}


class Tokenizer:
    """Counts tokens; its files are found at once and loaded at the first count.

    Args:
        name: A `tokenizer.json` or a folder that holds one, as models are published with; or
            `tiktoken:` and the name of an encoding or of an OpenAI model. Nothing is downloaded.

    Raises:
        ConfigError: If the file is not there, or the name is unknown.
        MissingDependencyError: If tiktoken is wanted and not installed.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._count: Callable[[str], int] | None = None
        self._load: Callable[[], Callable[[str], int]]
        if name.startswith(PREFIX):
            encoding = _encoding_of(name.removeprefix(PREFIX))
            self._load = lambda: _tiktoken(encoding)
        else:
            path = _file_of(name)
            self._load = lambda: _huggingface(path)

    def __repr__(self) -> str:
        return f"Tokenizer({self.name!r})"

    def count(self, text: str) -> int:
        """Return the number of tokens of `text`, without those that a model adds.

        Raises:
            ConfigError: If the tokenizer cannot be read.
        """
        if self._count is None:
            self._count = self._load()
        return self._count(text.encode("utf-8", "replace").decode("utf-8"))


def _file_of(name: str) -> Path:
    path = Path(name).expanduser()
    if path.is_dir():
        path /= _FILE
    if not path.is_file():
        raise ConfigError(
            f"tokenizer {name!r} is not there. Name a {_FILE} or the folder of a model that holds "
            f"one, or {PREFIX}ENCODING"
        )
    return path


def _huggingface(path: Path) -> Callable[[str], int]:
    from tokenizers import Tokenizer as Loaded

    try:
        loaded = Loaded.from_file(str(path))
    except Exception as error:  # the library raises no other class
        raise ConfigError(f"{path} is no tokenizer that can be read: {error}") from error
    # Files are often saved with the limits of the last batch.
    loaded.no_truncation()
    loaded.no_padding()
    return lambda text: len(loaded.encode(text, add_special_tokens=False).ids)


def _encoding_of(name: str) -> str:
    """Return the encoding of a name that is one, or a model's, and check that it is on disk."""
    if find_spec("tiktoken") is None:
        raise MissingDependencyError(
            f"tokenizer {PREFIX + name!r} needs `tiktoken`, which is not installed. "
            "Run: pip install tiktoken"
        )
    import tiktoken

    encoding = name
    if name not in _TABLES and name not in _TABLE_OF:
        try:
            encoding = tiktoken.encoding_name_for_model(name)
        except KeyError:
            encoding = ""
    table = _TABLE_OF.get(encoding, encoding)
    if table not in _TABLES:
        known = ", ".join(sorted({*_TABLES, *_TABLE_OF}))
        raise ConfigError(
            f"tokenizer {PREFIX + name!r} is unknown. Known encodings: {known}; models of OpenAI "
            "may be named too"
        )
    _check_table(table, encoding)
    return encoding


def _check_table(table: str, encoding: str) -> None:
    """Check that tiktoken will find its table where it keeps it: otherwise it would download it."""
    url = _URL.format(table)
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if folder is None:
        folder = str(Path(tempfile.gettempdir()) / "data-gym-cache")
    path = Path(folder) / hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()
    found = path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == _TABLES[table]
    if not (folder and found):
        raise ConfigError(
            f"tiktoken's table for {encoding} is not on this machine, and nothing is downloaded. "
            f"Set TIKTOKEN_CACHE_DIR to a folder and run once where there is a network: "
            f"python -c 'import tiktoken; tiktoken.get_encoding(\"{encoding}\")'"
        )


def _tiktoken(encoding: str) -> Callable[[str], int]:
    import tiktoken

    loaded: Any = tiktoken.get_encoding(encoding)
    # Markers such as <|endoftext|> inside a text are text, never control tokens.
    return lambda text: len(loaded.encode_ordinary(text))
