"""A chat model that replays a script, and fails on any surprise."""

from __future__ import annotations

import re
import threading
from collections.abc import AsyncIterator, Callable
from types import TracebackType

from canopy_rag.core.errors import CanopyError
from canopy_rag.core.protocols import ChatRequest, Completion


class ScriptedLLM:
    """Replays fixed replies.

    It fails with an `AssertionError` on a prompt that lacks the expected text, on one call too
    many, and, when used as a context manager or asked by `assert_done`, on replies never used.
    Tokens are words and marks, counted exactly.

    Args:
        *steps: Text that the prompt must contain (empty: any prompt), and the reply or the error to
            raise.
        any_order: Each call takes the first step whose text it contains, for calls whose order is
            open; otherwise steps are taken in order.
        name: What it is called.
        context_tokens: Size of its window.
        vision: Whether it takes pictures.
        picture_tokens: What any picture costs; None: it cannot tell.
    """

    def __init__(
        self,
        *steps: tuple[str, str | CanopyError],
        any_order: bool = False,
        name: str = "scripted",
        context_tokens: int | None = 8192,
        vision: bool = False,
        picture_tokens: int | None = None,
    ) -> None:
        self._steps = list(steps)
        self._any_order = any_order
        self._lock = threading.Lock()
        self.name = name
        self.context_tokens = context_tokens
        self.vision = vision
        self._picture_tokens = picture_tokens
        self.calls: list[ChatRequest] = []
        self.closed = False

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer with the script's reply.

        Raises:
            AssertionError: If the script does not expect this call.
            CanopyError: If the script says so.
        """
        return _completion(request, self._reply(request))

    async def stream(
        self, request: ChatRequest, ended: Callable[[Completion], None] | None = None
    ) -> AsyncIterator[str]:
        """Yield the script's reply word by word.

        Raises:
            AssertionError: If the script does not expect this call.
            CanopyError: If the script says so.
        """
        text = self._reply(request)
        for piece in re.findall(r"\s*\S+\s*$|\s*\S+", text):
            yield piece
        if ended is not None:
            ended(_completion(request, text))

    async def count_tokens(self, text: str) -> int | None:
        """Return the number of words and marks."""
        return _count(text)

    async def media_tokens(self, width: int, height: int) -> int | None:
        """Return what any picture costs."""
        return self._picture_tokens

    async def aclose(self) -> None:
        """Note that it was closed."""
        self.closed = True

    def assert_done(self) -> None:
        """Fail if replies are left.

        Raises:
            AssertionError: Naming the texts that no prompt contained.
        """
        if self._steps:
            left = [expected for expected, _ in self._steps]
            raise AssertionError(f"{len(left)} scripted replies were never asked for: {left}")

    def __enter__(self) -> ScriptedLLM:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.assert_done()

    def _reply(self, request: ChatRequest) -> str:
        prompt = prompt_text(request)
        with self._lock:
            self.calls.append(request)
            reply = self._steps.pop(self._step(prompt))[1]
        if isinstance(reply, CanopyError):
            raise reply
        return reply

    def _step(self, prompt: str) -> int:
        if not self._steps:
            raise AssertionError(f"unexpected extra call; its prompt was:\n{prompt}")
        candidates = range(len(self._steps)) if self._any_order else range(1)
        for index in candidates:
            if self._steps[index][0] in prompt:
                return index
        wanted = [self._steps[index][0] for index in candidates]
        raise AssertionError(f"the prompt holds none of {wanted}:\n{prompt}")


class FunctionLLM:
    """Replies what a function of the request says; any number of calls, in any order.

    Tokens are words and marks, counted exactly.

    Args:
        reply: From a request to the reply.
        name: What it is called.
        context_tokens: Size of its window.
    """

    def __init__(
        self,
        reply: Callable[[ChatRequest], str],
        *,
        name: str = "function",
        context_tokens: int | None = 8192,
    ) -> None:
        self._reply = reply
        self._lock = threading.Lock()
        self.name = name
        self.context_tokens = context_tokens
        self.vision = False
        self.calls: list[tuple[ChatRequest, Completion]] = []

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer with what the function says."""
        completion = _completion(request, self._reply(request))
        with self._lock:
            self.calls.append((request, completion))
        return completion

    async def stream(
        self, request: ChatRequest, ended: Callable[[Completion], None] | None = None
    ) -> AsyncIterator[str]:
        """Yield the reply in one piece."""
        completion = await self.complete(request)
        yield completion.text
        if ended is not None:
            ended(completion)

    async def count_tokens(self, text: str) -> int | None:
        """Return the number of words and marks."""
        return _count(text)

    async def media_tokens(self, width: int, height: int) -> int | None:
        """It sees no pictures."""
        return None

    async def aclose(self) -> None:
        """Do nothing: there is no connection."""


def prompt_text(request: ChatRequest) -> str:
    """Return all texts of a request, a line or more each, pictures left out."""
    parts = (part for message in request.messages for part in message.content)
    return "\n".join(part for part in parts if isinstance(part, str))


def _completion(request: ChatRequest, text: str) -> Completion:
    return Completion(
        text=text,
        prompt_tokens=_count(prompt_text(request)),
        completion_tokens=_count(text),
    )


def _count(text: str) -> int:
    return len(re.findall(r"\w+|[^\w\s]", text))
