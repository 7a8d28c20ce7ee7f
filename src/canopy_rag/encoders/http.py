"""`http:<url>#<model>`: embeddings from a server, OpenAI's or vLLM's.

Two forms. `text`: strings in batches, as every OpenAI-compatible server takes them; images and
videos are embedded through their text. `chat`: one conversation per request, which vLLM's pooling
server puts into the model's own template, pictures included, with the end on which Qwen3-VL is
pooled. Each node is encoded on its own (P1); with a LoRA adapter that the server
knows by name, items and their queries get the base model's vectors and nodes the adapter's.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NoReturn

import numpy as np

from canopy_rag.core.errors import ConfigError, ModelError
from canopy_rag.core.protocols import Fingerprint, MediaPlace
from canopy_rag.core.types import Item, Modality
from canopy_rag.core.vectors import ItemVectors, NodeVectors, QueryVectors
from canopy_rag.encoders.http_inputs import HttpOptions, Input, Inputs
from canopy_rag.encoders.locate import EmbeddedModel
from canopy_rag.encoders.model import TokenModel
from canopy_rag.encoders.quantize import Floats
from canopy_rag.encoders.remote import EmbeddingServer
from canopy_rag.encoders.remote_reply import ServerError

POOLING = 1
"""Goes up when the same server would give other vectors."""
UNCHANGED = 1e-5
"""Two vectors whose cosine is nearer to one are the same, but for rounding in half precision."""


class HttpEncoder:
    """Encodes queries and items over HTTP, each node on its own.

    Args:
        options: Which server, and how.
        place: Finds the pictures and videos of items; None: by absolute path or `data:` URI.
        dim: Dimensions that every vector must have; None: asked for once.
        api_key: Key of the server.

    Raises:
        ConfigError: If a URL or the key cannot be sent.
    """

    def __init__(
        self,
        options: HttpOptions,
        *,
        place: MediaPlace | None = None,
        dim: int | None = None,
        api_key: str | None = None,
    ) -> None:
        self._options = options
        self._tokens = TokenModel(EmbeddedModel(), threads=1)
        self._inputs = Inputs(options, self._tokens, place)
        self._server = EmbeddingServer(
            options.urls,
            api_key,
            dim=options.dimensions or dim,
            max_in_flight=options.max_in_flight,
            timeout_s=options.timeout_s,
            max_retries=options.max_retries,
            backoff_s=options.backoff_s,
        )

    @property
    def fingerprint(self) -> Fingerprint:
        """What the vectors depend on, as far as one can tell from outside.

        Asks the server for one vector unless the dimension is known.

        Raises:
            ModelError: If it has to ask and gets no answer.
        """
        options = self._options
        revision = f"{'chat' if options.is_chat else 'text'}.{POOLING}"
        if options.max_tokens is not None:
            revision += f".{options.max_tokens}"
        if options.lora is not None:
            revision += f"+lora:{options.lora}"
        return Fingerprint(
            model=f"http:{options.model}",
            revision=revision,
            mode="node",
            instruction=options.query_instruction,
            dim=self._dim(),
        )

    @property
    def media(self) -> frozenset[Modality]:
        """Images and videos in the form `chat`; none in the form `text`."""
        return self._inputs.media

    @property
    def languages(self) -> frozenset[str] | None:
        """Unknown; taken for many."""
        return None

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of `text` by the embedded tokenizer, an estimate (D8)."""
        return len(self._tokens.ids(text))

    def encode_queries(self, queries: Sequence[str]) -> QueryVectors:
        """Encode queries, in order; an over-long one is cut, a blank one read as "NULL".

        Raises:
            EncodeError: If the server fails; `ServerError` if it would for any query, or if its
                adapter changes nothing.
        """
        inputs = [self._inputs.query(query) for query in queries]
        names = [f"query {position}" for position in range(len(queries))]
        retrieval, node = self._both(inputs, inputs, names, names)
        return QueryVectors(retrieval=retrieval, node=node)

    def encode_items(self, items: Sequence[Item]) -> list[ItemVectors]:
        """Encode items and all their nodes, in order; what reads the same is sent once.

        Raises:
            EncodeError: Naming the item that the server refuses or whose picture is broken;
                `ServerError`, which names none, if it would for any item.
        """
        inputs = [self._inputs.node(item, node) for item in items for node in item.nodes]
        names = [item.id for item in items for _ in item.nodes]
        starts = np.cumsum([0, *(len(item.nodes) for item in items)]).tolist()
        roots = [inputs[start] for start in starts[:-1]]
        whole, rows = self._both(roots, inputs, [item.id for item in items], names)
        return [
            ItemVectors(
                item=whole[number],
                nodes=NodeVectors(rows=rows[begin:end].astype(np.float16)),
            )
            for number, (begin, end) in enumerate(pairwise(starts))
        ]

    def _both(
        self,
        retrieval: Sequence[Input],
        nodes: Sequence[Input],
        retrieval_names: Sequence[str],
        node_names: Sequence[str],
    ) -> tuple[Floats, Floats]:
        """Return the vectors by which items are ranked, and those by which nodes are compared."""
        model, tuned = self._options.model, self._options.lora or self._options.model
        wanted: dict[tuple[str, Input], str] = {}
        for by, inputs, names in ((model, retrieval, retrieval_names), (tuned, nodes, node_names)):
            for each, name in zip(inputs, names, strict=True):
                wanted.setdefault((by, each), name)
        found = self._server.vectors(self._inputs.asks(wanted))
        place = {each: position for position, each in enumerate(wanted)}
        rows = np.vstack([np.zeros((0, self._dim()), np.float32), *found])
        if tuned != model:
            self._check_adapter(
                rows,
                [
                    (place[model, each], place[tuned, each])
                    for each in dict.fromkeys(retrieval)
                    if (tuned, each) in place
                ],
            )
        return (
            rows[[place[model, each] for each in retrieval]],
            rows[[place[tuned, each] for each in nodes]],
        )

    def _check_adapter(self, rows: Floats, pairs: Sequence[tuple[int, int]]) -> None:
        """Refuse an adapter that changes none of the vectors: a server may load it in vain.

        Args:
            rows: All vectors.
            pairs: Rows of the same input, by the model and by the adapter.
        """
        if pairs and all(float(rows[one] @ rows[two]) > 1 - UNCHANGED for one, two in pairs):
            raise ServerError(
                f"{self._options.urls[0]}: the adapter {self._options.lora!r} changes no vector; "
                "the server loaded it without effect, as vLLM does when its tensors have other "
                "names than the model's. Use the folder that `canopy train` wrote"
            )

    def _dim(self) -> int:
        """Return the dimension; asks for it if nothing was asked yet."""
        if self._server.dim is None:
            probe = {(self._options.model, self._inputs.query("dimensions")): "dimensions"}
            self._server.vectors(self._inputs.asks(probe))
        if self._server.dim is None:
            raise ModelError(f"the encoder http:{self._options.model} told no dimension")
        return self._server.dim


class Unaddressed:
    """The encoder of an index whose server was not named; it says so when it is asked for vectors.

    An index never says where to send queries and keys: it may come from somebody else.

    Args:
        fingerprint: Of the index.
        media: What it was embedded from.
    """

    def __init__(self, fingerprint: Fingerprint, media: frozenset[Modality]) -> None:
        self.fingerprint = fingerprint
        self.media = media
        self.languages: frozenset[str] | None = None
        self._tokens = TokenModel(EmbeddedModel(), threads=1)

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of `text` by the embedded tokenizer."""
        return len(self._tokens.ids(text))

    def encode_queries(self, queries: Sequence[str]) -> QueryVectors:
        """Raise a `ConfigError` that says how to name the server."""
        self._refuse()

    def encode_items(self, items: Sequence[Item]) -> list[ItemVectors]:
        """Raise a `ConfigError` that says how to name the server."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        model = self.fingerprint.model.removeprefix("http:")
        raise ConfigError(
            f"the index holds vectors of {model!r} on a server, which it does not name; name it "
            f"with --encoder 'http:http://HOST:PORT/v1#{model}', or as encoder.name in canopy.toml"
        )
