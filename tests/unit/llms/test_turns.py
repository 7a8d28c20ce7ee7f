"""How many requests there may be at once, at a server, and waiting."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.llms.chats import Make

from canopy_rag.core.errors import LLMError
from canopy_rag.llms._replicas import Replica, Replicas
from canopy_rag.llms._turns import Turns
from canopy_rag.testing.chat_server import ChatServer, Served, echoes, refuses
from canopy_rag.testing.llm_contract import ask

A_FEW = 5
"""Turns of the event loop in which all that can happen has."""


async def turned() -> None:
    for _ in range(A_FEW):
        await asyncio.sleep(0)


async def test_a_full_server_is_waited_for_first_come_first_served() -> None:
    replicas = Replicas(["http://a"], most_each=1)
    (only,) = replicas.all
    assert await replicas.take([]) is only
    done: list[int] = []

    async def wait(number: int) -> None:
        await replicas.take([])
        done.append(number)

    tasks = [asyncio.create_task(wait(number)) for number in range(3)]
    await turned()
    assert done == []
    for n_done in (1, 2, 3):
        replicas.give_back(only, failed=False)
        await turned()
        assert (done, only.in_flight) == (list(range(n_done)), 1)
    await asyncio.gather(*tasks)


async def test_one_that_is_full_is_waited_for_rather_than_asking_one_that_rests() -> None:
    replicas = Replicas(["http://a", "http://b"], most_each=1)
    first, second = replicas.all
    await replicas.take([second])
    replicas.give_back(first, failed=True)
    assert await replicas.take([]) is second
    waiting = asyncio.create_task(replicas.take([]))
    await turned()
    assert not waiting.done()
    replicas.give_back(second, failed=False)
    assert await waiting is second


async def test_one_that_waits_in_vain_holds_up_nobody_behind_it() -> None:
    replicas = Replicas(["http://a", "http://b"], most_each=1)
    first, second = replicas.all
    for _ in replicas.all:
        await replicas.take([])
    for_second = asyncio.create_task(replicas.take([first]))
    for_any = asyncio.create_task(replicas.take([]))
    await turned()
    replicas.give_back(first, failed=False)
    await turned()
    assert (for_second.done(), for_any.done()) == (False, True)
    replicas.give_back(second, failed=False)
    assert await for_second is second


async def test_who_gives_up_waiting_takes_no_place() -> None:
    replicas = Replicas(["http://a"], most_each=1)
    only: Replica = await replicas.take([])
    early, late = (asyncio.create_task(replicas.take([])) for _ in range(2))
    await turned()
    early.cancel()
    await turned()
    replicas.give_back(only, failed=False)
    late.cancel()  # in the very moment in which it is given the place
    await asyncio.gather(early, late, return_exceptions=True)
    await turned()
    assert only.in_flight == 0
    assert await replicas.take([]) is only


async def test_a_loop_that_was_closed_takes_no_place() -> None:
    replicas = Replicas(["http://a"], most_each=1)
    only: Replica = await replicas.take([])

    def waits_and_is_closed() -> None:
        loop = asyncio.new_event_loop()
        task = loop.create_task(replicas.take([]))
        loop.run_until_complete(turned())
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        loop.close()

    await asyncio.to_thread(waits_and_is_closed)
    replicas.give_back(only, failed=False)
    assert only.in_flight == 0


async def test_more_than_may_wait_are_sent_away_at_once() -> None:
    turns = Turns(1, max_waiting=1)
    released = asyncio.Event()

    async def hold() -> None:
        async with turns.turn():
            await released.wait()

    tasks = [asyncio.create_task(hold()) for _ in range(2)]
    await turned()
    with pytest.raises(LLMError, match="1 requests wait for the chat model") as caught:
        async with turns.turn():
            pass
    assert (caught.value.status, caught.value.retryable) == (429, True)
    released.set()
    await asyncio.gather(*tasks)
    async with turns.turn():
        pass


async def test_no_server_gets_more_than_its_share(make: Make) -> None:
    with (
        ChatServer(then=lambda _: Served(hangs=True)) as first,
        ChatServer(then=lambda _: Served(hangs=True)) as second,
    ):
        chat = make(first, second, max_in_flight=32, max_per_server=3)
        calls = [asyncio.create_task(chat.complete(ask(f"call {n}"))) for n in range(12)]
        for server in (first, second):
            await asyncio.to_thread(server.wait_for, 3)
        assert (len(first.chats), len(second.chats)) == (3, 3)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        assert (first.peak, second.peak) == (3, 3)


async def test_a_server_that_is_busy_without_saying_for_how_long_is_left_out(make: Make) -> None:
    """It answers at once, so the fewest requests in flight would send it nearly all."""
    with ChatServer(then=lambda _: refuses(429, "busy")) as busy, ChatServer(then=echoes) as well:
        chat = make(busy, well, max_in_flight=4)
        said = await asyncio.gather(*(chat.complete(ask(f"call {n}")) for n in range(40)))
        assert [each.text for each in said] == [f"you said: call {n}" for n in range(40)]
        assert len(busy.chats) <= 8
