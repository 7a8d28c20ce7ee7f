"""Replies of chat completions: whole ones and streams of events."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from canopy_rag.llms._errors import AttemptError, check, excerpt


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a reply holds."""

    text: str
    cut: bool
    """Whether it ended at `max_tokens`."""
    prompt_tokens: int | None
    completion_tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One step of a streamed reply."""

    text: str
    """Next piece; may be empty."""
    finish_reason: str | None
    """Why the reply ended; None before."""
    thinks: bool
    """Whether it brought reasoning."""


def parse_json(content: bytes, url: str, secret: str | None) -> dict[str, Any]:
    """Return the JSON object of a reply.

    Raises:
        AttemptError: If it is something else; worth another try if it is JSON that broke off.
    """
    text = content.decode("utf-8", "replace")
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        cut = text.lstrip()[:1] in {"{", "["}
        what = "JSON that does not parse" if cut else "no JSON"
        raise AttemptError(
            f"{url} answered {what}: {excerpt(text, secret) or 'an empty body'}. "
            "Is it the base URL of an OpenAI-compatible API?",
            status=200,
            retryable=cut,
        ) from error
    if not isinstance(parsed, dict):
        raise AttemptError(
            f"{url} answered JSON that is no object: {excerpt(text, secret)}", status=200
        )
    if parsed.get("error"):
        raise error_of(parsed["error"], url, secret)
    return parsed


def error_of(error: Any, url: str, secret: str | None) -> AttemptError:
    """Return the error that a server put into a reply of status 200, or into a stream."""
    code = error.get("code") if isinstance(error, Mapping) else None
    status = code if isinstance(code, int) and not isinstance(code, bool) else None
    message = error.get("message") if isinstance(error, Mapping) else error
    return AttemptError(
        f"{url} answered an error: {excerpt(str(message or error), secret)}",
        status=status,
        retryable=status is not None and (status in {408, 429} or status >= 500),
    )


def parse_reply(content: bytes, url: str, secret: str | None) -> Reply:
    """Return what a chat completion holds.

    Raises:
        AttemptError: If it holds no text.
    """
    parsed = parse_json(content, url, secret)
    choice = _choice(parsed)
    if choice is None:
        raise AttemptError(
            f"{url} answered without `choices`: {excerpt(json.dumps(parsed), secret)}", status=200
        )
    message = _mapping(choice.get("message"))
    thought = ThoughtFilter()
    text = thought.feed(_content(message)) + thought.finish()
    if not text.strip():
        raise no_text(url, choice.get("finish_reason"), thinking=thought.found or _thinks(message))
    usage = _mapping(parsed.get("usage"))
    return Reply(
        text=text,
        cut=choice.get("finish_reason") == "length",
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
    )


def no_text(url: str, finish_reason: Any, *, thinking: bool) -> AttemptError:
    """Return the error of a reply without text."""
    if thinking:
        reason = "only reasoning. Raise max_tokens, or switch the model's thinking off"
    elif finish_reason == "length":
        reason = "nothing within max_tokens. Raise it"
    else:
        reason = f"an empty text (finish_reason {finish_reason!r})"
    return AttemptError(f"{url} answered {reason}", status=200)


class ThoughtFilter:
    """Takes one leading `<think>...</think>` off a reply that comes in pieces."""

    _OPEN, _CLOSE = "<think>", "</think>"

    def __init__(self) -> None:
        self._held = ""
        self._state = "begin"
        self.found = False

    def feed(self, piece: str) -> str:
        """Take the next piece, return what of the answer is certain by now."""
        if self._state == "answer":
            return piece
        self._held += piece
        if self._state == "begin":
            begin = self._held.lstrip()
            if self._OPEN.startswith(begin[: len(self._OPEN)]) and len(begin) < len(self._OPEN):
                return ""
            if not begin.startswith(self._OPEN):
                return self._release(self._held)
            self._state, self.found = "thought", True
        if self._state == "thought":
            _, closed, rest = self._held.partition(self._CLOSE)
            if not closed:
                return ""
            self._state, self._held = "space", rest
        rest = self._held.lstrip()
        return self._release(rest) if rest else ""

    def finish(self) -> str:
        """Return what was held back when the reply ends."""
        return self._held if self._state == "begin" else ""

    def _release(self, text: str) -> str:
        self._state, self._held = "answer", ""
        return text


async def pieces(response: httpx.Response, url: str, secret: str | None) -> AsyncGenerator[str]:
    """Yield the texts of a streamed reply, none of them empty, at least one.

    Args:
        response: The reply, not read yet.
        url: For messages.
        secret: The key, kept out of messages.

    Raises:
        AttemptError: If it is no success, breaks off, or holds no text.
    """
    if not response.is_success:
        await response.aread()
        check(response, url, secret)
    if "json" in response.headers.get("content-type", ""):
        # Some servers answer whole whatever is asked.
        yield parse_reply(await response.aread(), url, secret).text
        return
    thought = ThoughtFilter()
    empty, thinking, reason = True, False, None
    async for event in events(split_lines(response.aiter_bytes()), url, secret):
        thinking = thinking or event.thinks
        reason = event.finish_reason or reason
        if text := thought.feed(event.text):
            empty = empty and not text.strip()
            yield text
    if rest := thought.finish():
        empty = empty and not rest.strip()
        yield rest
    if empty:
        raise no_text(url, reason, thinking=thinking or thought.found)


async def events(lines: AsyncIterator[bytes], url: str, secret: str | None) -> AsyncIterator[Event]:
    """Read a stream of server-sent events.

    Args:
        lines: Its lines, without their ends.
        url: For messages.
        secret: The key, kept out of messages.

    Raises:
        AttemptError: If an event is an error, is no JSON, or the stream ends without its end.
    """
    ended = False
    async for line in lines:
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            return
        choice = _choice(parse_json(data, url, secret))
        if choice is None:
            continue
        delta = _mapping(choice.get("delta"))
        reason = choice.get("finish_reason")
        ended = ended or reason is not None
        yield Event(text=_content(delta), finish_reason=reason, thinks=_thinks(delta))
    if not ended:
        raise AttemptError(f"{url} broke the stream off before its end", retryable=True)


async def split_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    r"""Cut a stream at line feeds only: JSON may hold U+2028, which `splitlines` cuts at too."""
    rest = b""
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.rstrip(b"\r")
    if rest:
        yield rest


def _choice(parsed: Mapping[str, Any]) -> Mapping[str, Any] | None:
    choices = parsed.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
        return choices[0]
    return None


def _content(message: Mapping[str, Any]) -> str:
    """Return the text of a message, which some servers send as parts."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        texts = [_mapping(part).get("text") for part in content]
        return "".join(text for text in texts if isinstance(text, str))
    return ""


def _thinks(message: Mapping[str, Any]) -> bool:
    return bool(message.get("reasoning_content") or message.get("reasoning"))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
