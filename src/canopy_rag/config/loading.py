"""Resolving settings: flag, then environment, then file, then default."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from canopy_rag.config.secrets import SECRETS
from canopy_rag.config.sections import Config, keys, sections
from canopy_rag.config.values import coerce
from canopy_rag.core.errors import ConfigError, UnknownNameError

DEFAULT_FILE = Path("canopy.toml")
"""Read from the working directory when it is there."""

_SHORT = {"CANOPY_INDEX": "index.path"}
_NO_SETTINGS = SECRETS | {
    "CANOPY_CONFIG",
    "CANOPY_DATA",
    "CANOPY_DEBUG",
    "CANOPY_LOCAL_GGUF",
    "CANOPY_SAMPLES",
}


def load(
    flags: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Config:
    """Resolve every setting.

    Args:
        flags: `section.field` -> value; None as a value means that the flag was not given.
        env: Environment variables; None: those of this process. An empty one counts as unset.
        file: A TOML file with one table per section. None: the one `CANOPY_CONFIG` names, else
            `canopy.toml` in the working directory if it is there.

    Raises:
        UnknownNameError: If a flag, a `CANOPY_*` variable or a key of the file is not a setting.
        ConfigError: If a value has the wrong type or is out of range, or the file cannot be read;
            the message names the origin.
    """
    env = os.environ if env is None else env
    given: dict[str, dict[str, Any]] = {section: {} for section in sections()}
    origins: dict[str, str] = {}
    for key, raw, origin, from_text in _given(flags or {}, env, file):
        section, _, name = key.partition(".")
        given[section][name] = coerce(key, raw, keys()[key], origin, from_text=from_text)
        origins[key] = origin
    built = {section: cls(**given[section]) for section, cls in sections().items()}
    return Config(**built, origins=MappingProxyType(origins))


def variable(key: str) -> str:
    """Return the environment variable of a setting.

    >>> variable("retrieval.k")
    'CANOPY_RETRIEVAL_K'
    """
    return f"CANOPY_{key.replace('.', '_').upper()}"


_Given = Iterator[tuple[str, Any, str, bool]]


def _given(flags: Mapping[str, Any], env: Mapping[str, str], file: Path | None) -> _Given:
    """Yield `(key, value, origin, from_text)`, the weakest origin first."""
    yield from _from_file(env, file)
    yield from _from_env(env)
    for key, value in flags.items():
        if key not in keys():
            raise UnknownNameError("flag", key, keys())
        if value is not None:
            yield key, value, "flag", False


def _from_file(env: Mapping[str, str], file: Path | None) -> _Given:
    if file is None and env.get("CANOPY_CONFIG"):
        file = Path(env["CANOPY_CONFIG"])
    if file is None:
        if not DEFAULT_FILE.is_file():
            return
        file = DEFAULT_FILE
    for section, table in _read_toml(file).items():
        if section not in sections():
            raise UnknownNameError(f"section of {file}", section, sections())
        if not isinstance(table, dict):
            raise ConfigError(f"{file}: {section} must be a table, [{section}], got {table!r}")
        for name, value in table.items():
            key = f"{section}.{name}"
            if name == "api_key":
                raise ConfigError(
                    f"{file}: keys are read from the environment only; "
                    f"remove {key} and set {' or '.join(sorted(SECRETS))}"
                )
            if key not in keys():
                raise UnknownNameError(f"setting in {file}", key, keys())
            yield key, value, str(file), False


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"cannot read the settings file {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        reason = f"is not UTF-8 text (byte {error.start}); save it as UTF-8"
        raise ConfigError(f"{file} {reason}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} is not valid TOML: {error}") from error


def _from_env(env: Mapping[str, str]) -> _Given:
    known = {variable(key): key for key in keys()} | _SHORT
    for name in sorted(env):
        if not name.startswith("CANOPY_") or name in _NO_SETTINGS or not env[name]:
            continue
        if name not in known:
            raise UnknownNameError("environment variable", name, [*known, *_NO_SETTINGS])
        key = known[name]
        twin = variable(key)
        if env.get(twin) and env[twin] != env[name]:
            raise ConfigError(
                f"{name}={env[name]!r} and {twin}={env[twin]!r} disagree; unset one of them"
            )
        yield key, env[name], f"environment {name}", True
