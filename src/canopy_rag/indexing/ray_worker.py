"""What runs in a worker of a Ray cluster: the parsing and encoding of the local engine."""

from __future__ import annotations

import platform
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from canopy_rag.core.errors import CanopyError
from canopy_rag.core.protocols import Encoder, Entry, Fingerprint, Packed, Packer
from canopy_rag.indexing.encoding import BATCH_NODES, Encoded, UnreadableError
from canopy_rag.indexing.engine import LocalEngine
from canopy_rag.indexing.parsing import Work
from canopy_rag.indexing.processes import Limits
from canopy_rag.indexing.sources import Parse


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What a worker makes its parts of; crosses to other machines."""

    parse: Parse
    make_encoder: Callable[[], Encoder]
    fingerprint: Fingerprint
    """Of the index."""
    packer: Packer
    """Of the index."""
    parsers: int = 1
    """Processes that parse, for each worker."""
    limits: Limits | None = None
    """What the parser of one file may take; None: one parser is the process that encodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a worker made of one file, or of a stretch of it."""

    entries: list[Packed]
    last: bool = True
    """Whether nothing follows of this file."""
    reason: str | None = None
    """Why it cannot be indexed; earlier parts of it do not count then."""
    missing: bool = False
    """Whether the file is not there, as seen from the worker."""
    node: str = ""
    """Name of the worker's machine."""
    notes: list[tuple[str, str]] = field(default_factory=list)


class RayWorker:
    """Parses and encodes files; one per process. Cheap to make: `start` loads the model.

    Args:
        recipe: What it works with.
    """

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._engine: LocalEngine[str] | None = None

    def start(self) -> str:
        """Load the encoder; return why this worker cannot be used, or nothing."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run to handle
        try:
            encoder = self._recipe.make_encoder()
        except (CanopyError, OSError) as error:
            return f"{platform.node()}: {error}"
        if not encoder.fingerprint.agrees(self._recipe.fingerprint):
            return (
                f"{platform.node()}: its encoder has the fingerprint {encoder.fingerprint}, "
                f"the index {self._recipe.fingerprint}; install the same version of canopy-rag, "
                "and the same weights, on every node"
            )
        self._engine = LocalEngine(
            self._recipe.parse,
            encoder,
            checksum=str,
            workers=self._recipe.parsers,
            limits=self._recipe.limits,
        )
        return ""

    def work(self, files: Sequence[Work[str]], skip: int) -> Iterator[list[Part]]:
        """Yield what becomes of files, about `BATCH_NODES` nodes at a time, in order.

        Args:
            files: Each with its checksum.
            skip: Parts of the first file that were received before its worker was lost.
        """
        if self._engine is None:
            raise RuntimeError("a worker has to be started before it works")
        waiting: list[Part] = []
        n_nodes = 0
        for work, encoded in self._engine.encoded(files):
            for part in self._parts(work, encoded):
                if skip:
                    skip -= 1
                    continue
                waiting.append(part)
                n_nodes += sum(packed.n_nodes for packed in part.entries)
                if n_nodes >= BATCH_NODES:
                    yield waiting
                    waiting, n_nodes = [], 0
        if waiting:
            yield waiting

    def _parts(self, work: Work[str], encoded: Encoded[Entry]) -> Iterator[Part]:
        node, pack = platform.node(), self._recipe.packer
        if encoded.rest is None:
            yield Part(
                entries=pack(encoded.entries),
                reason=encoded.reason,
                missing=encoded.reason is not None and not work.path.exists(),
                node=node,
                notes=encoded.notes,
            )
            return
        try:
            for entries in encoded.rest:
                yield Part(entries=pack(entries), last=False)
        except UnreadableError as error:
            yield Part(entries=[], reason=error.reason, node=node, notes=encoded.notes)
            return
        yield Part(entries=[], notes=encoded.notes)
