from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from canopy_rag.config import Secret, ServerConfig
from canopy_rag.core.errors import ConfigError
from canopy_rag.server import guard, keys
from canopy_rag.server.errors import FAULT
from canopy_rag.server.hosts import Callers, check_bind
from canopy_rag.server.logs import Redacting

KEY = "a-key-of-the-tests"
RIGHT = {"Authorization": f"Bearer {KEY}"}
PATHS = [
    ("POST", "/v1/search"),
    ("POST", "/v1/explain"),
    ("POST", "/v1/compress"),
    ("POST", "/v1/ask"),
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/uploads"),
    ("GET", "/v1/uploads"),
    ("GET", "/v1/models"),
    ("GET", "/v1/info"),
    ("GET", "/v1/items/x"),
    ("GET", "/v1/items/x/media"),
    ("GET", "/v1/items/x/pages/1"),
    ("DELETE", "/v1/session"),
    ("GET", "/static/index.html"),
    ("GET", "/openapi.json"),
    ("GET", "/metrics"),
    ("POST", "/mcp"),
    ("GET", "/mcp"),
    ("GET", "/no/such/path"),
]


@pytest.mark.parametrize(("method", "path"), PATHS)
async def test_without_the_key_nothing_is_told(
    client_of: Any, said: Any, method: str, path: str
) -> None:
    async with client_of(key=KEY) as client:
        reply = await client.request(method, path, json={} if method == "POST" else None)
    assert reply.status_code == 401
    assert said(reply)["type"] == "unauthorized"
    assert reply.headers["www-authenticate"] == "Bearer"


async def test_health_is_open(client_of: Any) -> None:
    async with client_of(key=KEY) as client:
        reply = await client.get("/health")
    assert (reply.status_code, reply.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize(
    "given",
    [
        "Bearer wrong",
        "Bearer",
        "Bearer ",
        f"Basic {KEY}",
        KEY,
        f"Bearer {KEY}x",
        f"Bearer {KEY[:-1]}",
        f"Bearer {KEY.upper()}",
        f"Bearer {KEY} {KEY}",
    ],
)
async def test_a_key_that_is_not_quite_right_is_wrong(client_of: Any, given: str) -> None:
    async with client_of(key=KEY, headers={"Authorization": given}) as client:
        assert (await client.get("/v1/models")).status_code == 401


async def test_the_right_key_opens(client_of: Any) -> None:
    async with client_of(key=KEY, headers=RIGHT) as client:
        assert (await client.get("/v1/models")).status_code == 200


async def test_a_key_in_the_address_does_not_count(client_of: Any) -> None:
    async with client_of(key=KEY) as client:
        reply = await client.get("/v1/models", params={"key": KEY, "api_key": KEY})
    assert reply.status_code == 401


async def test_two_keys_at_once_are_refused(client_of: Any, said: Any) -> None:
    headers = [("Authorization", "Bearer wrong"), ("Authorization", f"Bearer {KEY}")]
    async with client_of(key=KEY) as client:
        reply = await client.get("/v1/models", headers=headers)
    assert reply.status_code == 400
    assert "authorization" in said(reply)["message"]


def test_a_key_is_compared_by_digests_of_equal_length(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr(
        keys.hmac, "compare_digest", lambda a, b: seen.append((len(a), len(b))) or a == b
    )
    key = keys.Key(Secret(KEY))
    assert not key.matches(b"x", "a")
    assert key.matches(KEY.encode(), "a")
    assert seen == [(32, 32), (32, 32)]


async def test_wrong_keys_are_not_looked_at_for_long(client_of: Any, said: Any) -> None:
    async with client_of(key=KEY) as client:

        async def signs_in(key: str) -> Any:
            return await client.post("/v1/session", json={"key": key})

        first = [(await signs_in(f"guess {n}")).status_code for n in range(keys.MAX_GUESSES)]
        right = await signs_in(KEY)
        by_bearer = await client.get("/v1/models", headers=RIGHT)
        health = await client.get("/health")
    assert set(first) == {401}
    assert (right.status_code, by_bearer.status_code, health.status_code) == (429, 429, 200)
    assert said(right)["type"] == "too_many_requests"
    assert 0 < int(right.headers["retry-after"]) <= keys.GUESS_S
    assert "set-cookie" not in right.headers


async def test_a_signed_in_browser_goes_on_while_its_neighbour_guesses(client_of: Any) -> None:
    async with client_of(key=KEY) as client:
        await client.post("/v1/session", json={"key": KEY})
        for n in range(keys.MAX_GUESSES + 1):
            wrong = {"Authorization": f"Bearer guess {n}"}
            reply = await client.get("/v1/models", headers=wrong)
        assert reply.status_code == 429
        assert (await client.get("/v1/models")).status_code == 200


def test_guessing_is_held_against_an_address_for_a_minute_after_the_last_guess() -> None:
    now = 100.0
    guesses = keys.Guesses(clock=lambda: now)
    for n in range(keys.MAX_GUESSES):
        now += 1.0
        assert not guesses.wait_s("10.0.0.1")
        guesses.note("10.0.0.1", str(n).encode())
    assert guesses.wait_s("10.0.0.1") == keys.GUESS_S
    assert not guesses.wait_s("10.0.0.2")
    now += keys.GUESS_S
    assert not guesses.wait_s("10.0.0.1")
    guesses.note("10.0.0.1", b"one more")
    assert not guesses.wait_s("10.0.0.1")


def test_a_program_with_a_wrong_key_is_no_guesser() -> None:
    guesses = keys.Guesses(clock=lambda: 0.0)
    for _ in range(10 * keys.MAX_GUESSES):
        guesses.note("10.0.0.1", b"the key of yesterday")
    assert not guesses.wait_s("10.0.0.1")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("", "10.0.0.1", False),
    ],
)
def test_who_has_many_addresses_guesses_as_one(one: str, other: str, same: bool) -> None:
    guesses = keys.Guesses(clock=lambda: 0.0)
    for n in range(keys.MAX_GUESSES):
        guesses.note(one, str(n).encode())
    assert bool(guesses.wait_s(other)) is same


def test_guesses_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "MAX_GUESSING", 5)
    guesses = keys.Guesses(clock=lambda: 0.0)
    for n in range(100):
        guesses.note(f"10.0.0.{n}", b"x")
    assert list(guesses._wrong) == [f"10.0.0.{n}" for n in range(95, 100)]
    assert b"x" not in repr(guesses._wrong).encode().split(b"'")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8377",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.1@evil.example",
        "evil.example#127.0.0.1",
        "192.168.1.5:8377",
        "127.0.0.1:port",
        "",
    ],
)
async def test_a_name_that_is_not_this_servers_is_refused(
    client_of: Any, said: Any, host: str
) -> None:
    async with client_of(headers={"Host": host}) as client:
        for path in ("/v1/models", "/mcp", "/"):
            reply = await client.get(path)
            assert reply.status_code == 421, path
            assert said(reply)["type"] == "misdirected_request"


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8377", "127.0.0.1:9", "[::1]:8377", "localhost.:1"]
)
async def test_this_machines_own_names_are_taken(client_of: Any, host: str) -> None:
    async with client_of(headers={"Host": host}) as client:
        assert (await client.get("/v1/models")).status_code == 200


async def test_a_name_can_be_allowed(client_of: Any) -> None:
    options = {"server__allow_hosts": "canopy.example, other.example"}
    async with client_of(headers={"Host": "canopy.example:443"}, **options) as client:
        assert (await client.get("/v1/models")).status_code == 200


@pytest.mark.parametrize(
    ("host", "key", "taken"),
    [
        ("10.0.0.7:8377", False, True),
        ("canopy.example", False, False),
        ("canopy.example", True, True),
        ("[fe80::1]:80", False, True),
    ],
)
def test_on_a_public_address_names_need_a_key(host: str, key: bool, taken: bool) -> None:
    config = ServerConfig(host="0.0.0.0", allow_public=True)
    assert Callers.of(config, has_key=key).takes_host(host) is taken


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "http://127.0.0.1:3000",
        "https://127.0.0.1.evil.example",
        "http://[127.0.0.1",
        "",
    ],
)
async def test_pages_of_other_origins_may_not_call(client_of: Any, said: Any, origin: str) -> None:
    async with client_of(headers={"Origin": origin}) as client:
        for method, path in (("POST", "/v1/search"), ("POST", "/mcp"), ("GET", "/v1/models")):
            reply = await client.request(method, path, json={"query": "x"})
            assert reply.status_code == 403, path
            assert said(reply)["type"] == "forbidden"
            assert "access-control-allow-origin" not in reply.headers


async def test_the_servers_own_page_may_call(client_of: Any) -> None:
    async with client_of(headers={"Origin": "http://127.0.0.1:8377"}) as client:
        reply = await client.post("/v1/search", json={"query": "coffee"})
    assert reply.status_code == 200
    assert "access-control-allow-origin" not in reply.headers


async def test_an_allowed_origin_may_call_and_ask_first_without_the_key(client_of: Any) -> None:
    options = {"server__allow_origins": "https://app.example", "key": KEY}
    async with client_of(headers={"Origin": "https://app.example"}, **options) as client:
        first = await client.options(
            "/v1/search", headers={"Access-Control-Request-Method": "POST"}
        )
        then = await client.post("/v1/search", json={"query": "coffee"}, headers=RIGHT)
        without = await client.post("/v1/search", json={"query": "coffee"})
    assert first.status_code == 204
    assert "authorization" in first.headers["access-control-allow-headers"]
    assert then.status_code == 200
    assert then.headers["access-control-allow-origin"] == "https://app.example"
    assert "access-control-allow-credentials" not in then.headers
    assert without.status_code == 401


async def test_pictures_are_not_sent_into_pages_of_other_sites(client_of: Any) -> None:
    asks = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    async with client_of(headers=asks) as client:
        assert (await client.get("/v1/models")).status_code == 403


async def test_a_link_from_another_site_may_lead_here(client_of: Any) -> None:
    asks = {
        "Sec-Fetch-Site": "cross-site",
        "Sec-Fetch-Mode": "navigate",
        "Sec-Fetch-Dest": "document",
    }
    async with client_of(headers=asks) as client:
        assert (await client.get("/v1/models")).status_code == 200
        assert (await client.post("/v1/search", json={"query": "x"})).status_code == 403


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
async def test_bodies_that_any_web_form_could_send_are_refused(
    client_of: Any, said: Any, kind: str
) -> None:
    async with client_of(headers={"Content-Type": kind}) as client:
        reply = await client.post("/v1/search", content=b'{"query": "coffee"}')
    assert reply.status_code == 415
    assert said(reply)["type"] == "unsupported_media_type"


async def test_a_body_that_says_that_it_is_too_long_is_not_read(client_of: Any, said: Any) -> None:
    async def never() -> Any:
        pytest.fail("the body was read")
        yield b""

    headers = {"Content-Type": "application/json", "Content-Length": "2000000"}
    async with client_of(server__max_body_bytes=1000) as client:
        reply = await client.post("/v1/search", content=never(), headers=headers)
    assert reply.status_code == 413
    assert said(reply)["type"] == "too_large"


async def test_a_body_that_turns_out_too_long_is_cut_off(client_of: Any, said: Any) -> None:
    sent = 0

    async def endless() -> Any:
        nonlocal sent
        while True:
            sent += 1
            yield b" " * 400

    headers = {"Content-Type": "application/json"}
    async with client_of(server__max_body_bytes=1000) as client:
        for path in ("/v1/search", "/mcp", "/v1/compress"):
            sent = 0
            reply = await client.post(path, content=endless(), headers=headers)
            assert reply.status_code == 413
            assert said(reply)["type"] == "too_large"
            assert sent <= 4


async def test_a_body_that_does_not_come_is_not_waited_for(client_of: Any, said: Any) -> None:
    async def stuck() -> Any:
        yield b'{"query":'
        await asyncio.Event().wait()

    headers = {"Content-Type": "application/json"}
    async with client_of(server__body_timeout_s=0.05) as client:
        reply = await client.post("/v1/search", content=stuck(), headers=headers)
    assert reply.status_code == 408
    assert said(reply)["type"] == "timeout"


async def test_bodies_that_come_at_once_are_held_within_a_limit(
    client_of: Any, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "BUFFERS", 2)
    release, arrived = asyncio.Event(), asyncio.Semaphore(0)

    async def slow() -> Any:
        yield b" " * 900
        arrived.release()
        await release.wait()
        yield b'{"query": "coffee"}'

    headers = {"Content-Type": "application/json"}
    async with client_of(server__max_body_bytes=1000) as client:
        held = [
            asyncio.create_task(client.post("/v1/search", content=slow(), headers=headers))
            for _ in range(2)
        ]
        for _ in held:
            await arrived.acquire()
        refused = await client.post("/v1/search", content=slow(), headers=headers)
        release.set()
        served = await asyncio.gather(*held)
        later = await client.post("/v1/search", content=slow(), headers=headers)
    assert refused.status_code == 503
    assert "retry-after" in refused.headers
    assert "bytes of bodies" in said(refused)["message"]
    assert [each.status_code for each in (*served, later)] == [200, 200, 200]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"query"',
        b"\xff\xfe{",
        b'{"query": "\\ud800"}',
        b"[" * 100_000,
        b'{"query": ' + b'{"a":' * 50_000,
        b'{"query": 1e999}',
        b'{"query": "x", "query": null}',
        b'{"query": "x", "k": NaN}',
        b'{"query": "x", "k": "3"}',
        b'{"query": "x", "k": true}',
    ],
    ids=range(14),
)
@pytest.mark.parametrize("path", ["/v1/search", "/v1/compress", "/v1/ask", "/v1/chat/completions"])
async def test_a_malformed_body_is_refused_in_the_one_form(
    client_of: Any, said: Any, path: str, body: bytes
) -> None:
    async with client_of(headers={"Content-Type": "application/json"}) as client:
        reply = await client.post(path, content=body)
    assert reply.status_code == 400
    assert said(reply)["type"] == "invalid_request"
    assert len(reply.content) < 2000


async def test_a_million_slips_are_told_as_one(client_of: Any, said: Any) -> None:
    fields = {f"k{number}": 1 for number in range(10_000)}
    async with client_of() as client:
        reply = await client.post("/v1/search", json={"query": "x", **fields})
        body = {"query": "x", "documents": [1] * 10_000}
        documents = await client.post("/v1/compress", json=body)
    assert said(reply)["message"].startswith("there is no field 'k0'")
    assert "(1 more)" in said(documents)["message"]


async def test_what_was_sent_is_not_repeated_in_errors(client_of: Any) -> None:
    secret = "sk-very-secret"
    async with client_of() as client:
        reply = await client.post("/v1/search", json={"query": "x", "k": secret})
    assert reply.status_code == 400
    assert secret not in reply.text


async def test_a_header_that_comes_twice_and_decides_is_refused(client_of: Any) -> None:
    headers = [("Content-Type", "application/json"), ("Content-Type", "text/plain")]
    async with client_of() as client:
        reply = await client.post("/v1/search", content=b"{}", headers=headers)
    assert reply.status_code == 400


async def test_unknown_paths_and_methods_are_told_in_the_one_form(
    client_of: Any, said: Any
) -> None:
    async with client_of() as client:
        for method, path, status in (
            ("GET", "/nothing", 404),
            ("GET", "/static/nothing.js", 404),
            ("GET", "/static/../app.py", 404),
            ("GET", "/static/%2e%2e/app.py", 404),
            ("GET", "/v1/search", 405),
            ("PATCH", "/v1/search", 405),
        ):
            reply = await client.request(method, path)
            assert reply.status_code == status, path
            assert said(reply)["type"] in ("not_found", "method_not_allowed")


async def test_every_reply_has_the_headers_that_hold_a_browser_back(client_of: Any) -> None:
    async with client_of() as client:
        for path in ("/v1/models", "/health", "/nothing"):
            headers = (await client.get(path)).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "DENY"
            assert headers["referrer-policy"] == "no-referrer"
            assert "script-src 'self'" in headers["content-security-policy"]
            assert "unsafe" not in headers["content-security-policy"]
            assert "server" not in headers


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "canopy.example"])
def test_a_public_address_without_a_key_is_refused(host: str) -> None:
    config = ServerConfig(host=host)
    with pytest.raises(ConfigError, match="CANOPY_SERVER_API_KEY"):
        check_bind(config, has_key=False)
    check_bind(config, has_key=True)
    check_bind(ServerConfig(host=host, allow_public=True), has_key=False)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.1.2.3"])
def test_this_machine_alone_needs_no_key(host: str) -> None:
    check_bind(ServerConfig(host=host), has_key=False)


def test_the_default_is_this_machine_alone() -> None:
    assert ServerConfig().host == "127.0.0.1"
    assert not ServerConfig().allow_public
    assert not ServerConfig().allow_upload


async def test_no_key_comes_into_the_log(client_of: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("canopy_rag", "canopy_rag.server.access"):
        monkeyed = logging.getLogger(name)
        monkeyed.propagate = True
    async with client_of(key=KEY) as client:
        await client.get("/v1/models", headers=RIGHT)
        await client.get("/v1/models", headers={"Authorization": f"Bearer x{KEY}"})
        await client.get("/v1/models", params={"api_key": KEY})
        await client.get("/v1/models", headers={"X-Api-Key": KEY, "Cookie": f"canopy_8377={KEY}"})
        await client.get("/v1/models", headers={"Host": "evil.example", "User-Agent": KEY})
        await client.post("/v1/session", json={"key": f"{KEY}-wrong"})
        await client.post("/v1/search", json={"query": KEY, "k": KEY}, headers=RIGHT)
    ours = [each for each in caplog.records if each.name.startswith("canopy_rag")]
    assert len(ours) >= 7
    assert all(KEY not in each.getMessage() for each in ours)


async def test_a_path_cannot_forge_a_line_of_the_log(
    client_of: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    logging.getLogger("canopy_rag").propagate = True
    async with client_of() as client:
        await client.get("/v1/items/x%0d%0aINFO%20POST%20/admin%20200")
    access = [each for each in caplog.records if each.name == "canopy_rag.server.access"]
    assert len(access) == 1
    assert "\n" not in access[0].getMessage()
    assert "\r" not in access[0].getMessage()


def test_a_key_in_a_message_or_traceback_is_blotted_out() -> None:
    try:
        raise ValueError(f"Illegal header value b'Bearer {KEY}'")
    except ValueError as error:
        record = logging.LogRecord(
            "canopy_rag", logging.ERROR, "", 0, "failed for %s", (KEY,), (type(error), error, None)
        )
    text = Redacting([Secret(KEY), None], "%(message)s").format(record)
    assert KEY not in text
    assert text.count("****") == 2


async def test_a_fault_is_logged_and_not_told(
    client_of: Any,
    said: Any,
    monkeypatch: pytest.MonkeyPatch,
    index: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    logging.getLogger("canopy_rag").propagate = True

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("/secret/place on the disk")

    monkeypatch.setattr(type(index), "search", broken)
    async with client_of() as client:
        reply = await client.post("/v1/search", json={"query": "coffee"})
    assert reply.status_code == 500
    assert said(reply)["type"] == "internal_error"
    assert said(reply)["message"] == FAULT
    assert "secret" not in reply.text
    assert "/secret/place" in caplog.text
