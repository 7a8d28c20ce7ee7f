"""An OpenAI-compatible chat server on a loopback port that does what a test tells it to."""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

_WAIT_S = 30.0
"""No test waits longer, even for what never comes."""


USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
"""What every reply tells unless a test has it otherwise."""


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
    resets: bool = False
    """Promise more than the body and reset the connection."""
    stalls: bool = False
    """Promise more than the body and send nothing until `release`."""


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
    choice |= {"finish_reason": "stop"} | {k: v for k, v in changes.items() if k != "usage"}
    payload = {"object": "chat.completion", "choices": [choice]}
    payload["usage"] = changes.get("usage", USAGE)
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
    *deltas: str | Mapping[str, Any],
    finish_reason: str | None = "stop",
    usage: Mapping[str, int] | None = USAGE,
    done: bool = True,
) -> Served:
    """Return a stream of events.

    Args:
        *deltas: Pieces of text, or whole deltas.
        finish_reason: Sent after them; None: not sent.
        usage: Sent after that; None: not sent.
        done: Whether `[DONE]` ends it.
    """
    lines = [": a comment\n\n"]
    for delta in deltas:
        content = {"content": delta} if isinstance(delta, str) else dict(delta)
        lines.append(_event({"choices": [{"delta": content, "finish_reason": None}]}))
    if finish_reason is not None:
        lines.append(_event({"choices": [{"delta": {}, "finish_reason": finish_reason}]}))
    if usage is not None:
        lines.append(_event({"choices": [], "usage": usage}))
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
        picture_tokens: What `/tokenize` counts for a picture in messages; None: it takes no
            messages.
    """

    route = "/chat/completions"
    """End of the path that the script answers."""

    def __init__(
        self,
        *script: Served,
        then: Respond | None = None,
        models: Sequence[str | Mapping[str, Any]] | None = ("test-model",),
        tokenizes: bool = True,
        picture_tokens: int | None = None,
    ) -> None:
        self._script = list(script)
        self._then = then
        self._models = models
        self._tokenizes = tokenizes
        self._picture_tokens = picture_tokens
        self._released = threading.Event()
        self._changed = threading.Condition()
        self._in_flight = 0
        self.peak = 0
        """Most chat completions in flight at once."""
        self.received: list[Received] = []
        """All requests, in order."""
        self._http = _Listener(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        """Base URL, with `/v1`."""
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    @property
    def chats(self) -> list[Received]:
        """The chat completions among `received`."""
        return [each for each in self.received if _route(each).endswith(self.route)]

    def release(self) -> None:
        """Let all hanging replies go, those to come included."""
        self._released.set()

    def wait_for_release(self) -> None:
        """Wait until `release`."""
        self._released.wait(_WAIT_S)

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
        if not _route(received).endswith(self.route):
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
                self.wait_for_release()
        finally:
            with self._changed:
                self._in_flight -= 1
        return served

    def _aside(self, received: Received) -> Served:
        if _route(received).endswith("/models") and self._models is not None:
            entries = [{"id": each} if isinstance(each, str) else each for each in self._models]
            return sends({"object": "list", "data": entries})
        if _route(received) == "/tokenize" and self._tokenizes:
            return self._tokenize(received.body)
        return refuses(404, "no such path")

    def _tokenize(self, body: dict[str, Any]) -> Served:
        if "messages" not in body:
            words = str(body.get("content", "")).split()
            return sends({"tokens": list(range(len(words)))})
        if self._picture_tokens is None:
            return refuses(422, "messages: extra fields not permitted")
        parts = [part for message in body["messages"] for part in message["content"]]
        costs = (1 if part["type"] == "text" else self._picture_tokens for part in parts)
        return sends({"count": 5 + sum(costs)})


class _Listener(ThreadingHTTPServer):
    request_queue_size = 256
    """Connections that may wait to be accepted: the usual 5 turn a batch of calls away."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print what went wrong, unless the client went away between two requests."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


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
            unfinished = served.breaks or served.resets or served.stalls
            length = len(served.body) + (1000 if unfinished else 0)
            self.close_connection = unfinished
            try:
                self.send_response(served.status)
                for name, value in {**served.headers, "Content-Length": str(length)}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(served.body)
                if served.stalls:
                    server.wait_for_release()
                if served.resets:
                    self._reset()
            except ConnectionError:
                # The client went away first, as it does in tests of time-outs.
                self.close_connection = True

        def _reset(self) -> None:
            # Closed at once and without lingering: an orderly end would come first otherwise.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            os.close(self.connection.detach())

    return Handler
