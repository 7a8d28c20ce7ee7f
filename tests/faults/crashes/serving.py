"""`canopy serve` with files that are being uploaded."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from tests.faults.crashes import corpus, indices
from tests.faults.crashes.killing import Course, Killed, Moment, Watched, command, due
from tests.faults.crashes.kinds import Kind

_AT_ONCE = 4
_CHUNK = 64
_MOST_S = 120.0


class Serving(Kind):
    """A server that takes files; it is killed while some arrive and others are being indexed."""

    name = "serve, uploads"
    n_files = 8

    def prepare(self) -> Course:
        corpus.write(self.folder / "docs", self.n_files)
        place = self.folder / "right"
        with served(place) as server:
            client = _Client(server)
            client.upload(self._paths)
            client.settle(server)
            server.look()
            course = Course(
                first_s=server.first_s, seconds=server.seconds, n_changes=server.n_changes
            )
        self.right = indices.known(place)
        if len(self.right.content) != len(self._paths):
            raise RuntimeError(f"{len(self.right.content)} sources are not all that was uploaded")
        return course

    @property
    def _paths(self) -> list[Path]:
        return sorted((self.folder / "docs").iterdir())

    def disturb(self, trial: Path, moment: Moment, course: Course) -> Killed:
        with served(trial / "index") as server:
            client = _Client(server)
            sending = threading.Thread(target=client.upload, args=(self._paths,))
            sending.start()
            wanted = due(moment, course)
            # What the last look needs is known by then: the server itself goes on for ever.
            if not server.watch(lambda watched: wanted(watched) or client.is_done(sending)):
                raise RuntimeError(f"the server ended with {server.process.returncode}")
            early = wanted(server)
            time.sleep(moment.delay_s if early else 0)
            orphans = server.kill()
            sending.join()
        (trial / "taken.json").write_text(json.dumps(client.taken), "utf-8")
        return Killed(killed=early, orphans=orphans)

    def faults(self, trial: Path) -> list[str]:
        place = trial / "index"
        found = indices.faults_of_killed(place, self.right.content)
        taken = json.loads((trial / "taken.json").read_text("utf-8"))
        with served(place) as server:
            client = _Client(server)
            client.settle(server)
            there, _ = indices.content(place)
            held = {Path(uri).name for uri in there}
            found += [f"{name}: it was taken, and is lost" for name in taken if name not in held]
            client.upload([path for path in self._paths if path.name not in held])
            client.settle(server)
        left = [each.name for each in (place / "uploads").iterdir() if each.suffix == ".part"]
        found += [f"left behind: {name}" for name in left]
        return found + indices.faults_of_completed(place, self.right)


@contextlib.contextmanager
def served(place: Path) -> Iterator[Watched]:
    """Run a server; it is killed in the end, if it was not before."""
    watched = Watched(
        command(
            "serve", "--index", str(place), "--encoder", "hashing", "--allow-upload", "--llm",
            "none", "--port", "0", "--json", "--no-open",
        ),
        [place],
    )  # fmt: skip
    try:
        yield watched
    finally:
        watched.end()


class _Client:
    """Sends files, and remembers those that the server said it took."""

    def __init__(self, server: Watched) -> None:
        assert server.process.stdout is not None
        told = server.process.stdout.readline()
        self._address = str(urlsplit(json.loads(told)["url"]).netloc)
        self.taken: list[str] = []

    def upload(self, paths: Sequence[Path]) -> None:
        """Send files, some at a time; one that the server does not live to take is passed over."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(self._send, paths))

    def is_done(self, sending: threading.Thread) -> bool:
        """Whether all is sent and indexed."""
        return not sending.is_alive() and self._is_idle()

    def settle(self, server: Watched) -> None:
        """Wait until all files are indexed."""
        begin = time.perf_counter()
        while not self._is_idle():
            server.look()
            if time.perf_counter() - begin > _MOST_S:
                raise TimeoutError("files are not indexed")
            time.sleep(0.002)

    def _send(self, path: Path) -> None:
        data = path.read_bytes()
        chunks = (data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK))
        try:
            self._request(
                "POST",
                f"/v1/uploads?name={quote(path.name)}",
                chunks,
                {"Content-Length": len(data), "Content-Type": "application/octet-stream"},
            )
        except (OSError, http.client.HTTPException):
            return
        self.taken.append(path.name)

    def _is_idle(self) -> bool:
        states = [each["state"] for each in self._request("GET", "/v1/uploads")["uploads"]]
        if "failed" in states:
            raise RuntimeError("a file could not be indexed")
        return all(state == "done" for state in states)

    def _request(
        self, method: str, path: str, body: Any = None, headers: dict[str, Any] | None = None
    ) -> Any:
        connection = http.client.HTTPConnection(self._address, timeout=60)
        try:
            connection.request(method, path, body, {k: str(v) for k, v in (headers or {}).items()})
            reply = connection.getresponse()
            content = reply.read()
            if reply.status >= 300:
                raise RuntimeError(f"{reply.status}: {content[:300]!r}")
            return json.loads(content)
        finally:
            connection.close()
