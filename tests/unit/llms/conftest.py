"""Chats that are closed after each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.unit.llms.chats import Make

from canopy_rag.llms.openai_chat import OpenAIChat
from canopy_rag.testing.chat_server import ChatServer


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    """Make chats without pauses between attempts, and close them."""
    made: list[OpenAIChat] = []

    def make(*servers: ChatServer | str, **options: object) -> OpenAIChat:
        urls = [each if isinstance(each, str) else each.url for each in servers]
        defaults = {"model": "m", "backoff_s": 0.0, "timeout_s": 20.0}
        made.append(OpenAIChat(urls, **(defaults | options)))
        return made[-1]

    yield make
    for each in made:
        await each.aclose()
