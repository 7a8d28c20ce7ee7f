"""Workers that are lost at the worst moment, on a cluster that is played: no Ray is needed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from canopy_rag.core.protocols import Packed
from canopy_rag.indexing import on_ray
from canopy_rag.indexing.on_ray import RayEngine, RaySettings
from canopy_rag.indexing.parsing import Work
from canopy_rag.indexing.ray_worker import Part

N_PARTS = 4
"""Of the large file."""


class LostError(Exception):
    """Stands for Ray's."""


class Start:
    """Tells that a worker is ready."""


class Played:
    """A cluster whose workers are ready at once and die when they are told to.

    Args:
        dying: Names of files, and the part of each before which its worker dies, once.
    """

    exceptions = SimpleNamespace(RayTaskError=ZeroDivisionError, RayError=LostError)

    def __init__(self, dying: dict[str, int]) -> None:
        self._dying = dying
        self._n_waits = 0

    def put(self, recipe):
        return recipe

    def remote(self, **_resources):
        return lambda _worker: SimpleNamespace(remote=lambda _recipe: self._actor())

    def get(self, ref):
        return "" if isinstance(ref, Start) else ref

    def kill(self, _actor) -> None:
        pass

    def wait(self, refs, timeout):
        """The first worker has news first, and then the last one."""
        streams = [ref for ref in refs if not isinstance(ref, Start)]
        if not streams:
            return refs, []
        self._n_waits += 1
        return [streams[0] if self._n_waits == 1 else streams[-1]], []

    def _actor(self):
        work = SimpleNamespace(remote=self._work)
        return SimpleNamespace(
            start=SimpleNamespace(remote=Start),
            work=SimpleNamespace(options=lambda **_: work),
        )

    def _work(self, files, skip: int) -> Iterator[list[Part]]:
        for work in files:
            n_parts = N_PARTS if work.uri == "large" else 1
            for number in range(skip, n_parts):
                if self._dying.get(work.uri) == number:
                    del self._dying[work.uri]
                    raise LostError
                entry = Packed(
                    uri=work.uri, corpus="main", ids=(f"{work.uri} {number}",), n_nodes=1, rows=None
                )
                yield [Part(entries=[entry], last=number == n_parts - 1)]
            skip = 0


def files(*names: str) -> list[Work]:
    about = SimpleNamespace(sha256="0", state=SimpleNamespace(size=1))
    return [Work(path=Path(name), uri=name, about=about) for name in names]


def test_a_large_file_that_lost_its_worker_goes_before_what_others_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is being written: what the workers are busy with otherwise is not received meanwhile."""
    small = [f"small {n}" for n in range(10)]
    cluster = Played({"small 0": 0, "large": 1})
    monkeypatch.setattr(on_ray, "connected", lambda _settings: (cluster, False))
    looks = count()
    engine = RayEngine(None, RaySettings(workers=2), 80, lambda: next(looks) > 1_000)
    found: dict[str, list[str]] = {}
    for work, encoded in engine.encoded(iter(files(*small, "large"))):
        parts = [encoded.entries] if encoded.rest is None else encoded.rest
        found[work.uri] = [each for part in parts for entry in part for each in entry.ids]
    assert found.pop("large") == [f"large {number}" for number in range(N_PARTS)]
    assert found == {name: [f"{name} 0"] for name in small}
