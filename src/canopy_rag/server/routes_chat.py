"""`/v1/chat/completions` and `/v1/models`: OpenAI's API over the index."""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from canopy_rag.core.answer import Answer
from canopy_rag.server.admission import unless_gone
from canopy_rag.server.bodies import MAX_QUERY_CHARS, AskBody, ChatBody
from canopy_rag.server.errors import ApiError
from canopy_rag.server.replies import Emit, EventStream, dumps, json_reply
from canopy_rag.server.service import Service, service_of
from canopy_rag.server.wording import first_problem

router = APIRouter()
Served = Annotated[Service, Depends(service_of)]
MODEL = "canopy"
ALIASES = frozenset({MODEL, "canopy-rag"})


@router.get("/v1/models", summary="The one model")
async def models() -> dict[str, Any]:
    """Return the list of models."""
    return {"object": "list", "data": [_model()]}


@router.get("/v1/models/{model}", summary="The model")
async def model(model: str) -> dict[str, Any]:
    """Return the model of a name."""
    _check_model(model)
    return _model()


@router.post("/v1/chat/completions", summary="OpenAI-compatible chat over the index")
async def chat(body: ChatBody, request: Request, service: Served) -> Response:
    """Answer the last user message over the index."""
    _check_model(body.model)
    question = asked(body)
    canopy = service.canopy(_ask_body(question))
    timeout_s = service.config.server.timeout_s
    if not body.stream:
        async with service.answers.place():
            answer = await unless_gone(request, canopy.aask(question), timeout_s)
        service.metrics.answer(answer)
        return json_reply(await asyncio.to_thread(lambda: dumps(_completion(answer))))

    async def chunks(emit: Emit) -> None:
        head = _head("chat.completion.chunk")
        usage = bool(body.stream_options and body.stream_options.include_usage)
        opened = False
        stream = canopy.astream(question)
        async with aclosing(stream) as parts:
            async for part in parts:
                if isinstance(part, Answer):
                    service.metrics.answer(part)
                    for chunk in await asyncio.to_thread(_last, head, part, usage=usage):
                        emit(chunk)
                elif isinstance(part, str):
                    delta = {"content": part} if opened else {"role": "assistant", "content": part}
                    opened = True
                    emit(_data({**head, "choices": [_choice(delta, None)]}))

    return EventStream(
        chunks,
        failed=lambda error: _data(error.to_dict()),
        slot=service.answers.enter(),
        timeout_s=timeout_s,
        waits=True,
    )


def asked(body: ChatBody) -> str:
    """Return the last user message's words.

    Raises:
        ApiError: If there is none, it is no text, or something is asked for that there is not.
    """
    if body.n not in (None, 1):
        raise ApiError(400, "`n` must be 1: there is one answer to a question")
    kind = (body.response_format or {}).get("type", "text")
    if kind != "text":
        raise ApiError(400, f"`response_format` {str(kind)[:50]!r} is not possible; leave it out")
    if body.tool_choice not in (None, "none", "auto"):
        raise ApiError(400, "`tool_choice` must be `none` or `auto`: no tool is ever called")
    said = [each for each in body.messages if each.role == "user"]
    if not said:
        raise ApiError(400, "there is no user message; the last one is the question")
    question = _words(said[-1].content)
    if not question.strip():
        raise ApiError(400, "the last user message is empty")
    if len(question) > MAX_QUERY_CHARS:
        raise ApiError(400, f"the last user message is longer than {MAX_QUERY_CHARS} characters")
    return question


def _ask_body(question: str) -> AskBody:
    try:
        return AskBody(question=question)
    except ValidationError as error:  # such as half of a surrogate pair, which JSON can hold
        problem = first_problem(error.errors(include_input=False))
        raise ApiError(400, f"the last user message cannot be asked: {problem}") from error


def _words(content: str | list[dict[str, Any]] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    for part in content:
        if part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise ApiError(
                400, "only text can be asked; pictures and addresses in messages are not opened"
            )
    return "\n".join(part["text"] for part in content)


def _check_model(name: str) -> None:
    if name not in ALIASES:
        raise ApiError(404, f"there is no model {name[:100]!r}; the one here is {MODEL!r}")


def _model() -> dict[str, Any]:
    return {"id": MODEL, "object": "model", "created": 0, "owned_by": "canopy-rag"}


def _head(kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{secrets.token_hex(12)}",
        "object": kind,
        "created": int(time.time()),
        "model": MODEL,
    }


def _choice(delta: dict[str, Any], reason: str | None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}


def _usage(answer: Answer) -> dict[str, int]:
    usage = answer.usage
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def _trace(answer: Answer) -> dict[str, Any]:
    """Return the answer object without its text, which the message has."""
    return {name: value for name, value in answer.to_dict().items() if name != "text"}


def _completion(answer: Answer) -> dict[str, Any]:
    message = {"role": "assistant", "content": answer.text, "refusal": None}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    return {
        **_head("chat.completion"),
        "choices": [choice],
        "usage": _usage(answer),
        "canopy": _trace(answer),
    }


def _last(head: dict[str, Any], answer: Answer, *, usage: bool) -> list[bytes]:
    """Return the chunks that end a stream."""
    end = {**head, "choices": [_choice({}, "stop")], "canopy": _trace(answer)}
    chunks = [_data(end)]
    if usage:
        chunks.append(_data({**head, "choices": [], "usage": _usage(answer)}))
    return [*chunks, b"data: [DONE]\n\n"]


def _data(document: dict[str, Any]) -> bytes:
    return b"data: " + dumps(document) + b"\n\n"
