"""`/v1/ask`: answers, whole or as they come."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from canopy_rag.api import Canopy
from canopy_rag.core.answer import Answer, Round
from canopy_rag.core.evidence import Evidence
from canopy_rag.server.admission import unless_gone
from canopy_rag.server.bodies import AskBody
from canopy_rag.server.errors import ApiError
from canopy_rag.server.replies import Emit, EventStream, dumps, event, json_reply
from canopy_rag.server.service import Service, service_of

router = APIRouter()
Served = Annotated[Service, Depends(service_of)]


@router.post("/v1/ask", summary="An answer with citations, evidence and rounds")
async def ask(body: AskBody, request: Request, service: Served) -> Response:
    """Return the answer object, or the events of one on its way."""
    canopy = service.canopy(body)
    timeout_s = service.config.server.timeout_s
    if body.stream:
        return EventStream(
            lambda emit: _events(service, canopy, body, emit),
            failed=_failed,
            slot=service.answers.enter(),
            timeout_s=timeout_s,
        )
    async with service.answers.place():
        answer = await unless_gone(request, canopy.aask(body.asked), timeout_s)
    service.metrics.answer(answer)
    return json_reply(await asyncio.to_thread(_written, answer))


async def _events(service: Service, canopy: Canopy, body: AskBody, emit: Emit) -> None:
    """Emit the rounds if they are wanted, evidence, tokens, and the answer."""

    def tell(each: Round) -> None:
        emit(event("round", dumps(each.to_dict())))

    stream = canopy.astream(body.asked, on_round=tell if body.progress else None)
    async with aclosing(stream) as parts:
        async for part in parts:
            if isinstance(part, str):
                emit(event("token", dumps(part)))
                continue
            # Counting tokens and writing JSON take their time.
            written = await asyncio.to_thread(_written, part)
            if isinstance(part, Answer):
                service.metrics.answer(part)
                emit(event("answer", written))
            else:
                emit(event("evidence", written))


def _written(part: Evidence | Answer) -> bytes:
    return dumps(part.to_dict())


def _failed(error: ApiError) -> bytes:
    return event("error", dumps(error.to_dict()))
