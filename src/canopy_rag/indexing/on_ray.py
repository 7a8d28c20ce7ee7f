"""The Ray engine: files go out to workers in batches, encoded items come back.

Ray's core is used, not Ray Data: a batch holds whole files, which one commit needs; nothing waits
for a block to fill; and the core weighs half as much. A worker is an actor that holds a model and
runs the local engine's steps. Files whose worker is lost go to another one, but for what had come
back. So work may be done twice, and is taken once: this process alone writes to the store.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from canopy_rag._optional import require
from canopy_rag.core.errors import ConfigError, ModelError
from canopy_rag.core.protocols import Packed
from canopy_rag.indexing.encoding import GROUP_NODES, Encoded, UnreadableError
from canopy_rag.indexing.parsing import Work
from canopy_rag.indexing.ray_worker import Part, RayWorker, Recipe
from canopy_rag.indexing.writing import StoppedError, Task

BATCH_BYTES = 256 * 1024
"""Bytes of source files that go to a worker together, if there are several."""
BATCH_FILES = 64
"""Most files that go together."""
_ROUNDS = 4  # batches for each worker at least, so that they end together
_AT_A_WORKER = 2  # batches: the next one is there when the first is done
_PARTS_AHEAD = 8  # parts of a batch that wait in the memory of the cluster
_TRIES = 3
_LOOK_S = 0.5  # between two looks whether the run is to end
_MOST_NODES = 1 << 20  # of a commit: 250 MB
_BOOTS = 3  # of a cluster of this machine: on a busy one, the 30 s that Ray allows are too few
_STARTS = 5  # workers in a row that end before they are ready
_STORE_BYTES = 256 * 1024 * 1024  # shared memory of a cluster of one machine, for each worker


@dataclass(frozen=True, slots=True, kw_only=True)
class RaySettings:
    """Where the workers run, and what each of them takes."""

    address: str | None = None
    """Of a running cluster; None: `RAY_ADDRESS`, and without it one for this run on this machine,
    on loopback."""
    workers: int = 1
    worker_cpus: float = 1.0
    worker_gpus: float = 0.0
    start_s: float = 300.0
    """Longest wait for a first worker, in seconds."""


@dataclass(slots=True, eq=False)
class _Batch:
    """Files on their way through a worker."""

    files: list[Work[Task]]
    """Those that have not come back whole."""
    n_parts: int = 0
    """Parts of the first of them that have come back."""
    n_tries: int = 0
    """Workers that were lost over it since something came back."""
    stream: Any = None
    received: deque[tuple[Work[Task], Part]] = field(default_factory=deque)

    def take(self, part: Part) -> None:
        """Take in what a worker sent."""
        self.received.append((self.files[0], part))
        self.n_parts += 1
        self.n_tries = 0
        if part.last:
            del self.files[0]
            self.n_parts = 0


@dataclass(slots=True, eq=False)
class _Seat:
    """The place of a worker; another one takes it when it is lost."""

    actor: Any
    starting: Any
    """Answers when the worker is ready; None when it is."""
    batches: deque[_Batch] = field(default_factory=deque)
    """What it was given; it works on the first."""


class RayEngine:
    """Parses and encodes on Ray.

    Args:
        recipe: What workers work with.
        settings: Where they run.
        n_files: No more workers than this are of use.
        stopping: Whether the run is to end.

    Raises:
        MissingDependencyError: If Ray is not installed.
        ConfigError: If the cluster cannot be reached.
    """

    def __init__(
        self,
        recipe: Recipe,
        settings: RaySettings,
        n_files: int,
        stopping: Callable[[], bool],
    ) -> None:
        self._settings = settings
        self._stopping = stopping
        self._ray, self._owns_ray = connected(settings)
        self._recipe = self._ray.put(recipe)
        self._seats: list[_Seat] = []
        self._waiting: deque[_Batch] = deque()
        """Batches that lost their worker."""
        self._received: deque[_Batch] = deque()
        """Batches of which something came back that is not handed on yet."""
        self._most_files = min(BATCH_FILES, -(-n_files // (_ROUNDS * settings.workers)))
        self._n_false_starts = 0
        for _ in range(min(settings.workers, n_files)):
            self._seats.append(_Seat(*self._new_actor()))

    @property
    def commit_nodes(self) -> int:
        """Nodes that are worth a commit: the more workers, the more; bounded by memory."""
        return min(len(self._seats) * GROUP_NODES, _MOST_NODES)

    def encoded(self, work: Iterable[Work[Task]]) -> Iterator[tuple[Work[Task], Encoded[Packed]]]:
        """Yield each file with its vectors, in the order in which they come back.

        Raises:
            ConfigError: If the cluster has no place for a worker.
            ModelError: If workers cannot start.
        """
        batches = _batches(work, self._most_files)
        while True:
            self._look_for_started()
            self._hand_out(batches)
            seats = [seat for seat in self._seats if seat.batches]
            if self._stopping() or (not seats and not self._waiting):
                return
            ready = self._wait(seats)
            if ready is not None:
                self._receive(ready)
            while self._received:
                yield from self._files(self._received.popleft())

    def close(self) -> None:
        """End the workers; what they have not sent is not done."""
        for seat in self._seats:
            self._ray.kill(seat.actor)
        self._seats = []
        if self._owns_ray:
            self._ray.shutdown()

    def _new_actor(self) -> tuple[Any, Any]:
        settings = self._settings
        remote = self._ray.remote(num_cpus=settings.worker_cpus, num_gpus=settings.worker_gpus)
        actor = remote(RayWorker).remote(self._recipe)
        return actor, actor.start.remote()

    def _look_for_started(self) -> None:
        """Take note of workers that are ready; if none is, wait for one."""
        deadline = time.monotonic() + self._settings.start_s
        self._take_started(0)
        while all(seat.starting is not None for seat in self._seats) and not self._stopping():
            if time.monotonic() > deadline:
                raise ConfigError(self._no_place())
            self._take_started(_LOOK_S)

    def _take_started(self, timeout_s: float) -> None:
        starting = {seat.starting: seat for seat in self._seats if seat.starting is not None}
        if not starting:
            return
        ready, _ = self._ray.wait(list(starting), timeout=timeout_s)
        for ref in ready:
            seat = starting[ref]
            try:
                reason = self._ray.get(ref)
            except self._ray.exceptions.RayError as error:
                self._start_again(seat, error)
                continue
            if reason:
                raise ModelError(f"a worker on Ray cannot start: {reason}")
            seat.starting, self._n_false_starts = None, 0

    def _start_again(self, seat: _Seat, error: Exception) -> None:
        self._n_false_starts += 1
        if self._n_false_starts >= _STARTS:
            raise ModelError(
                f"{_STARTS} workers in a row ended while they started, the last with: {error}; "
                "the logs of Ray say more, and each worker needs memory for the encoder"
            ) from error
        seat.actor, seat.starting = self._new_actor()

    def _hand_out(self, batches: Iterator[_Batch]) -> None:
        """Give work to the workers that are ready, those that have least first."""
        for n_batches in range(_AT_A_WORKER):
            for seat in self._seats:
                if seat.starting is not None or len(seat.batches) > n_batches:
                    continue
                batch = self._waiting.popleft() if self._waiting else next(batches, None)
                if batch is None:
                    return
                self._send(batch, seat)

    def _send(self, batch: _Batch, seat: _Seat) -> None:
        files = [
            Work(path=each.path, uri=each.uri, about=each.about.sha256) for each in batch.files
        ]
        method = seat.actor.work.options(
            num_returns="streaming", _generator_backpressure_num_objects=_PARTS_AHEAD
        )
        batch.stream = method.remote(files, batch.n_parts)
        seat.batches.append(batch)

    def _wait(self, seats: list[_Seat]) -> _Seat | None:
        """Return a seat whose first batch has news; None: none has yet, or a worker started."""
        streams = [seat.batches[0].stream for seat in seats]
        starting = [seat.starting for seat in self._seats if seat.starting is not None]
        ready, _ = self._ray.wait([*streams, *starting], timeout=_LOOK_S)
        return next((seat for seat in seats if seat.batches[0].stream in ready), None)

    def _receive(self, seat: _Seat) -> None:
        """Take in what comes next of the first batch of a seat; waits for it."""
        batch = seat.batches[0]
        exceptions = self._ray.exceptions
        try:
            parts = self._ray.get(next(batch.stream))
        except StopIteration:
            seat.batches.popleft()
            return
        except exceptions.RayTaskError as error:  # what the local engine would raise, too
            raise error.cause from error
        except exceptions.RayError as error:
            self._lost(seat, error)
        else:
            for part in parts:
                batch.take(part)
        self._received.append(batch)

    def _lost(self, seat: _Seat, error: Exception) -> None:
        """Give what a lost worker had to others; fail a file that ends one after the other."""
        batch = seat.batches[0]
        batch.n_tries += 1
        if batch.n_tries >= _TRIES and len(batch.files) == 1:
            batch.take(Part(entries=[], reason=_killed(error)))
        # By itself from now on, each file shows whether it is the one that ends workers.
        others = [_Batch([each], n_tries=batch.n_tries) for each in batch.files[1:]]
        del batch.files[1:]
        again = [batch] if batch.files else []
        self._waiting.extend([*again, *others, *list(seat.batches)[1:]])
        seat.batches.clear()
        seat.actor, seat.starting = self._new_actor()

    def _files(self, batch: _Batch) -> Iterator[tuple[Work[Task], Encoded[Packed]]]:
        while batch.received:
            work, part = batch.received.popleft()
            if part.last:
                reason = _reason(work, part)
                yield work, Encoded(entries=part.entries, reason=reason, notes=part.notes)
            else:
                notes: list[tuple[str, str]] = []
                yield work, Encoded(rest=self._rest(batch, part, notes), notes=notes)

    def _rest(
        self, batch: _Batch, part: Part, notes: list[tuple[str, str]]
    ) -> Iterator[list[Packed]]:
        """Yield the parts of a large file, whatever comes of others meanwhile."""
        while True:
            notes += part.notes
            if part.reason is not None:
                raise UnreadableError(part.reason)
            yield part.entries
            if part.last:
                return
            while not batch.received:
                if self._stopping():
                    raise StoppedError
                self._receive_of(batch)
            _, part = batch.received.popleft()

    def _receive_of(self, batch: _Batch) -> None:
        """Take in what comes next of one batch, whose worker may be lost."""
        if batch in self._waiting:  # before others: none of them is received meanwhile
            self._waiting.remove(batch)
            self._waiting.appendleft(batch)
        self._look_for_started()
        self._hand_out(iter(()))
        seat = next((seat for seat in self._seats if batch in seat.batches), None)
        if seat is None:
            self._take_started(_LOOK_S)
        else:
            self._receive(seat)

    def _no_place(self) -> str:
        settings = self._settings
        has = {name: n for name, n in self._ray.cluster_resources().items() if name in _COUNTED}
        return (
            f"no worker could start on Ray within {settings.start_s:g} s: each takes "
            f"{settings.worker_cpus:g} CPUs and {settings.worker_gpus:g} GPUs, and the cluster has "
            f"{has}; ask for less (`ray.worker_cpus`, `ray.worker_gpus`), or wait longer "
            "(`ray.start_s`)"
        )


_COUNTED = {"CPU", "GPU"}


def connected(settings: RaySettings) -> tuple[Any, bool]:
    """Return Ray, connected, and whether it is ours to shut down."""
    address = settings.address or os.environ.get("RAY_ADDRESS")
    if address is not None and address.startswith("ray://"):
        raise ConfigError(
            f"{address!r} is the address of Ray Client, which cannot stream; run the command on "
            "the cluster itself, with `ray job submit`"
        )
    if address is None and "ray" not in sys.modules:
        # Read when Ray is imported. The name is of where loopback is Ray's own choice.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray: Any = require("ray", extra="ray", feature="Indexing on Ray")
    if ray.is_initialized():
        return ray, False
    options: dict[str, Any] = {"address": address}
    if address is None:
        options = {
            "job_config": _job(ray),
            "address": "local",
            "num_cpus": max(1, round(settings.workers * settings.worker_cpus + 0.5)),
            "object_store_memory": settings.workers * _STORE_BYTES,
            "include_dashboard": False,
        }
    # Ray reports lost workers on the standard output, where a caller wants JSON.
    worker: Any = ray._private.worker
    worker._worker_logs_enabled = False
    for left in reversed(range(_BOOTS if address is None else 1)):
        try:
            ray.init(log_to_driver=False, logging_level="ERROR", **options)
            break
        except Exception as error:  # Ray raises bare ones
            ray.shutdown()
            if not left:
                raise ConfigError(
                    f"no Ray cluster at {address or 'this machine'}: {error}; check `ray.address`"
                ) from error
    return ray, True


def _job(ray: Any) -> Any:
    """Return that workers import from where this process does.

    By itself Ray puts the working folder first, which may be the one that is indexed: a `numpy.py`
    in it would be run.
    """
    paths = [each for each in reversed(sys.path) if each]  # each goes before those before it
    return ray.job_config.JobConfig(_client_job=True, _py_driver_sys_path=paths)


def _batches(work: Iterable[Work[Task]], most_files: int) -> Iterator[_Batch]:
    """Yield files together that are small enough."""
    files: list[Work[Task]] = []
    n_bytes = 0
    for each in work:
        files.append(each)
        n_bytes += each.about.state.size
        if n_bytes >= BATCH_BYTES or len(files) >= most_files:
            yield _Batch(files)
            files, n_bytes = [], 0
    if files:
        yield _Batch(files)


def _reason(work: Work[Task], part: Part) -> str | None:
    if part.missing and work.path.exists():
        return (
            f"is not there on {part.node}, a node of the cluster; put files where every node sees "
            "them under the same path"
        )
    return part.reason


def _killed(error: Exception) -> str:
    return (
        f"ended the worker that parsed or encoded it {_TRIES} times: a crash, or no memory left "
        f"({type(error).__name__})"
    )
