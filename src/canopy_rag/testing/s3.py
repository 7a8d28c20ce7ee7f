"""An S3-compatible server on loopback, by `moto`, with the misbehaviour that storage is known for.

Conditional writes are atomic here, as on S3; moto by itself looks first and writes later.
"""

from __future__ import annotations

import logging
import random
import threading
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from canopy_rag._optional import require

ACCESS_KEY, SECRET_KEY = "testing", "testing-secret"

_Start = Callable[..., Any]


class S3Server:
    """A server that is running while the context is entered; it keeps everything in memory.

    Args:
        ignores_conditions: Write whatever `If-Match` and `If-None-Match` say, as old servers do.
    """

    def __init__(self, *, ignores_conditions: bool = False) -> None:
        self.ignores_conditions = ignores_conditions
        self.fails_with: int | None = None
        """Answer every request with this status instead."""
        self.requests: list[tuple[str, str]] = []
        """Method and path of every request."""
        self._lock = threading.Lock()
        self._share = 0.0
        self._draw = random.Random(0)
        self._n_refused = 0

    def __enter__(self) -> S3Server:
        moto = require("moto.server", extra="dev", feature="The S3 server for tests")
        serving = require("werkzeug.serving", extra="dev", feature="The S3 server for tests")
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._app = moto.DomainDispatcherApplication(moto.create_backend_app)
        self._server = serving.make_server("127.0.0.1", 0, self._answer, threaded=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def fail_some(self, *, share: float, seed: int) -> int:
        """Refuse a share of the requests from now on, with 503.

        Returns:
            How many were refused since this was last called.
        """
        with self._lock:
            n_refused, self._n_refused = self._n_refused, 0
            self._share, self._draw = share, random.Random(seed)
            return n_refused

    @property
    def url(self) -> str:
        """What to connect to."""
        return f"http://127.0.0.1:{self._server.port}"

    @property
    def options(self) -> dict[str, str]:
        """Storage options of a client, keys included."""
        return {
            "aws_access_key_id": ACCESS_KEY,
            "aws_secret_access_key": SECRET_KEY,
            "aws_endpoint": self.url,
            "aws_region": "us-east-1",
            "allow_http": "true",
        }

    @property
    def environment(self) -> dict[str, str]:
        """The same as variables for a process of its own."""
        return {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }

    def make_bucket(self) -> str:
        """Make a bucket with a name of its own and return its address."""
        import urllib.request

        name = f"bucket-{uuid.uuid4().hex}"  # servers of one process share what they hold
        request = urllib.request.Request(f"{self.url}/{name}", method="PUT")
        with urllib.request.urlopen(request):
            return f"s3://{name}"

    def _answer(self, environ: dict[str, Any], start: _Start) -> Iterable[bytes]:
        method = str(environ["REQUEST_METHOD"])
        self.requests.append((method, str(environ["PATH_INFO"])))
        if self._is_unlucky():
            return _refusal(start, 503, "SlowDown", "asked to fail")
        if self.fails_with is not None:
            return _refusal(start, self.fails_with, "SlowDown", "asked to fail")
        signature = str(environ.get("HTTP_AUTHORIZATION", ""))
        if signature and f"Credential={ACCESS_KEY}/" not in signature:
            return _refusal(start, 403, "InvalidAccessKeyId", "The key id does not exist.")
        if self.ignores_conditions:
            environ.pop("HTTP_IF_MATCH", None)
            environ.pop("HTTP_IF_NONE_MATCH", None)
        if method in {"GET", "HEAD"}:
            return self._app(environ, start)  # type: ignore[no-any-return]
        with self._lock:
            return self._app(environ, start)  # type: ignore[no-any-return]

    def _is_unlucky(self) -> bool:
        with self._lock:
            unlucky = self._draw.random() < self._share
            self._n_refused += unlucky
            return unlucky


def _refusal(start: _Start, status: int, code: str, message: str) -> Iterable[bytes]:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
    start(f"{status} {code}", [("Content-Type", "application/xml")])
    return [body.encode()]
