"""`/v1/search`, `/v1/explain`, `/v1/compress`: evidence without a chat model."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from canopy_rag.api import Compressor
from canopy_rag.core.errors import DataError, EncodeError, StoreError
from canopy_rag.core.evidence import Evidence
from canopy_rag.server.admission import unless_gone
from canopy_rag.server.bodies import CompressBody, ExplainBody, SearchBody
from canopy_rag.server.errors import ApiError
from canopy_rag.server.replies import dumps, json_reply
from canopy_rag.server.service import Service, service_of
from canopy_rag.server.wording import first_problem

router = APIRouter()
Served = Annotated[Service, Depends(service_of)]
_COMPRESS: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": CompressBody.model_json_schema()}},
    }
}


@router.post("/v1/search", summary="One round of refined evidence")
async def search(body: SearchBody, request: Request, service: Served) -> Response:
    """Return the evidence object of one round; no chat model is asked."""

    def work() -> bytes:
        evidence = service.index.search(
            body.asked,
            k=body.k,
            modalities=body.modalities,
            selection=service.selection(body),
        )
        service.metrics.evidence(evidence)
        return dumps(evidence.to_dict())

    return json_reply(
        await unless_gone(request, service.searches.run(work), service.config.server.timeout_s)
    )


@router.post("/v1/explain", summary="The trees of the hits, with similarities and decisions")
async def explain(body: ExplainBody, request: Request, service: Served) -> Response:
    """Return each hit's nodes with similarity and outcome."""

    def work() -> bytes:
        try:
            found = service.index.explain(
                body.asked,
                k=body.k,
                modalities=body.modalities,
                item=body.item,
                selection=service.selection(body),
            )
        except StoreError as error:
            if body.item is not None:
                raise ApiError(404, f"there is no item {body.item!r}") from error
            raise
        items = [each.to_dict(texts=body.texts) for each in found]
        return dumps({"query": body.asked, "items": items})

    workers = service.searches if body.item is None else service.heavy
    return json_reply(
        await unless_gone(request, workers.run(work), service.config.server.timeout_s)
    )


@router.post("/v1/compress", summary="Documents of your own", openapi_extra=_COMPRESS)
async def compress(request: Request, service: Served) -> Response:
    """Return the parts of the caller's documents that the query needs."""
    raw = await request.body()

    def work() -> bytes:
        try:  # here, since a long body takes long to read
            body = CompressBody.model_validate_json(raw)
        except ValidationError as error:
            raise ApiError(400, first_problem(error.errors())) from error
        evidence = _compressed(service, body)
        service.metrics.evidence(evidence)
        return dumps(evidence.to_dict())

    return json_reply(
        await unless_gone(request, service.heavy.run(work), service.config.server.timeout_s)
    )


def _compressed(service: Service, body: CompressBody) -> Evidence:
    """Compress the documents, or only the `k` most similar ones, in the order given."""
    compressor = service.compressor(body)
    try:
        return compressor.compress(body.asked, _chosen(compressor, body))
    except DataError as error:  # the caller's documents, not files of the index
        raise ApiError(400, str(error)) from error


def _chosen(compressor: Compressor, body: CompressBody) -> list[Any]:
    documents: list[Any] = list(body.documents)
    if body.k is None or body.k >= len(documents):
        return documents
    try:
        explained = compressor.explain(body.asked, documents)
    except EncodeError:  # the compressor then returns the documents whole, and says so
        return documents
    best = sorted(explained, key=lambda each: (-each.found.hit.similarity, each.found.hit.rank))
    chosen = sorted(best[: body.k], key=lambda each: each.found.hit.rank)
    return [each.found.item for each in chosen]
