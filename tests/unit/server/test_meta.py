from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from canopy_rag.server import bodies
from canopy_rag.server.errors import KINDS

PAGE = Path(__file__).resolve().parents[3] / "docs/http-api.md"
PROMISED = [
    ("get", "/"),
    ("post", "/v1/search"),
    ("post", "/v1/compress"),
    ("post", "/v1/ask"),
    ("post", "/v1/chat/completions"),
    ("get", "/v1/models"),
    ("get", "/v1/items/{item_id}"),
    ("get", "/v1/items/{item_id}/media"),
    ("get", "/health"),
    ("get", "/metrics"),
]


async def schema_of(client_of: Any) -> dict[str, Any]:
    async with client_of() as client:
        found: dict[str, Any] = (await client.get("/openapi.json")).json()
    return found


async def test_the_schema_has_what_is_promised(client_of: Any) -> None:
    paths = (await schema_of(client_of))["paths"]
    assert [(m, p) for m, p in PROMISED if m not in paths.get(p, {})] == []


async def test_the_page_tells_of_every_path(client_of: Any) -> None:
    page = PAGE.read_text("utf-8")
    for path in (await schema_of(client_of))["paths"]:
        assert re.sub(r"\{\w*_id\}", "{id}", path) in page, path
    assert "/mcp" in page


def test_the_page_tells_of_every_field_and_error() -> None:
    page = PAGE.read_text("utf-8")
    models = [
        each
        for each in vars(bodies).values()
        if isinstance(each, type) and issubclass(each, BaseModel) and each is not BaseModel
    ]
    fields = {name for each in models for name in each.model_fields}
    fields -= {"messages", "role", "content", "include_usage", "model"}  # OpenAI's own
    assert {name for name in fields if f"`{name}`" not in page and f'"{name}"' not in page} == set()
    for status, kind in KINDS.items():
        assert status == 499 or f"| {status} | `{kind}` |" in page


def test_the_page_tells_of_every_event() -> None:
    source = Path(bodies.__file__).with_name("routes_ask.py").read_text("utf-8")
    events = set(re.findall(r'event\("(\w+)"', source))
    assert events == {"round", "evidence", "token", "answer", "error"}
    page = PAGE.read_text("utf-8")
    assert all(f"| `{name}` |" in page for name in events)


async def test_no_page_loads_scripts_from_elsewhere(client_of: Any) -> None:
    async with client_of() as client:
        assert (await client.get("/docs")).status_code == 404
        assert (await client.get("/redoc")).status_code == 404


async def test_info_tells_what_the_explorer_needs(client_of: Any) -> None:
    async with client_of(server__max_searches=7) as client:
        about = (await client.get("/v1/info")).json()
    assert about["index"]["items"]["total"] == sum(
        about["index"]["items"][each] for each in ("text", "table", "image", "video")
    )
    assert (about["model"], about["uploads"], about["index"]["encoder"]) == (None, False, "hashing")
    assert about["limits"]["max_searches"] == 7


async def test_metrics_count_requests_by_route_and_evidence_by_extent(client_of: Any) -> None:
    async with client_of() as client:
        evidence = (await client.post("/v1/search", json={"query": "coffee"})).json()
        await client.get("/v1/items/no-such-item")
        await client.get("/no/such/path")
        await client.post("/v1/ask", json={"query": "coffee"})
        text = (await client.get("/metrics")).text
    samples = dict(
        line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#")
    )
    assert samples['canopy_requests_total{method="POST",route="/v1/search",status="200"}'] == "1.0"
    missing = 'canopy_requests_total{method="GET",route="/v1/items/{item_id}",status="404"}'
    assert samples[missing] == "1.0"
    assert samples['canopy_requests_total{method="GET",route="none",status="404"}'] == "1.0"
    assert float(samples['canopy_evidence_tokens_total{extent="shown"}']) >= evidence["tokens"]
    assert samples['canopy_answers_total{stop="no_critic"}'] == "1.0"
    assert samples["canopy_searches_in_flight_limit"] == "128.0"
    assert "no-such-item" not in text


async def test_the_page_is_served_with_its_files(client_of: Any) -> None:
    static = Path(bodies.__file__).with_name("static")
    if not (static / "index.html").is_file():
        pytest.skip("the explorer page is not there")
    async with client_of() as client:
        page = await client.get("/")
        assert page.headers["content-type"].startswith("text/html")
        for path in re.findall(r'(?:src|href)="(/?static/[^"#?]+)"', page.text):
            assert (await client.get("/" + path.lstrip("/"))).status_code == 200, path
