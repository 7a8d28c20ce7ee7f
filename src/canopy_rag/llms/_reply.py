"""Replies of chat completions: whole ones and streams of events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from canopy_rag.llms._errors import AttemptError, Response, check, excerpt, timed_out
from canopy_rag.llms._thoughts import ThoughtFilter

DRAIN_S = 0.5
"""Longest wait for a stream to be over after it said so."""
_LONG = "Does the server keep to max_tokens?"


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
    usage: Mapping[str, Any]
    """Token counts; empty before."""


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


def reply_of(parsed: Mapping[str, Any], url: str, secret: str | None) -> Reply:
    """Return what a chat completion holds.

    Raises:
        AttemptError: If it holds no text.
    """
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
    return _reply(text, choice.get("finish_reason"), _mapping(parsed.get("usage")))


def _reply(text: str, finish_reason: Any, usage: Mapping[str, Any]) -> Reply:
    return Reply(
        text=text,
        cut=finish_reason == "length",
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


@dataclass(slots=True, kw_only=True)
class Streamed:
    """What is known of a streamed reply so far."""

    text: list[str] = field(default_factory=list)
    finish_reason: str | None = None
    thinks: bool = False
    usage: Mapping[str, Any] = field(default_factory=dict)

    def reply(self) -> Reply:
        """Return it as a whole one."""
        return _reply("".join(self.text), self.finish_reason, self.usage)


async def pieces(
    response: Response,
    body: AsyncIterator[bytes],
    told: Streamed,
    *,
    url: str,
    secret: str | None,
    patience_s: float,
    max_events: int,
) -> AsyncGenerator[str]:
    """Yield the texts of a streamed reply, none of them empty, at least one.

    Args:
        response: The reply, not read yet.
        body: Reads it.
        told: Gathers what is yielded, and the rest of what the stream tells.
        url: For messages.
        secret: The key, kept out of messages.
        patience_s: Longest time without an event, whatever else keeps the connection alive.
        max_events: Most events.

    Raises:
        AttemptError: If it is no success, breaks off, stalls, does not end, or holds no text.
    """
    check(response, url, secret)
    lines = Lines(split_lines(body), url, patience_s)
    first = await _first_line(lines)
    if first[:1] in {b"{", b"[", b"<"}:
        # Some servers answer whole whatever is asked.
        content = b"\n".join([first, *[line async for line in lines]])
        whole = parse_json(content, url, secret)
        told.usage = _mapping(whole.get("usage"))
        reply = reply_of(whole, url, secret)
        told.finish_reason = "length" if reply.cut else "stop"
        told.text.append(reply.text)
        yield reply.text
        return
    thought = ThoughtFilter()
    async for event in events(first, lines, url, secret, max_events):
        told.thinks = told.thinks or event.thinks
        told.finish_reason = event.finish_reason or told.finish_reason
        told.usage = event.usage or told.usage
        if text := thought.feed(event.text):
            told.text.append(text)
            yield text
    if rest := thought.finish():
        told.text.append(rest)
        yield rest
    if not "".join(told.text).strip():
        raise no_text(url, told.finish_reason, thinking=told.thinks or thought.found)


class Lines:
    """The lines of a stream, as long as something that counts comes often enough.

    Args:
        lines: Without their ends.
        url: For messages.
        patience_s: Longest time until the first that counts, and between two.
    """

    def __init__(self, lines: AsyncIterator[bytes], url: str, patience_s: float) -> None:
        self._lines = lines
        self._url = url
        self._patience_s = patience_s
        self.heard()

    def heard(self) -> None:
        """Something that counts has come."""
        self._ends = asyncio.get_running_loop().time() + self._patience_s

    def __aiter__(self) -> Lines:
        return self

    async def __anext__(self) -> bytes:
        """Return the next line.

        Raises:
            AttemptError: If too long nothing came that counts, whatever else did.
        """
        try:
            async with asyncio.timeout_at(self._ends):
                return await anext(self._lines)
        except TimeoutError:
            raise timed_out(self._url, self._patience_s) from None


async def events(
    first: bytes, lines: Lines, url: str, secret: str | None, max_events: int
) -> AsyncIterator[Event]:
    """Read a stream of server-sent events.

    The SDK's own reader stops alike at the stream's end and where it was cut, and reads nothing in
    a whole reply.

    Args:
        first: Its first line.
        lines: The others.
        url: For messages.
        secret: The key, kept out of messages.
        max_events: Most events.

    Raises:
        AttemptError: If an event is an error, is no JSON, or the stream stalls, or ends without its
            end, or not at all.
    """
    n_events = 0
    ended = False
    async for line in _chained(first, lines):
        if not line.startswith(b"data:"):
            continue
        lines.heard()
        n_events += 1
        if n_events > max_events:
            raise AttemptError(f"{url} does not end its stream: {max_events} events came. {_LONG}")
        data = line[5:].strip()
        if data == b"[DONE]":
            await _drain(lines)
            return
        parsed = parse_json(data, url, secret)
        choice = _choice(parsed) or {}
        delta = _mapping(choice.get("delta"))
        reason = choice.get("finish_reason")
        ended = ended or reason is not None
        yield Event(
            text=_content(delta),
            finish_reason=reason,
            thinks=_thinks(delta),
            usage=_mapping(parsed.get("usage")),
        )
    if not ended:
        raise AttemptError(f"{url} broke the stream off before its end", retryable=True)


async def _drain(lines: AsyncIterator[bytes]) -> None:
    """Read what little follows the end, so that the connection can be used again."""
    with suppress(TimeoutError, AttemptError):
        async with asyncio.timeout(DRAIN_S):
            async for _ in lines:
                continue


async def split_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    r"""Cut a stream at line feeds only: JSON may hold U+2028, which `splitlines` cuts at too."""
    rest: list[bytes] = []
    async for chunk in chunks:
        head, *tail = chunk.split(b"\n")
        rest.append(head)
        for part in tail:
            yield b"".join(rest).rstrip(b"\r")
            rest = [part]
    if last := b"".join(rest):
        yield last


async def _first_line(lines: AsyncIterator[bytes]) -> bytes:
    """Return the first line that is not blank; empty at the end of the stream."""
    async for line in lines:
        if stripped := line.lstrip():
            return stripped
    return b""


async def _chained(first: bytes, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for line in lines:
        yield line


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
    """Return a number of tokens; none are no number: servers that do not count send zeros."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
