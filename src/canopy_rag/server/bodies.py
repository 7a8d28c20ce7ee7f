"""The bodies of requests. Unknown fields are refused, so that a slip of the pen is told."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

MAX_QUERY_CHARS = 20_000
MAX_K = 100
MAX_ROUNDS = 10
MAX_DOCUMENTS = 2_000


class Body(BaseModel):
    """What all bodies have in common."""

    model_config = ConfigDict(extra="ignore", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _known_fields(cls, data: Any) -> Any:
        """Refuse the first unknown field; pydantic would write an error for each of a million."""
        if isinstance(data, dict):
            for name in data:
                if name not in cls.model_fields:
                    known = ", ".join(sorted(cls.model_fields))
                    raise ValueError(f"there is no field {str(name)[:50]!r}; known: {known}")
        return data


class SelectionBody(Body):
    """What of the hits is shown; a field that is not given is as the server is set up."""

    query: Annotated[str | None, Field(max_length=MAX_QUERY_CHARS)] = None
    """What to look for; `question` is another name of it."""
    question: Annotated[str | None, Field(max_length=MAX_QUERY_CHARS)] = None
    """The same as `query`."""
    k: Annotated[int, Field(ge=1, le=MAX_K)] | None = None
    """Items to retrieve."""
    select: Literal["paper", "set"] | None = None
    """Scope of selection."""
    budget: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Most tokens of evidence."""
    cap: Literal["tail", "margin"] | None = None
    """What goes first over budget."""

    @model_validator(mode="after")
    def _one_query(self) -> SelectionBody:
        given = [each for each in (self.query, self.question) if each is not None]
        if len(given) != 1:
            raise ValueError("give either `query` or `question`")
        if not given[0].strip():
            raise ValueError("the query is empty")
        if any("\ud800" <= char <= "\udfff" for char in given[0]):
            raise ValueError("the query holds half of a surrogate pair")
        return self

    @property
    def asked(self) -> str:
        """The query."""
        return self.query if self.query is not None else self.question or ""


class SearchBody(SelectionBody):
    """`POST /v1/search`."""

    modalities: Annotated[
        list[Literal["text", "table", "image", "video"]] | None,
        Field(min_length=1, max_length=4, fail_fast=True),
    ] = None
    """Only items of these."""


class ExplainBody(SearchBody):
    """`POST /v1/explain`."""

    item: Annotated[str | None, Field(max_length=200)] = None
    """Only the item of this id, whether or not it is among the first `k`."""
    texts: bool = False
    """Put in the words of every node."""


class CompressBody(SelectionBody):
    """`POST /v1/compress`."""

    documents: Annotated[
        list[str | dict[str, Any]], Field(max_length=MAX_DOCUMENTS, fail_fast=True)
    ]
    """Strings, or objects with `text` or `table`."""
    k: Annotated[int, Field(ge=1)] | None = None
    """Only so many documents, the most similar ones; default: all."""
    when: Literal["always", "needed"] | None = None
    """`needed`: refine only what does not fit the budget whole."""
    min_tokens: Annotated[int, Field(ge=0)] | None = None
    """Documents that are no longer together stay whole."""

    @model_validator(mode="after")
    def _no_files(self) -> CompressBody:
        for number, each in enumerate(self.documents, start=1):
            if isinstance(each, dict) and "path" in each:
                raise ValueError(
                    f"document {number} gives a path: the server opens no file that a caller "
                    "names; send the text or table instead"
                )
        return self


class AskBody(SelectionBody):
    """`POST /v1/ask`."""

    rounds: Annotated[int, Field(ge=1, le=MAX_ROUNDS)] | None = None
    """Most retrieval rounds."""
    route: bool | None = None
    """Let the chat model choose the modalities of every query."""
    repeat: Literal["keep", "union"] | None = None
    """A later round finds an item again: keep its regions, or add the new ones."""
    stream: bool = False
    """Reply with events."""
    progress: bool = False
    """While streaming, tell of each round."""


class SessionBody(Body):
    """`POST /v1/session`."""

    key: Annotated[str, Field(max_length=10_000)]
    """The server's key."""


class ChatMessage(BaseModel):
    """A message; of the content only texts are taken."""

    role: str
    content: str | Annotated[list[dict[str, Any]], Field(fail_fast=True)] | None = None


class StreamOptions(BaseModel):
    """How a chat completion is streamed."""

    include_usage: bool = False


class ChatBody(BaseModel):
    """`POST /v1/chat/completions`; fields of OpenAI's that are not here have no effect."""

    model_config = ConfigDict(extra="ignore")

    model: str
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=10_000, fail_fast=True)]
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    n: int | None = 1
    response_format: dict[str, Any] | None = None
    tool_choice: Any = None
