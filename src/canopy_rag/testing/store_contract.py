"""What every store promises, as tests: inherit `StoreContract` and say how a store is made."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from canopy_rag.core.coding import dense
from canopy_rag.core.errors import StoreError
from canopy_rag.core.protocols import Entry, Fingerprint, Store, StoreWriter
from canopy_rag.core.trees import image_tree, table_tree, text_tree, video_tree
from canopy_rag.core.types import (
    ImagePayload,
    Item,
    Modality,
    Payload,
    Segment,
    Source,
    SourceSpan,
    TablePayload,
    TextPayload,
    VideoPayload,
    item_id,
)
from canopy_rag.core.vectors import ItemVectors, leaf_intervals, pool, similarities

DIM = 8
FINGERPRINT = Fingerprint(model="fake", revision="1", mode="late", instruction="", dim=DIM)


def unit(*numbers: float) -> NDArray[np.float32]:
    """Return a unit vector that begins with `numbers`, zeros behind."""
    vector = np.zeros(DIM, np.float32)
    vector[: len(numbers)] = numbers
    return vector / np.float32(np.linalg.norm(vector))


def make_item(
    uri: str, ordinal: int = 0, modality: Modality = "text", *, corpus: str = "main", text: str = ""
) -> Item:
    """Return a small item of any modality."""
    body = text or f"First of {uri}. Second, number {ordinal}."
    nodes: dict[Modality, tuple[Any, Payload]] = {
        "text": (
            text_tree(len(body), [[(0, len(body) // 2), (len(body) // 2, len(body))]], (), 2),
            TextPayload(text=body),
        ),
        "table": (
            table_tree(3),
            TablePayload(header=("a", "b"), rows=(("1", "x"), ("2", "y"), ("3", "")), caption=body),
        ),
        "image": (image_tree(), ImagePayload(media=uri, width=4, height=3, caption=body)),
        "video": _video(uri, body),
    }
    tree, payload = nodes[modality]
    spans = (SourceSpan(start=0, stop=5, char=(10, 15)),)
    source = Source(uri=uri, ordinal=ordinal, spans=spans if modality == "text" else ())
    return Item(
        id=item_id(uri, ordinal),
        modality=modality,
        title=f"Title of {uri}",
        payload=payload,
        nodes=tree,
        source=source,
        section=("Part", "Chapter"),
        corpus=corpus,
    )


def make_entry(item: Item, vector: NDArray[np.float32]) -> Entry:
    """Return an entry whose node vectors are late-pooled from `vector` and a fixed pattern."""
    n_leaves = int(leaf_intervals(item.nodes)[0, 1])
    leaves = np.tile(vector, (n_leaves, 1)) + np.eye(n_leaves, DIM, dtype=np.float32)
    nodes = pool(item.nodes, leaves, [3] * n_leaves, vector, 2)
    return Entry(item=item, vectors=ItemVectors(item=vector, nodes=nodes), source_sha256="0" * 64)


class StoreContract:
    """Tests of `Store` and `StoreWriter`, for pytest.

    A subclass sets `make`, which returns an empty store for `FINGERPRINT`.
    """

    item_tolerance = 1e-6
    """How far a hit's similarity may lie from that of the vectors that were written."""
    node_tolerance = 1e-6
    """The same for similarities of nodes; more for a store that keeps them in few bits."""

    def make(self, tmp_path: Any) -> Any:
        """Return an empty store."""
        raise NotImplementedError

    def filled(self, tmp_path: Any, entries: Sequence[Entry]) -> Any:
        """Return a store that holds `entries`."""
        store = self.make(tmp_path)
        store.replace({entry.item.source.uri for entry in entries}, entries)
        return store

    def test_it_is_a_store_and_a_writer(self, tmp_path: Any) -> None:
        """Both protocols are met."""
        store = self.make(tmp_path)
        assert isinstance(store, Store)
        assert isinstance(store, StoreWriter)

    def test_an_empty_store_finds_nothing(self, tmp_path: Any) -> None:
        """No error, no hits."""
        store = self.make(tmp_path)
        assert store.search(unit(1), 10) == []
        assert store.sources() == {}

    def test_items_come_back_as_they_were_with_trees_and_vectors(self, tmp_path: Any) -> None:
        """Every modality; whole numbers stay whole."""
        modalities: tuple[Modality, ...] = ("text", "table", "image", "video")
        entries = [
            make_entry(make_item(f"{modality}/é'\".x", 3, modality), unit(1, n))
            for n, modality in enumerate(modalities)
        ]
        found = {
            each.item.modality: each for each in self.filled(tmp_path, entries).search(unit(1), 9)
        }
        for entry in entries:
            back = found[entry.item.modality]
            assert back.item == entry.item
            for node, was in zip(back.item.nodes, entry.item.nodes, strict=True):
                assert type(node.start) is type(was.start)
            expected = similarities(entry.item.nodes, entry.vectors.nodes, unit(1, 2))
            actual = similarities(back.item.nodes, back.nodes, unit(1, 2))
            assert np.allclose(expected, actual, atol=self.node_tolerance)

    def test_the_leaves_tokens_come_back(self, tmp_path: Any) -> None:
        """Beside items of which none are stored; the largest id is kept."""
        plain = make_entry(make_item("plain"), unit(1, 1))
        own = make_entry(make_item("own"), unit(1))
        tokens = np.array([65_535, 0, 7, *range(50)], np.uint16)
        nodes = replace(own.vectors.nodes, tokens=tokens)
        own = replace(own, vectors=replace(own.vectors, nodes=nodes))
        first, second = self.filled(tmp_path, [plain, own]).search(unit(1), 2)
        assert first.nodes.tokens is not None
        assert first.nodes.tokens.dtype == np.uint16
        assert first.nodes.tokens.tolist() == tokens.tolist()
        assert second.nodes.tokens is None

    def test_vectors_of_nodes_encoded_one_by_one_come_back(self, tmp_path: Any) -> None:
        """Without weights and norms there is one row per node."""
        item = make_item("a")
        rows = np.stack([unit(1, n) for n in range(len(item.nodes))]).astype(np.float16)
        nodes = make_entry(item, unit(1)).vectors.nodes.__class__(rows=rows)
        entry = Entry(item=item, vectors=ItemVectors(item=unit(1), nodes=nodes), source_sha256="0")
        late = make_entry(make_item("b"), unit(0, 1))
        first, second = self.filled(tmp_path, [entry, late]).search(unit(1), 2)
        assert first.nodes.weights is None
        assert first.nodes.norms is None
        assert np.allclose(dense(first.nodes.rows), rows, atol=self.node_tolerance)
        assert second.nodes.weights is not None

    def test_hits_are_ordered_by_similarity_then_by_id(self, tmp_path: Any) -> None:
        """Equal similarities at the border of k are decided by id."""
        tied = [make_entry(make_item(f"t{n}"), unit(1, 1)) for n in range(6)]
        best = make_entry(make_item("best"), unit(1))
        found = self.filled(tmp_path, [*tied, best]).search(unit(1), 4)
        ids = [each.hit.item_id for each in found]
        assert ids == [best.item.id, *sorted(entry.item.id for entry in tied)[:3]]
        assert [each.hit.rank for each in found] == [1, 2, 3, 4]
        assert abs(found[0].hit.similarity - 1) < self.item_tolerance
        assert abs(found[1].hit.similarity - 0.5**0.5) < self.item_tolerance

    def test_modalities_filter_before_the_best_are_taken(self, tmp_path: Any) -> None:
        """A filter never makes hits fewer than k while there are enough."""
        texts = [make_entry(make_item(f"t{n}"), unit(1)) for n in range(5)]
        table = make_entry(make_item("t", 0, "table"), unit(1, 9))
        image = make_entry(make_item("i", 0, "image"), unit(1, 8))
        store = self.filled(tmp_path, [*texts, table, image])
        found = store.search(unit(1), 2, modalities=["table", "image"])
        assert [each.item.modality for each in found] == ["image", "table"]
        assert store.search(unit(1), 2, modalities=["video"]) == []

    def test_corpora_are_searched_together_or_apart(self, tmp_path: Any) -> None:
        """A hit names its corpus; an unknown one is an error."""
        first = make_entry(make_item("a"), unit(1))
        second = make_entry(make_item("b", corpus="Zweites Korpus"), unit(1, 1))
        store = self.filled(tmp_path, [first, second])
        assert [f.hit.corpus for f in store.search(unit(1), 5)] == ["main", "Zweites Korpus"]
        only = store.search(unit(1), 5, corpora=["Zweites Korpus"])
        assert [f.item for f in only] == [second.item]
        with Raises(StoreError, "nope"):
            store.search(unit(1), 5, corpora=["nope"])

    def test_replacing_a_source_leaves_nothing_of_it_and_all_others(self, tmp_path: Any) -> None:
        """Fewer items than before, also none."""
        old = [make_entry(make_item("a", n), unit(1, n)) for n in range(4)]
        other = make_entry(make_item("b"), unit(1))
        store = self.filled(tmp_path, [*old, other])
        new = make_entry(make_item("a", 1, text="Changed now. Really."), unit(0, 1))
        assert store.replace({"a"}, [new]) == 1
        assert {f.item.id for f in store.search(unit(1), 9)} == {new.item.id, other.item.id}
        assert store.get([new.item.id]) == [new.item]
        assert store.replace({"a"}, []) == 0
        assert store.sources() == {"b": 1}

    def test_packed_entries_are_as_good_as_the_entries(self, tmp_path: Any) -> None:
        """Packed elsewhere: what a packer makes crosses to another process and back."""
        entries = [
            make_entry(make_item(uri, n, corpus=corpus), unit(1, n))
            for uri, corpus in (("a", "main"), ("c", "other"), ("b", "main"))
            for n in range(3)
        ]
        store = self.filled(tmp_path, [make_entry(make_item("b"), unit(1))])
        pack = pickle.loads(pickle.dumps(store.packer))
        packed = pickle.loads(pickle.dumps(pack(entries)))
        assert [item_id for each in packed for item_id in each.ids] == [e.item.id for e in entries]
        assert sum(each.n_nodes for each in packed) == sum(len(e.item.nodes) for e in entries)
        mixed = [*(each for each in packed if each.uri != "a"), *entries[:3]]
        assert store.replace({"a", "b", "c"}, mixed) == len(entries)
        assert store.sources() == {"a": 3, "b": 3, "c": 3}
        assert store.get([entries[0].item.id, entries[8].item.id]) == [
            entries[0].item,
            entries[8].item,
        ]
        with Raises(StoreError, "not of"):
            store.replace({"a"}, packed)
        with Raises(StoreError, "twice"):
            store.replace({"a", "b", "c"}, [*packed, entries[0]])

    def test_a_source_that_moves_to_another_corpus_is_not_doubled(self, tmp_path: Any) -> None:
        """The items of before were in a table of their own."""
        store = self.filled(tmp_path, [make_entry(make_item("a"), unit(1))])
        store.replace({"a"}, [make_entry(make_item("a", corpus="other"), unit(1))])
        assert [found.hit.corpus for found in store.search(unit(1), 9)] == ["other"]

    def test_entries_that_fail_half_way_change_nothing(self, tmp_path: Any) -> None:
        """The error of the iterable comes through."""
        store = self.filled(tmp_path, [make_entry(make_item("a"), unit(1))])
        before = store.digest()

        def failing() -> Iterator[Entry]:
            for n in range(300):
                yield make_entry(make_item("a", n), unit(1, n))
            raise KeyError("half way")

        with Raises(KeyError, "half way"):
            store.replace({"a"}, failing())
        assert store.digest() == before

    def test_removing_sources_counts_their_items(self, tmp_path: Any) -> None:
        """An unknown source has none."""
        entries = [make_entry(make_item("a", n), unit(1)) for n in range(3)]
        store = self.filled(tmp_path, [*entries, make_entry(make_item("it's"), unit(1))])
        assert store.remove({"a", "unknown"}) == 3
        assert store.remove({"it's"}) == 1
        store.compact()
        assert store.search(unit(1), 9) == []

    def test_names_that_are_no_utf8_survive(self, tmp_path: Any) -> None:
        """File names of other times reach Python as lone surrogates."""
        entry = make_entry(make_item("caf\udce9.txt"), unit(1))
        store = self.filled(tmp_path, [entry])
        assert store.search(unit(1), 1)[0].item == entry.item
        assert store.sources() == {"caf\udce9.txt": 1}
        assert store.remove({"caf\udce9.txt"}) == 1

    def test_a_missing_id_is_named(self, tmp_path: Any) -> None:
        """Ids that are there come in the order asked for."""
        entries = [make_entry(make_item("a", n), unit(1)) for n in range(3)]
        store = self.filled(tmp_path, entries)
        ids = [entries[n].item.id for n in (2, 0, 2)]
        assert [item.id for item in store.get(ids)] == ids
        with Raises(StoreError, "gone-id"):
            store.get([ids[0], "gone-id"])

    def test_entries_of_other_sources_twice_or_of_another_dimension_are_refused(
        self, tmp_path: Any
    ) -> None:
        """Nothing is written then."""
        store = self.make(tmp_path)
        entry = make_entry(make_item("a"), unit(1))
        with Raises(StoreError, "not of"):
            store.replace({"b"}, [entry])
        with Raises(StoreError, "twice"):
            store.replace({"a"}, [entry, entry])
        vectors = ItemVectors(item=np.ones(3, np.float32), nodes=entry.vectors.nodes)
        with Raises(StoreError, "have 8 entries"):
            store.replace({"a"}, [Entry(item=entry.item, vectors=vectors, source_sha256="")])
        assert store.sources() == {}

    def test_a_query_of_another_dimension_is_refused(self, tmp_path: Any) -> None:
        """Before anything is searched."""
        with Raises(StoreError, "shape"):
            self.make(tmp_path).search(np.ones(3, np.float32), 1)

    def test_another_encoder_is_refused_by_name(self, tmp_path: Any) -> None:
        """Both encoders are named."""
        store = self.make(tmp_path)
        store.check(FINGERPRINT)
        other = Fingerprint(model="else", revision="1", mode="late", instruction="", dim=DIM)
        with Raises(StoreError, "else"):
            store.check(other)

    def test_the_digest_tells_contents_not_history(self, tmp_path: Any) -> None:
        """Order and detours do not matter, a changed word does."""
        entries = [make_entry(make_item(f"d{n}"), unit(1, n)) for n in range(4)]
        store = self.filled(tmp_path, entries)
        digest = store.digest()
        store.replace({"d1"}, [make_entry(make_item("d1", text="Other words. Yes."), unit(1))])
        assert store.digest() != digest
        store.remove({"d1"})
        store.replace({"d1"}, [entries[1]])
        store.compact()
        assert store.digest() == digest


class Raises:
    """Expect an error whose message holds `words`; keeps pytest out of the package."""

    def __init__(self, kind: type[BaseException], words: str) -> None:
        self._kind = kind
        self._words = words

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        assert error is not None, f"no {self._kind.__name__} was raised"
        if not isinstance(error, self._kind):
            return False
        assert self._words in str(error), f"{self._words!r} is not in {error}"
        return True


def _video(uri: str, body: str) -> tuple[Any, Payload]:
    segments = (
        Segment(start=0.0, stop=10.0, frames=(1.0, 5.5), subtitles=body),
        Segment(start=10.0, stop=12.5),
    )
    payload = VideoPayload(media=uri, duration_s=12.5, segments=segments, width=4, height=3)
    return video_tree(segments), payload
