"""What every encoder promises, as tests: inherit `EncoderContract` and say how one is made."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from canopy_rag.core.coding import dense
from canopy_rag.core.errors import EncodeError
from canopy_rag.core.protocols import Encoder
from canopy_rag.core.trees import image_tree, table_tree, text_tree, video_tree
from canopy_rag.core.types import (
    Heading,
    ImagePayload,
    Item,
    Modality,
    Node,
    Payload,
    Segment,
    Source,
    TablePayload,
    TextPayload,
    VideoPayload,
    item_id,
)
from canopy_rag.core.vectors import ItemVectors, leaf_intervals, node_matrix, similarities

Mode = Literal["late", "node"]
MODES: tuple[Mode, ...] = ("late", "node")
QUERY = "Who wrote the first program for the Analytical Engine?"
SENTENCES = (
    "Ada Lovelace wrote the first program for the Analytical Engine.",
    "It computed Bernoulli numbers.",
    "The castle lies on a steep hill above the river.",
    "In winter the lake freezes over and people skate on it.",
)

_made: dict[tuple[type, str], Encoder] = {}


def make_item(
    uri: str, modality: Modality, payload: Payload, nodes: tuple[Node, ...], title: str = ""
) -> Item:
    """Return an item of one source of its own."""
    return Item(
        id=item_id(uri, 0),
        modality=modality,
        title=title,
        payload=payload,
        nodes=nodes,
        source=Source(uri=uri),
    )


def text_item(uri: str, sentences: Sequence[str], title: str = "") -> Item:
    """Return a text of one paragraph."""
    text = " ".join(sentences)
    intervals, begin = [], 0
    for sentence in sentences:
        intervals.append((begin, begin + len(sentence)))
        begin += len(sentence) + 1
    return make_item(uri, "text", TextPayload(text=text), text_tree(len(text), [intervals]), title)


def headed_item() -> Item:
    """Return a text with a heading before each of its two paragraphs of two sentences."""
    text = "Engines\nAda wrote a program. It ran.\nCastles\nThe castle is old. It has a moat."
    headings = (
        Heading(start=0, stop=7, level=2, text="Engines"),
        Heading(start=37, stop=44, level=2, text="Castles"),
    )
    nodes = text_tree(len(text), [[(8, 28), (29, 36)], [(45, 63), (64, 78)]], headings)
    return make_item("headed", "text", TextPayload(text=text, headings=headings), nodes, "Places")


def table_item(uri: str, rows: Sequence[tuple[str, ...]], header: tuple[str, ...] = ()) -> Item:
    """Return a table."""
    payload = TablePayload(header=header, rows=tuple(rows), caption="Births")
    return make_item(uri, "table", payload, table_tree(len(rows)), "People")


def png(grey: int = 120, side: int = 64) -> str:
    """Return a square picture of one grey, darker below, as a `data:` URI."""
    rows = b"".join(bytes([0, *[grey * (row + 1) // side] * side]) for row in range(side))
    content = b"\x89PNG\r\n\x1a\n"
    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    for name, body in ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")):
        content += struct.pack(">I", len(body)) + name + body
        content += struct.pack(">I", zlib.crc32(name + body))
    return f"data:image/png;base64,{base64.b64encode(content).decode('ascii')}"


def image_item(caption: str, ocr: str = "", media: str | None = None) -> Item:
    """Return an image, by default one that can be read from anywhere."""
    payload = ImagePayload(
        media=png() if media is None else media, width=64, height=64, caption=caption, ocr=ocr
    )
    return make_item("a.png", "image", payload, image_tree(), "Holidays")


def video_item(subtitles: Sequence[str]) -> Item:
    """Return a video of segments of ten seconds."""
    segments = tuple(
        Segment(start=10.0 * position, stop=10.0 * position + 10, subtitles=text)
        for position, text in enumerate(subtitles)
    )
    payload = VideoPayload(
        media="a.mp4", duration_s=10.0 * len(segments), segments=segments, width=4, height=3
    )
    return make_item("a.mp4", "video", payload, video_tree(segments), "Lecture")


def sample_items() -> list[Item]:
    """Return items of all modalities and of very different lengths."""
    return [
        text_item("short", SENTENCES[:1]),
        text_item("titled", SENTENCES, "Ada Lovelace"),
        headed_item(),
        table_item("rows", [("Ada", "1815"), ("Alan", "1912"), ("", "")], ("name", "born")),
        image_item("A lake in winter", "SKATING FORBIDDEN"),
        video_item(["The Analytical Engine was never built.", "", "Ada described it."]),
        text_item(
            "long", [f"{sentence} {n}." for n in range(12) for sentence in SENTENCES], "Much"
        ),
    ]


class EncoderContract:
    """Inherit it, override `make`, and pytest checks the encoder in its modes."""

    modes: Sequence[Mode] = MODES
    """Those that the encoder has."""
    understands: bool = True
    """Whether its vectors mean something; those of random weights do not."""
    reads_all: bool = True
    """Whether a leaf longer than the model's window is read to its end."""
    one_encoding: bool = True
    """Whether items are ranked by the vectors of their roots, rather than by f0's own (D12)."""

    def make(self, mode: Mode) -> Encoder:
        """Return a new encoder."""
        raise NotImplementedError

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run each test in every mode."""
        if "encoder" in metafunc.fixturenames:
            metafunc.parametrize("encoder", self.modes, indirect=True)

    @pytest.fixture
    def encoder(self, request: pytest.FixtureRequest) -> Encoder:
        """An encoder in each mode; one for all tests of a class, since models load slowly."""
        key = (type(self), request.param)
        if key not in _made:
            _made[key] = self.make(request.param)
        return _made[key]

    def test_it_is_an_encoder_and_says_so_before_it_loads_anything(self) -> None:
        """The fingerprint is the same before and after the first use."""
        encoder = self.make(self.modes[0])
        assert isinstance(encoder, Encoder)
        before = encoder.fingerprint
        encoder.encode_queries([QUERY])
        assert encoder.fingerprint == before
        assert before.model
        assert before.revision

    def test_the_mode_is_part_of_the_fingerprint(self) -> None:
        """An index of one mode is not searched with the other by accident."""
        found = [self.make(mode).fingerprint for mode in self.modes]
        assert len(set(found)) == len(self.modes)
        assert found == [self.make(mode).fingerprint for mode in self.modes]
        assert [one.mode for one in found] == list(self.modes)

    def test_queries_give_one_unit_row_each_in_order(self, encoder: Encoder) -> None:
        """Shapes, length, order."""
        queries = [QUERY, "castle", "x " * 40]
        both = encoder.encode_queries(queries)
        for rows in (both.retrieval, both.node):
            assert rows.shape == (3, encoder.fingerprint.dim)
            assert rows.dtype == np.float32
            assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
        for position, query in enumerate(queries):
            alone = encoder.encode_queries([query])
            assert np.allclose(alone.retrieval[0], both.retrieval[position], atol=1e-5)

    def test_no_queries_and_no_items_give_nothing(self, encoder: Encoder) -> None:
        """An empty batch is no error."""
        assert encoder.encode_queries([]).retrieval.shape == (0, encoder.fingerprint.dim)
        assert encoder.encode_items([]) == []

    def test_a_query_without_words_still_has_a_direction(self, encoder: Encoder) -> None:
        """Empty, blank and odd characters; an unpaired surrogate as files may hold it."""
        rows = encoder.encode_queries(["", "  \n", "\udcff", "\x00"]).retrieval
        assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)

    def test_an_overlong_query_is_cut_not_refused(self, encoder: Encoder) -> None:
        """Twenty thousand words."""
        row = encoder.encode_queries(["castle hill " * 10_000]).retrieval[0]
        assert np.isclose(np.linalg.norm(row), 1, atol=1e-5)

    def test_every_modality_has_a_unit_vector_and_one_for_each_node(self, encoder: Encoder) -> None:
        """Shapes of both storage forms; the item's vector is the root's."""
        items = sample_items()
        for item, one in zip(items, encoder.encode_items(items), strict=True):
            _check_stored_form(encoder, item, one)
            matrix = node_matrix(item.nodes, one.nodes)
            assert np.allclose(np.linalg.norm(matrix, axis=1), 1, atol=2e-3), item.source.uri
            assert one.item.dtype == np.float32
            assert np.isclose(np.linalg.norm(one.item), 1, atol=1e-5)
            if self.one_encoding:
                assert np.allclose(one.item, matrix[0], atol=2e-3)

    def test_stored_similarities_are_those_of_the_node_vectors(self, encoder: Encoder) -> None:
        """Norms, weights and rows belong together."""
        query = encoder.encode_queries([QUERY]).node[0]
        items = sample_items()
        for item, one in zip(items, encoder.encode_items(items), strict=True):
            found = similarities(item.nodes, one.nodes, query)
            assert np.allclose(found, node_matrix(item.nodes, one.nodes) @ query, atol=1e-3)

    def test_the_result_does_not_depend_on_the_batch(self, encoder: Encoder) -> None:
        """Each item alone, all together, and all in reverse."""
        items = sample_items()
        together = encoder.encode_items(items)
        reverse = encoder.encode_items(items[::-1])[::-1]
        for item, one, other in zip(items, together, reverse, strict=True):
            alone = encoder.encode_items([item])[0]
            for version in (other, alone):
                assert np.allclose(one.item, version.item, atol=1e-5), item.source.uri
                assert np.allclose(
                    node_matrix(item.nodes, one.nodes),
                    node_matrix(item.nodes, version.nodes),
                    atol=2e-3,  # rows are stored as float16
                )

    def test_the_same_item_gives_the_same_bytes(self, encoder: Encoder) -> None:
        """An index built twice is the same index."""
        items = sample_items()
        first, second = encoder.encode_items(items), encoder.encode_items(items)
        for one, other in zip(first, second, strict=True):
            assert one.item.tobytes() == other.item.tobytes()
            assert dense(one.nodes.rows).tobytes() == dense(other.nodes.rows).tobytes()

    def test_the_sentence_that_answers_is_the_most_similar(self, encoder: Encoder) -> None:
        """A query finds its words in the right item and the right leaf."""
        items = [text_item("a", SENTENCES, "Notes"), text_item("b", SENTENCES[2:], "Walks")]
        query = encoder.encode_queries([QUERY])
        encoded = encoder.encode_items(items)
        if not self.understands:
            pytest.skip("vectors of random weights mean nothing")
        assert encoded[0].item @ query.retrieval[0] > encoded[1].item @ query.retrieval[0]
        found = _leaf_similarities(items[0], encoded[0], query.node[0])
        assert int(np.argmax(found)) == 0, found

    def test_a_row_is_read_with_its_column_names(self, encoder: Encoder) -> None:
        """The same cells under other names have other vectors."""
        rows = [("Ada", "1815"), ("Alan", "1912")]
        born = table_item("t", rows, ("name", "born"))
        paid = table_item("t", rows, ("customer", "paid"))
        query = encoder.encode_queries(["when was Alan born?"])
        one, other = encoder.encode_items([born, paid])
        assert not np.allclose(one.item, other.item, atol=1e-3)
        if not self.understands:
            pytest.skip("vectors of random weights mean nothing")
        assert one.item @ query.retrieval[0] > other.item @ query.retrieval[0]
        assert np.argmax(_leaf_similarities(born, one, query.node[0])) == 1

    def test_the_title_changes_every_node(self, encoder: Encoder) -> None:
        """Context is part of what a node means (D2)."""
        plain, titled = text_item("a", SENTENCES), text_item("a", SENTENCES, "Charles Babbage")
        query = encoder.encode_queries(["Charles Babbage"]).node[0]
        one, other = encoder.encode_items([plain, titled])
        low = similarities(plain.nodes, one.nodes, query)
        high = similarities(titled.nodes, other.nodes, query)
        assert (high > low).all() if self.understands else (high != low).all()

    def test_a_leaf_far_beyond_the_window_is_found(self, encoder: Encoder) -> None:
        """Nothing of a long item is lost: the answer is the last of 300 sentences."""
        filler = [f"Castle {n} is old." for n in range(299)]
        item = text_item("many", [*filler, SENTENCES[0]], "Notes")
        query = encoder.encode_queries([QUERY]).node[0]
        found = _leaf_similarities(item, encoder.encode_items([item])[0], query)
        assert len(found) == 300
        assert not self.understands or np.argmax(found) == 299

    def test_every_part_of_a_leaf_longer_than_the_window_counts(self, encoder: Encoder) -> None:
        """One sentence of a thousand words; the words at its end change its vector."""
        if not self.reads_all:
            pytest.skip("this encoder cuts what is longer than its window, and says so")
        filler = "castle hill river " * 330
        one, other = encoder.encode_items(
            [text_item("a", [filler + "lake ."]), text_item("a", [filler + "program engine " * 90])]
        )
        query = encoder.encode_queries(["program engine"]).retrieval[0]
        assert other.item @ query > one.item @ query + 0.05

    def test_a_cell_of_five_megabytes_is_read_in_part(self, encoder: Encoder) -> None:
        """Bad input is normal; the rows around it are encoded as ever."""
        rows = [("Ada", "1815"), ("y" * 5_000_000, "z"), ("word " * 1_000_000, "z")]
        item = table_item("cells", rows, ("name", "born"))
        query = encoder.encode_queries(["Ada was born in 1815"]).node[0]
        found = _leaf_similarities(item, encoder.encode_items([item])[0], query)
        assert np.isfinite(found).all()
        assert not self.understands or np.argmax(found) == 0

    def test_items_without_words_are_encoded(self, encoder: Encoder) -> None:
        """No text, no rows, no cells, no caption, no subtitles."""
        items = [
            make_item("empty", "text", TextPayload(text=""), text_tree(0, [])),
            make_item("none", "table", TablePayload(header=(), rows=()), table_tree(0)),
            replace(table_item("blank", [("", ""), ("", "")]), title=""),
            replace(image_item(""), title=""),
            video_item(["", "", ""]),
        ]
        for item, one in zip(items, encoder.encode_items(items), strict=True):
            matrix = node_matrix(item.nodes, one.nodes)
            assert np.allclose(np.linalg.norm(matrix, axis=1), 1, atol=2e-3), item.source.uri

    def test_leaves_without_words_tie(self, encoder: Encoder) -> None:
        """A silent video is not refined by the noise of rounding: all of it is kept or none."""
        item = video_item([""] * 7)
        query = encoder.encode_queries([QUERY]).node[0]
        found = similarities(item.nodes, encoder.encode_items([item])[0].nodes, query)
        assert len(set(found.tolist())) == 1, found

    def test_tokens_are_counted_without_special_ones(self, encoder: Encoder) -> None:
        """Counts add up and do not stop at the window."""
        assert encoder.count_tokens("") == 0
        one = encoder.count_tokens(" castle")
        assert 1 <= one <= len("castle")
        assert encoder.count_tokens(" castle" * 5000) == 5000 * one

    def test_an_image_that_is_read_from_its_pixels_changes_with_them(
        self, encoder: Encoder
    ) -> None:
        """The same words on another picture; the same picture twice."""
        media = (png(200), png(90), png(200))
        light, dark, again = encoder.encode_items(
            [replace(image_item("A lake", media=each), id=f"{n}") for n, each in enumerate(media)]
        )
        reads = "image" in encoder.media
        assert np.allclose(light.item, again.item, atol=1e-5)
        assert np.allclose(light.item, dark.item, atol=1e-5) != reads

    def test_a_broken_image_is_named_and_nothing_is_put_in_its_place(
        self, encoder: Encoder
    ) -> None:
        """In the middle of a batch; an encoder that reads captions alone does not look at it."""
        broken = replace(image_item("A lake", media=png()[:90]), id="broken")
        items = [image_item("One"), broken, text_item("a", SENTENCES)]
        if "image" not in encoder.media:
            assert len(encoder.encode_items(items)) == len(items)
            return
        with pytest.raises(EncodeError) as caught:
            encoder.encode_items(items)
        assert caught.value.item_id == "broken"

    def test_it_says_what_it_reads(self, encoder: Encoder) -> None:
        """Media are a subset of the modalities with pixels; languages are lower-case codes."""
        assert encoder.media <= {"image", "video"}
        assert encoder.languages is None or all(
            len(code) == 2 and code.islower() for code in encoder.languages
        )


def _check_stored_form(encoder: Encoder, item: Item, one: ItemVectors) -> None:
    dim = encoder.fingerprint.dim
    n_leaves = int(leaf_intervals(item.nodes)[0, 1])
    if encoder.fingerprint.mode == "node":
        assert one.nodes.rows.shape == (len(item.nodes), dim)
        assert one.nodes.weights is None
        assert one.nodes.norms is None
        return
    assert one.nodes.rows.shape == (n_leaves + 1, dim)
    assert one.nodes.weights is not None
    assert one.nodes.weights.shape == (n_leaves + 1,)
    assert (one.nodes.weights[:-1] >= 1).all()
    assert one.nodes.norms is not None
    assert one.nodes.norms.shape == (len(item.nodes),)


def _leaf_similarities(
    item: Item, one: ItemVectors, query: NDArray[np.float32]
) -> NDArray[np.float32]:
    leaves = [node.index for node in item.nodes if not node.children]
    return similarities(item.nodes, one.nodes, query)[leaves]
