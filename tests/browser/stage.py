"""A small server that speaks docs/http-api.md about made-up items: what the page is tried on.

It answers at once or step by step, so that a test can look at the page while an answer comes.
"""

from __future__ import annotations

import io
import json
import mimetypes
import threading
from collections.abc import Iterator
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import canopy_rag
from tests.browser import props

STATIC = Path(canopy_rag.__file__).parent / "server" / "static"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "media-src 'self' blob:; font-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
"""Stricter than the server's own: whatever passes here passes there."""


class Stage(ThreadingHTTPServer):
    """The server, on a free port of the loopback interface.

    Attributes:
        items: Id -> item as `/v1/items/{id}` tells it whole.
        media: Id -> bytes and type.
        trees: Id -> nodes as `/v1/explain` tells them.
        answers: Question -> answer object; `evidences` the same for searches.
        gate: While it is cleared, an answer stops before its next token.
        requests: Method and path of everything that was asked.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.items: dict[str, dict[str, Any]] = {}
        self.media: dict[str, tuple[bytes, str]] = {}
        self.pages: dict[tuple[str, int], bytes] = {}
        self.trees: dict[str, list[dict[str, Any]]] = {}
        self.answers: dict[str, dict[str, Any]] = {}
        self.evidences: dict[str, dict[str, Any]] = {}
        self.failures: dict[str, tuple[int, dict[str, Any]]] = {}
        self.gate = threading.Event()
        self.gate.set()
        self.uploads: dict[str, dict[str, Any]] = {}
        self.takes_uploads = True
        self.requests: list[tuple[str, str]] = []
        self.bodies: list[dict[str, Any]] = []
        props.furnish(self)

    @cached_property
    def url(self) -> str:
        """Return where it is."""
        return f"http://127.0.0.1:{self.server_address[1]}/"

    def __enter__(self) -> Stage:
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.gate.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that went away."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Stage

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        path, query = self._path()
        if path == "/":
            return self._send((STATIC / "index.html").read_bytes(), "text/html; charset=utf-8")
        if path.startswith("/static/"):
            file = STATIC / path.removeprefix("/static/")
            if not file.is_file():
                return self._fail(404, "no such file")
            kind = "text/javascript" if file.suffix == ".js" else mimetypes.guess_type(file)[0]
            return self._send(file.read_bytes(), kind or "font/woff2")
        if path == "/v1/info":
            return self._json(
                {
                    "version": "0",
                    "index": {"items": {"total": 7, "text": 3, "table": 1, "image": 1, "video": 2}},
                    "model": "scripted",
                    "uploads": self.server.takes_uploads,
                    "signed_in": True,
                }
            )
        if path.startswith("/v1/items/"):
            return self._item(path.split("/")[3:], query)
        if path.startswith("/v1/uploads/"):
            upload = self.server.uploads[path.rsplit("/", 1)[1]]
            state = upload.pop("next", None)
            if state:
                upload.update(state)
            return self._json({key: value for key, value in upload.items() if key != "next"})
        return self._fail(404, f"no such path: {path}")

    def do_POST(self) -> None:
        path, query = self._path()
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        if path == "/v1/uploads":
            return self._upload(query["name"][0], raw)
        body = json.loads(raw)
        self.server.bodies.append(body)
        asked = body.get("query") or body.get("question") or ""
        if asked in self.server.failures:
            status, error = self.server.failures[asked]
            return self._json(
                {"error": error}, status, {"Retry-After": "7"} if status == 503 else {}
            )
        if path == "/v1/search":
            return self._json(self.server.evidences[asked])
        if path == "/v1/explain":
            nodes = self.server.trees[body["item"]]
            head = {"item_id": body["item"], "similarity": 0.5, "rank": 1, "nodes": nodes}
            return self._json({"query": asked, "items": [head]})
        if path == "/v1/ask":
            return self._stream(self.server.answers[asked])
        return self._fail(404, f"no such path: {path}")

    def _path(self) -> tuple[str, dict[str, list[str]]]:
        parts = urlsplit(self.path)
        self.server.requests.append((self.command, parts.path))
        return unquote(parts.path), parse_qs(parts.query)

    def _item(self, path: list[str], query: dict[str, list[str]]) -> None:
        found = self.server.items.get(path[0])
        if found is None:
            return self._fail(404, f"no such item: {path[0]}")
        if path[1:] == ["media"]:
            return self._ranged(*self.server.media[path[0]])
        if path[1:2] == ["pages"]:
            return self._send(self.server.pages[path[0], int(path[2])], "image/png")
        if "table" not in found:
            return self._json(found)
        rows = found["table"]["rows"]
        start = int(query.get("start", ["0"])[0])
        stop = min(len(rows), int(query.get("stop", [str(start + 500)])[0]))
        part = {"start": start, "stop": stop, "rows": rows[start:stop]}
        return self._json({**found, "table": {**found["table"], **part}})

    def _stream(self, answer: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for name, data in self._events(answer):
            self.wfile.write(f"event: {name}\ndata: {json.dumps(data)}\n\n".encode())
            self.wfile.flush()
        self.close_connection = True

    def _events(self, answer: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        for each in answer["rounds"]:
            yield "round", each
        yield "evidence", answer["evidence"]
        for word in answer["text"].split(" "):
            if not self.server.gate.wait(timeout=20):
                return
            yield "token", word + " "
        if not answer.get("breaks"):
            yield "answer", answer

    def _upload(self, name: str, raw: bytes) -> None:
        if not self.server.takes_uploads:
            return self._fail(403, "uploads are off; start the server with --allow-upload")
        upload = {"id": f"u{len(self.server.uploads)}", "name": name, "bytes": len(raw)}
        broken = name.endswith(".bin")
        end = (
            {"state": "failed", "items": 0, "error": "no reader for .bin files", "report": None}
            if broken
            else {
                "state": "done",
                "items": 3,
                "error": None,
                "report": {"files": {"indexed": 1, "failed": []}},
            }
        )
        upload |= {"state": "indexing", "items": 0, "error": None, "report": None, "next": end}
        self.server.uploads[str(upload["id"])] = upload
        return self._json({key: value for key, value in upload.items() if key != "next"}, 202)

    def _ranged(self, body: bytes, kind: str) -> None:
        asked = self.headers.get("Range", "").removeprefix("bytes=")
        if not asked:
            return self._send(body, kind, headers={"Accept-Ranges": "bytes"})
        first, _, last = asked.partition("-")
        start, stop = int(first), min(len(body), int(last) + 1 if last else len(body))
        head = {"Content-Range": f"bytes {start}-{stop - 1}/{len(body)}", "Accept-Ranges": "bytes"}
        return self._send(body[start:stop], kind, 206, head)

    def _json(self, data: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self._send(json.dumps(data).encode(), "application/json", status, headers)

    def _fail(self, status: int, message: str) -> None:
        self._json({"error": {"type": "not_found", "message": message}}, status)

    def _send(
        self, body: bytes, kind: str, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        policy = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff"}
        for name, value in {"Content-Type": kind, **policy, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def png(width: int, height: int, colour: str) -> bytes:
    """Return a plain picture."""
    from PIL import Image

    out = io.BytesIO()
    Image.new("RGB", (width, height), colour).save(out, "PNG")
    return out.getvalue()
