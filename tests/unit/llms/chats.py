"""What the tests of chats share."""

from __future__ import annotations

import socket
from collections.abc import Callable

from canopy_rag.core.protocols import ChatRequest
from canopy_rag.llms.openai_chat import OpenAIChat
from canopy_rag.testing.llm_contract import SCHEMA, ask

KEY = "sk-very-secret"
Make = Callable[..., OpenAIChat]


def dead_url() -> str:
    """Return the URL of a port at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/v1"


def critic(prompt: str = "Enough?") -> ChatRequest:
    return ask(prompt, schema_name="critic", schema=SCHEMA)


async def collected(chat: OpenAIChat, request: ChatRequest | None = None) -> list[str]:
    return [piece async for piece in chat.stream(request or ask("Hello"))]
