from __future__ import annotations

from typing import Any

import pytest

from canopy_rag.server import keys
from canopy_rag.server.keys import MAX_SESSIONS, Sessions

KEY = "a-key-of-the-tests"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


async def test_a_browser_is_asked_for_the_key(client_of: Any) -> None:
    async with client_of(key=KEY) as client:
        reply = await client.get("/")
    assert reply.status_code == 401
    # Otherwise a browser sends the form with `Origin: null`, which no server takes.
    assert reply.headers["referrer-policy"] == "same-origin"
    assert reply.headers["content-type"].startswith("text/html")
    assert '<form method="post" action="/v1/session">' in reply.text
    assert "<script" not in reply.text


async def test_signing_in_by_the_form_opens_pages_and_media(client_of: Any) -> None:
    async with client_of(key=KEY) as client:
        reply = await client.post("/v1/session", content=f"key={KEY}", headers=FORM)
        models = await client.get("/v1/models")
        search = await client.post("/v1/search", json={"query": "coffee"})
    assert (reply.status_code, reply.headers["location"]) == (303, "/")
    cookie = reply.headers["set-cookie"].lower()
    assert cookie.startswith("canopy_8377=")
    for word in ("httponly", "samesite=strict", "path=/", "max-age=43200"):
        assert word in cookie
    assert KEY not in cookie
    assert (models.status_code, search.status_code) == (200, 200)


async def test_signing_in_with_json_and_out_again(client_of: Any) -> None:
    async with client_of(key=KEY) as client:
        assert (await client.post("/v1/session", json={"key": KEY})).status_code == 204
        token = client.cookies["canopy_8377"]
        assert (await client.get("/v1/models")).status_code == 200
        assert (await client.delete("/v1/session")).status_code == 204
        again = await client.get("/v1/models", headers={"Cookie": f"canopy_8377={token}"})
    assert again.status_code == 401


@pytest.mark.parametrize("key", ["", "wrong", KEY + "x", "\x00"])
async def test_a_wrong_key_opens_no_session(client_of: Any, said: Any, key: str) -> None:
    async with client_of(key=KEY) as client:
        by_json = await client.post("/v1/session", json={"key": key})
        by_form = await client.post("/v1/session", content=f"key={key}", headers=FORM)
    assert by_json.status_code == 401
    said(by_json)
    assert by_form.status_code == 401
    assert "This is not the key." in by_form.text
    assert "set-cookie" not in {*by_json.headers, *by_form.headers}


async def test_a_page_of_another_origin_signs_nobody_in(client_of: Any) -> None:
    async with client_of(key=KEY, headers={"Origin": "http://evil.example"}) as client:
        reply = await client.post("/v1/session", content=f"key={KEY}", headers=FORM)
    assert reply.status_code == 403


async def test_a_cookie_that_is_no_session_opens_nothing(client_of: Any) -> None:
    async with client_of(key=KEY) as client:
        for value in ("x", "", KEY, "a=b; c", '"'):
            headers = {"Cookie": f"canopy_8377={value}"}
            assert (await client.get("/v1/models", headers=headers)).status_code == 401


@pytest.mark.parametrize("other", ['prefs={"a": 1}', "a b=c", 'x="', "=;;", "naïve=ü"])
async def test_cookies_of_other_programs_do_not_sign_anybody_out(
    client_of: Any, other: str
) -> None:
    async with client_of(key=KEY) as client:
        await client.post("/v1/session", json={"key": KEY})
        own = f"canopy_8377={client.cookies['canopy_8377']}"
        client.cookies.clear()
        for cookies in (f"{other}; {own}", f"{own}; {other}"):
            reply = await client.get("/v1/models", headers={"Cookie": cookies.encode()})
            assert reply.status_code == 200, cookies


async def test_a_wrong_key_beside_a_session_is_a_wrong_key(client_of: Any) -> None:
    async with client_of(key=KEY) as client:
        await client.post("/v1/session", json={"key": KEY})
        reply = await client.get("/v1/models", headers={"Authorization": "Bearer wrong"})
    assert reply.status_code == 401


def test_a_session_expires() -> None:
    now = 100.0
    sessions = Sessions(60, clock=lambda: now)
    token = sessions.open()
    now = 159.9
    assert sessions.holds(token)
    now = 160.0
    assert not sessions.holds(token)


def test_sessions_do_not_pile_up() -> None:
    now = 0.0
    sessions = Sessions(60, clock=lambda: now)
    first = sessions.open()
    now = 1.0
    tokens = [sessions.open() for _ in range(MAX_SESSIONS)]
    assert not sessions.holds(first)
    assert all(sessions.holds(token) for token in tokens)
    now = 100.0
    sessions.open()
    assert len(sessions._ends) == 1


def test_a_token_is_kept_as_its_hash_alone() -> None:
    sessions = Sessions(60)
    token = sessions.open()
    assert token.encode() not in repr(sessions._ends).encode()
    assert list(sessions._ends) == [keys._digest(token.encode())]
