"""What compressing ten retrieved items costs, beside what frameworks put behind a retriever.

Passages of the Natural Questions sample, as they are (about four sentences) and put together to
items of sixteen. Ten of them are retrieved for each question; every way of compression gets the
same items, cut into the same sentences, and the same network in the same onnxruntime session. Ways
that take milliseconds take turns among themselves, and so do those that take hundreds, which would
leave a cold cache behind. Writes `benchmarks/results/compress.json`.

Needs the extra `peers`; with sentence-transformers installed, LangChain and LlamaIndex are also run
on that, as they are by default.
"""

from __future__ import annotations

import importlib.util
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import documents
import numpy as np
from peers import Texts, Watch, network, sentence_transformer
from samples import PoolStore, machine, parser, require, write
from vectors import encoded

from canopy_rag.api import Compressor
from canopy_rag.api.budgets import fitted, with_budget
from canopy_rag.config import SelectConfig
from canopy_rag.core.coding import Precision
from canopy_rag.core.coding import stored as as_stored
from canopy_rag.core.evidence import Evidence, Meter
from canopy_rag.core.node_text import leaf_texts, node_text
from canopy_rag.core.protocols import Encoder, Found
from canopy_rag.core.select import select
from canopy_rag.core.types import Item
from canopy_rag.core.vectors import QueryVectors
from canopy_rag.datasets.frozen import standard_split
from canopy_rag.encoders.minilm import MiniLM
from canopy_rag.encoders.model import TokenModel
from canopy_rag.encoders.registry import encoder as named_encoder
from canopy_rag.pipeline.compressor import Explained, add_round, explain

Embed = Callable[[Sequence[str]], Any]
"""Texts to unit vectors."""
K = 10
PRECISION: Precision = "int4"
"""Of the stored vectors of nodes: what an index has unless told otherwise."""
SELECTION = with_budget(SelectConfig())
LIMIT_SPEEDUP = 50.0
"""From stored vectors this many times as fast as either framework."""
LIMIT_TOTAL = 1.3
"""With the query's embedding at most this many times as long as the embedding alone."""
STORED, WITH_QUERY, AD_HOC = "stored vectors", "stored vectors, query embedded", "ad hoc"
QUERY, PER_NODE = "the query alone", "each node on its own"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """A query with what was retrieved for it."""

    query: str
    vectors: QueryVectors
    found: list[Found]
    sentences: list[list[str]]
    """Of each item, those with words."""


@dataclass(slots=True)
class Way:
    """One way to compress; what it returns is what a reader would get."""

    run: Callable[[Case], str]
    tokens: list[int] = field(default_factory=list)
    """Of the evidence of each query."""
    encoded: list[int] = field(default_factory=list)
    """That the encoder read for each query."""


def stored(encoder: Encoder, case: Case, vectors: QueryVectors) -> str:
    """Return what a search shows of its hits."""
    explained = explain(case.found, vectors.of(0), SELECTION.over("set"))
    evidence = Evidence(meter=Meter(count=encoder.count_tokens))
    return fitted(add_round(evidence, explained, case.query, SELECTION), SELECTION).text


def per_node(encoder: Encoder, embed: Embed, case: Case) -> str:
    """Return the same selection after encoding each node on its own, without late pooling."""
    items = [each.item for each in case.found]
    texts = [node_text(item, node) for item in items for node in item.nodes]
    rows = np.asarray(embed([case.query, *texts]), np.float32)
    values = rows[1:] @ rows[0]
    ends = np.cumsum([len(item.nodes) for item in items])
    similarities = np.split(values, ends[:-1])
    scored = [(item.nodes, own) for item, own in zip(items, similarities, strict=True)]
    explained = [
        Explained(found=found, similarities=own, refinement=refinement)
        for found, own, refinement in zip(
            case.found, similarities, select(scored, "set"), strict=True
        )
    ]
    evidence = Evidence(meter=Meter(count=encoder.count_tokens))
    return fitted(add_round(evidence, explained, case.query, SELECTION), SELECTION).text


def langchain(embed: Embed, k: int = 20) -> Callable[[Case], str]:
    """Return LangChain's `EmbeddingsFilter` with its default k, over sentences."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from langchain_classic.retrievers.document_compressors import EmbeddingsFilter
        from langchain_core.documents import Document
        from langchain_core.embeddings import Embeddings

    class Shared(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return embed(texts).tolist()

        def embed_query(self, text: str) -> list[float]:
            return embed([text])[0].tolist()

    compressor = EmbeddingsFilter(embeddings=Shared(), k=k)

    def run(case: Case) -> str:
        pieces = [Document(page_content=text) for own in case.sentences for text in own]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kept = compressor.compress_documents(pieces, case.query)
        return "\n\n".join(each.page_content for each in kept)

    return run


def llamaindex(embed: Embed) -> Callable[[Case], str]:
    """Return LlamaIndex's `SentenceEmbeddingOptimizer`: half of each item's sentences.

    It embeds item by item. The query's embedding is handed to it, as its retriever does.
    """
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.postprocessor import SentenceEmbeddingOptimizer
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

    async def aquery(_: Any, query: str) -> list[float]:
        return embed([query])[0].tolist()

    shared: Any = type(
        "Shared",
        (BaseEmbedding,),
        {
            "__module__": __name__,
            "_get_query_embedding": lambda _, query: embed([query])[0].tolist(),
            "_aget_query_embedding": aquery,
            "_get_text_embedding": lambda _, text: embed([text])[0].tolist(),
            "_get_text_embeddings": lambda _, texts: embed(texts).tolist(),
        },
    )()

    def run(case: Case) -> str:
        optimizer = SentenceEmbeddingOptimizer(
            embed_model=shared,
            percentile_cutoff=0.5,
            tokenizer_fn=lambda place: case.sentences[int(place)],
        )
        nodes = [
            NodeWithScore(node=TextNode(text=str(place)))
            for place, own in enumerate(case.sentences)
            if own
        ]
        bundle = QueryBundle(query_str=case.query, embedding=case.vectors.retrieval[0].tolist())
        left = optimizer.postprocess_nodes(nodes, bundle)
        return "\n\n".join(each.node.get_content() for each in left)

    return run


def ways(encoder: MiniLM, texts: Embed, transformer: Embed | None) -> dict[str, Way]:
    """Return what is compared, by name; without sentence-transformers, what goes without."""
    compressor = Compressor(encoder, select="set")

    def with_query(case: Case) -> str:
        return stored(encoder, case, encoder.encode_queries([case.query]))

    def query_alone(case: Case) -> str:
        encoder.encode_queries([case.query])
        return ""

    made: dict[str, Callable[[Case], str]] = {
        QUERY: query_alone,
        STORED: lambda case: stored(encoder, case, case.vectors),
        WITH_QUERY: with_query,
        AD_HOC: lambda case: (
            compressor.compress(case.query, [each.item for each in case.found]).text
        ),
        PER_NODE: lambda case: per_node(encoder, texts, case),
        "LangChain EmbeddingsFilter": langchain(texts),
        "LlamaIndex SentenceEmbeddingOptimizer": llamaindex(texts),
    }
    if transformer is not None:
        made["LangChain, on sentence-transformers"] = langchain(transformer)
        made["LlamaIndex, on sentence-transformers"] = llamaindex(transformer)
    return {name: Way(run) for name, run in made.items()}


def cases(encoder: MiniLM, items: Sequence[Item], questions: Sequence[str]) -> list[Case]:
    """Retrieve the items of each question."""
    store = PoolStore(encoder.fingerprint, items, encoded(items, "minilm"))
    made = []
    for question in questions:
        vectors = encoder.encode_queries([question])
        found = [
            replace(each, nodes=replace(each.nodes, rows=as_stored(each.nodes.rows, PRECISION)))
            for each in store.search(vectors.retrieval[0], K)
        ]
        sentences = [[text for text in leaf_texts(each.item) if text.strip()] for each in found]
        made.append(Case(query=question, vectors=vectors, found=found, sentences=sentences))
    return made


class Counter:
    """Counts what the network reads: of its own session, and of texts handed to another runtime."""

    def __init__(self, model: TokenModel, elsewhere: list[Sequence[str]]) -> None:
        self._model, self._elsewhere, self._n_tokens = model, elsewhere, 0
        own = type(model).states

        def states(sequences: Sequence[Sequence[int]]) -> Any:
            self._n_tokens += sum(map(len, sequences))
            return own(model, sequences)

        model.states = states  # type: ignore[method-assign]

    def take(self) -> int:
        """Return the tokens since the last time, with the two marks of each sequence."""
        texts = [text for own in self._elsewhere for text in own]
        n_tokens = self._n_tokens + sum(len(self._model.ids(text)) + 2 for text in texts)
        self._elsewhere.clear()
        self._n_tokens = 0
        return n_tokens


def measure(
    encoder: MiniLM, every: dict[str, Way], asked: Sequence[Case], counter: Counter
) -> dict[str, Any]:
    """Return each way's medians over the queries, ways in turns."""
    quick = [QUERY, WITH_QUERY, STORED]  # as a search has them: the embedding before the rest
    slow = [name for name in every if name not in quick]
    watch = Watch()
    for names in (quick, slow):
        for number, case in enumerate([*asked[:2], *asked]):  # two to warm up
            first = number % len(names) if names is slow else 0
            for name in names[first:] + names[:first]:
                counter.take()
                text = watch.time(name, partial(every[name].run, case), keep=number >= 2)
                if number >= 2:
                    every[name].encoded.append(counter.take())
                    every[name].tokens.append(encoder.count_tokens(text))
    rows = {
        name: {
            "ms": round(1000 * watch.median(name), 3),
            "encoder_tokens": float(np.mean(way.encoded)),
            "evidence_tokens": float(np.mean(way.tokens)),
        }
        for name, way in every.items()
    }
    query = watch.median(QUERY)
    frameworks = slow[slow.index("LangChain EmbeddingsFilter") :]
    return {
        "queries": len(asked),
        "sentences": float(np.mean([sum(map(len, case.sentences)) for case in asked])),
        "item_tokens": float(
            np.mean(
                [sum(encoder.count_tokens(t) for own in c.sentences for t in own) for c in asked]
            )
        ),
        "rows": rows,
        "stored_speedup": {
            name: round(watch.median(name) / watch.median(STORED), 1) for name in frameworks
        },
        "ad_hoc_speedup": {
            name: round(watch.median(name) / watch.median(AD_HOC), 2) for name in frameworks
        },
        "total_to_query": round(watch.median(WITH_QUERY) / query, 2),
    }


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--queries", type=int, default=60)
    made.add_argument("--threads", type=int, default=1, help="of one forward pass, everywhere")
    arguments = made.parse_args()
    for package in ("langchain_classic", "langchain_community", "llama_index"):
        if importlib.util.find_spec(package) is None:
            print(f"skipped: needs {package}, of the extra `peers`; its result stays as it is")
            return
    data = require(arguments.data, "nq")
    loaded = documents.natural_questions(data)
    wanted = set(standard_split(loaded).test)
    questions = [each.text for each in loaded.questions if each.id in wanted]
    encoder = named_encoder("minilm", threads=arguments.threads)
    assert isinstance(encoder, MiniLM)
    model = network(encoder)
    result: dict[str, Any] = {
        "what": "compressing 10 retrieved items, medians over queries, ways in turns",
        "threads": arguments.threads,
        "limits": {"stored_speedup": LIMIT_SPEEDUP, "total_to_query": LIMIT_TOTAL},
        "llmlingua": "not run: its weights are not at hand",
        **machine(),
        "groups": {},
    }
    with tempfile.TemporaryDirectory() as folder:
        seen: list[Sequence[str]] = []
        embed = None
        if importlib.util.find_spec("sentence_transformers") is not None:
            transformer = sentence_transformer(encoder, Path(folder) / "st", arguments.threads)

            def embed(texts: Sequence[str]) -> Any:
                seen.append(texts)
                return transformer.encode(list(texts), show_progress_bar=False)

        groups = {
            "passages": list(loaded.items()),
            "items of 16 sentences": list(documents.of_leaves(documents.texts(loaded), 16)),
        }
        for name, items in groups.items():
            asked = cases(encoder, items, questions[: arguments.queries])
            every = ways(encoder, Texts(model), embed)
            result["groups"][name] = measure(encoder, every, asked, Counter(model, seen))
            tell(name, result["groups"][name])
    write("compress", result)


def tell(name: str, group: dict[str, Any]) -> None:
    """Print one group."""
    print(name)
    for way, row in group["rows"].items():
        print(
            f"  {way:40} {row['ms']:9.2f} ms {row['encoder_tokens']:7.0f} encoder tokens "
            f"{row['evidence_tokens']:6.0f} evidence tokens"
        )
    print(f"  stored {group['stored_speedup']}, ad hoc {group['ad_hoc_speedup']}")
    print(f"  with the query {group['total_to_query']}")


if __name__ == "__main__":
    main()
