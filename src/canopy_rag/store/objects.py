"""Object storage as a few verbs, with errors that say what to do.

`obstore` is a thin layer over the client that LanceDB uses too, so that both take the same options
and the same variables of the environment.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from canopy_rag._optional import require
from canopy_rag.core.errors import ConfigError, StoreError

KINDS = {"s3": "S3Store", "gs": "GCSStore", "az": "AzureStore"}
"""Schemes of addresses, and the clients."""
_RETRIES = 6  # six seconds in all
_RETRY_S = 15
_CODE = re.compile(r"<Code>([^<]*)</Code>(?:\s*<Message>([^<]*)</Message>)?")
_REFUSED = re.compile(
    r"\b40[13]\b|InvalidAccessKeyId|SignatureDoesNotMatch|AccessDenied|PermissionDenied"
    r"|Unauthenticated|ExpiredToken|InvalidToken|TokenRefreshRequired|InvalidSecurity"
)
_NO_KEYS = re.compile(
    r"169\.254\.|instance metadata|metadata\.google|no provider|credentials? (?:provider|not)"
    r"|Missing(?:Access|Secret)|load credentials",
    re.IGNORECASE,
)
_UNREACHABLE = re.compile(
    r"error sending request|connection|dns error|timed? ?out|after \d+ retries|error decoding"
    r"|certificate",
    re.IGNORECASE,
)


class ChangedError(Exception):
    """An object is there already, or is not as it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """An object as it is stored."""

    data: bytes
    tag: str
    """Its ETag: another content, another tag."""
    modified: datetime.datetime
    """By the clock of the storage."""


class Objects:
    """The objects below an address.

    Args:
        address: `s3://bucket/path`, `gs://bucket/path` or `az://container/path`.
        options: By the names that the client has.

    Raises:
        StoreError: If the address is of another kind, or names no bucket.
        ConfigError: If there is no such option.
        MissingDependencyError: Without `obstore`.
    """

    def __init__(self, address: str, options: Mapping[str, str]) -> None:
        parts = urlsplit(address)
        if parts.scheme not in KINDS:
            known = ", ".join(f"{kind}://" for kind in KINDS)
            raise StoreError(
                f"{address!r} is neither a folder nor an address that is known; these are: {known}"
            )
        if not parts.netloc or parts.query or parts.fragment or "@" in parts.netloc:
            raise StoreError(
                f"{_plain(address)!r} names no bucket; write {parts.scheme}://bucket/path, and "
                "keys into the environment"
            )
        self._address = address
        self._bucket = parts.netloc
        feature = "An index on object storage"
        self._api = require("obstore", extra="cloud", feature=feature)
        store = getattr(
            require("obstore.store", extra="cloud", feature=feature), KINDS[parts.scheme]
        )
        errors = require("obstore.exceptions", extra="cloud", feature=feature)
        self._error = errors.BaseError
        self._changed = (errors.AlreadyExistsError, errors.PreconditionError)
        try:
            self._store = store(
                parts.netloc,
                prefix=unquote(parts.path).strip("/") or None,
                config=dict(options),
                retry_config={
                    "max_retries": _RETRIES,
                    "retry_timeout": datetime.timedelta(seconds=_RETRY_S),
                },
            )
        except errors.UnknownConfigurationKeyError as error:
            raise ConfigError(f"index.storage_options: {_first_line(error)}") from error
        except (self._error, ValueError) as error:
            raise StoreError(f"{address!r} cannot be reached: {_first_line(error)}") from error

    def get(self, name: str) -> Stored:
        """Return an object.

        Raises:
            FileNotFoundError: If there is none.
            StoreError: If the storage cannot be reached or refuses.
        """
        with self._guarded("read"):
            found = self._api.get(self._store, name)
            meta = found.meta
            return Stored(
                data=bytes(found.bytes()), tag=str(meta["e_tag"]), modified=meta["last_modified"]
            )

    def tag(self, name: str) -> str | None:
        """Return the tag of an object; None if there is none."""
        try:
            with self._guarded("read"):
                return str(self._api.head(self._store, name)["e_tag"])
        except FileNotFoundError:
            return None

    def put(self, name: str, data: bytes | Path, *, new: bool = False, tag: str = "") -> str:
        """Write an object, all of it or nothing, and return its tag.

        Args:
            name: Of the object.
            data: Its content, or the file that has it.
            new: Only if there is no such object.
            tag: Only if the object has this tag; empty: whatever it is.

        Raises:
            ChangedError: If it is there, or has another tag.
            StoreError: If the storage cannot be reached or refuses.
        """
        mode: Any = "create" if new else {"e_tag": tag} if tag else "overwrite"
        with self._guarded("written"):
            try:
                return str(self._api.put(self._store, name, data, mode=mode)["e_tag"])
            except self._changed as error:
                raise ChangedError(name) from error

    def delete(self, name: str) -> None:
        """Remove an object if it is there."""
        with self._guarded("written"):
            self._api.delete(self._store, name)

    def list(self, folder: str = "") -> dict[str, tuple[int, str]]:
        """Return size and tag of every object below a folder, by name."""
        with self._guarded("read"):
            found = self._api.list(self._store, folder or None, chunk_size=1000)
            return {
                one["path"]: (int(one["size"]), str(one["e_tag"])) for part in found for one in part
            }

    @contextmanager
    def _guarded(self, what: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise StoreError(self.failure(what, error)) from error
            raise
        except (self._error, OSError, ValueError) as error:
            raise StoreError(self.failure(what, error)) from error

    def failure(self, what: str, error: BaseException) -> str:
        """Say why an index cannot be read or written, and what to do.

        Args:
            what: `read` or `written`.
            error: Of the client, or of LanceDB.
        """
        return f"the index in {self._address!r} cannot be {what}: {self._remedy(str(error))}"

    def _remedy(self, message: str) -> str:
        code = _CODE.search(message)
        said = f" ({': '.join(filter(None, code.groups()))})" if code else ""
        if "NoSuchBucket" in message or "ContainerNotFound" in message:
            return (
                f"there is no bucket {self._bucket!r}; make it, or check its name, aws_region and "
                f"aws_endpoint{said}"
            )
        if "edirect" in message:
            return (
                f"the bucket {self._bucket!r} is in another region; set AWS_REGION, or aws_region "
                f"in index.storage_options{said}"
            )
        if _NO_KEYS.search(message):
            return (
                "no credentials were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
                "what your cloud has in their place"
            )
        if _REFUSED.search(message):
            return (
                "the storage refuses the credentials, or they do not allow this; check "
                f"AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the bucket's policy{said}"
            )
        if code is None and _UNREACHABLE.search(message):
            return (
                "the storage cannot be reached; check the network, aws_endpoint and, for http://, "
                f"allow_http=true in index.storage_options ({_first_line(message)})"
            )
        return f"{_first_line(message)}{said}; what was written before is kept"


def _plain(address: str) -> str:
    """Return an address without a name and password that do not belong there."""
    return re.sub(r"//[^/@]*@", "//", address)


def _first_line(error: object) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].partition(": <?xml")[0][:300] if lines else "no reason given"
