"""An OpenAI-compatible chat server on a loopback port that does what a test tells it to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

_WAIT_S = 30.0
"""No test waits longer, even for what never comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One reply of the server."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    hangs: bool = False
    """Wait for `release` before replying."""
    breaks: bool = False
    """Promise more than the body and close the connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request to the server."""

    path: str
    """With the query, if there is one."""
    headers: Mapping[str, str]
    """Names in lower case."""
    body: dict[str, Any]


def says(text: str, **changes: Any) -> Served:
    """Return a whole reply with a text.

    Args:
        text: The text.
        **changes: Fields of `choices[0]` (`finish_reason`, `message`) and of the reply (`usage`)
            that differ; None leaves the field out.
    """
    choice = {"index": 0, "message": {"role": "assistant", "content": text}}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    choice |= {"finish_reason": "stop"} | {k: v for k, v in changes.items() if k != "usage"}
    payload = {"object": "chat.completion", "choices": [choice]}
    payload["usage"] = changes.get("usage", usage)
    return sends({key: value for key, value in payload.items() if value is not None})


def sends(payload: Any, status: int = 200, **headers: str) -> Served:
    """Return a reply with JSON; `_` in names of headers stands for `-`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Served(
        body=json.dumps(payload, ensure_ascii=False).encode(),
        status=status,
        headers={"Content-Type": "application/json", **named},
    )


def refuses(status: int, message: str = "no", **headers: str) -> Served:
    """Return an error as OpenAI words it."""
    return sends({"error": {"message": message, "type": "test"}}, status, **headers)


def streams(
    *deltas: str | Mapping[str, Any], finish_reason: str | None = "stop", done: bool = True
) -> Served:
    """Return a stream of events.

    Args:
        *deltas: Pieces of text, or whole deltas.
        finish_reason: Sent after them; None: not sent.
        done: Whether `[DONE]` ends it.
    """
    lines = [": a comment\n\n"]
    for delta in deltas:
        content = {"content": delta} if isinstance(delta, str) else dict(delta)
        lines.append(_event({"choices": [{"delta": content, "finish_reason": None}]}))
    if finish_reason is not None:
        lines.append(_event({"choices": [{"delta": {}, "finish_reason": finish_reason}]}))
    lines.append(_event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}))
    if done:
        lines.append("data: [DONE]\n\n")
    return Served(body="".join(lines).encode(), headers={"Content-Type": "text/event-stream"})


def _event(payload: Any) -> str:
    return f"data: {json.dumps(payload, ensure_ascii=False)}\n\n"


def echoes(received: Received) -> Served:
    """Reply to the last message with its text, whole or word by word as asked."""
    text = f"you said: {received.body['messages'][-1]['content']}"
    if not received.body.get("stream"):
        return says(text)
    first, *others = text.split(" ")
    return streams(first, *(f" {word}" for word in others))


Respond = Callable[[Received], Served]


class ChatServer:
    """The server; use it as a context manager.

    Args:
        *script: Replies to chat completions, in order.
        then: What replies after the script; None: status 500, so that a surprise shows.
        models: Entries of `/v1/models`, or their ids; None: there is no such path.
        tokenizes: Whether `/tokenize` counts words; otherwise there is no such path.
    """

    def __init__(
        self,
        *script: Served,
        then: Respond | None = None,
        models: Sequence[str | Mapping[str, Any]] | None = ("test-model",),
        tokenizes: bool = True,
    ) -> None:
        self._script = list(script)
        self._then = then
        self._models = models
        self._tokenizes = tokenizes
        self._released = threading.Event()
        self._changed = threading.Condition()
        self._in_flight = 0
        self.peak = 0
        """Most chat completions in flight at once."""
        self.received: list[Received] = []
        """All requests, in order."""
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        """Base URL, with `/v1`."""
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    @property
    def chats(self) -> list[Received]:
        """The chat completions among `received`."""
        return [each for each in self.received if _route(each).endswith("/chat/completions")]

    def release(self) -> None:
        """Let all hanging replies go, those to come included."""
        self._released.set()

    def wait_for(self, n_chats: int) -> None:
        """Wait until so many chat completions have come in.

        Raises:
            AssertionError: If they do not.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.chats) >= n_chats, _WAIT_S):
                raise AssertionError(f"{len(self.chats)} of {n_chats} chat completions came")

    def __enter__(self) -> ChatServer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def respond(self, received: Received) -> Served:
        """Return the reply to a request."""
        if not _route(received).endswith("/chat/completions"):
            with self._changed:
                self.received.append(received)
            return self._aside(received)
        with self._changed:
            self.received.append(received)
            self._in_flight += 1
            self.peak = max(self.peak, self._in_flight)
            served = self._script.pop(0) if self._script else None
            self._changed.notify_all()
        try:
            if served is None:
                served = self._then(received) if self._then else refuses(500, "not in the script")
            if served.hangs:
                self._released.wait(_WAIT_S)
        finally:
            with self._changed:
                self._in_flight -= 1
        return served

    def _aside(self, received: Received) -> Served:
        if _route(received).endswith("/models") and self._models is not None:
            entries = [{"id": each} if isinstance(each, str) else each for each in self._models]
            return sends({"object": "list", "data": entries})
        if _route(received) == "/tokenize" and self._tokenizes:
            words = str(received.body.get("content", "")).split()
            return sends({"tokens": list(range(len(words)))})
        return refuses(404, "no such path")


def _route(received: Received) -> str:
    return received.path.partition("?")[0]


def _handler(server: ChatServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Replies go out in two writes, which Nagle's algorithm would hold up by 40 ms.
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self._reply(b"")

        def do_POST(self) -> None:
            self._reply(self.rfile.read(int(self.headers.get("content-length", 0))))

        def log_message(self, format: str, *args: Any) -> None:
            """Stay silent."""

        def _reply(self, content: bytes) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = json.loads(content) if content else {}
            served = server.respond(Received(path=self.path, headers=headers, body=body))
            length = len(served.body) + (1000 if served.breaks else 0)
            self.close_connection = served.breaks
            try:
                self.send_response(served.status)
                for name, value in {**served.headers, "Content-Length": str(length)}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(served.body)
            except ConnectionError:
                # The client went away first, as it does in tests of time-outs.
                self.close_connection = True

    return Handler
