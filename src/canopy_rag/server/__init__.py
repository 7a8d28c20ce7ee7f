"""Answers over HTTP: REST, OpenAI-compatible chat, MCP, the explorer page (`docs/http-api.md`).

`create_app` makes the application, `serving.serve` runs it. Work that computes runs in threads, so
that the event loop only waits; every kind of work has a gate that sends away what is too much.
"""

from canopy_rag.server.app import create_app

__all__ = ["create_app"]
