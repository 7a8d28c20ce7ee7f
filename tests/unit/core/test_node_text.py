from __future__ import annotations

import pytest

from canopy_rag.core.node_text import (
    Piece,
    context_text,
    leaf_texts,
    node_text,
    pieces,
    row_text,
)
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
)


def make(
    modality: Modality,
    payload: Payload,
    nodes: tuple[Node, ...],
    title: str = "",
    section: tuple[str, ...] = (),
) -> Item:
    return Item(
        id="i",
        modality=modality,
        title=title,
        payload=payload,
        nodes=nodes,
        source=Source(uri="u"),
        section=section,
    )


def manual() -> Item:
    """Two sections, the second with a subsection; the third has a heading alone."""
    lines = [
        "Use",
        "Push it. Wait.",
        "Care",
        "Dry it. Oil it.",
        "Oil",
        "Any will do. Not much.",
        "End",
    ]
    starts = [sum(len(line) + 1 for line in lines[:position]) for position in range(len(lines))]
    text = "\n".join(lines)
    levels = {0: 1, 2: 1, 4: 2, 6: 1}
    headings = tuple(
        Heading(start=starts[n], stop=starts[n] + len(lines[n]), level=level, text=lines[n])
        for n, level in levels.items()
    )
    paragraphs = []
    for position in (1, 3, 5):
        middle = starts[position] + lines[position].index(".") + 1
        stop = starts[position] + len(lines[position])
        paragraphs.append([(starts[position], middle), (middle + 1, stop)])
    nodes = text_tree(len(text), paragraphs, headings)
    return make(
        "text", TextPayload(text=text, headings=headings), nodes, "Pump", ("Home", "Garden")
    )


def node_at(item: Item, start: float, stop: float) -> Node:
    return next(node for node in item.nodes if (node.start, node.stop) == (start, stop))


def test_context_is_title_and_section_path_without_repeats() -> None:
    item = make(
        "text", TextPayload(text="x"), text_tree(1, [[(0, 1)]]), "Pump", ("Pump", " ", "Use")
    )
    assert context_text(item) == "Pump > Use"


def test_headings_stand_between_the_leaves_and_belong_to_none() -> None:
    found = pieces(manual())
    assert found == [
        Piece(None, "Use"),
        Piece(0, "Push it."),
        Piece(1, "Wait."),
        Piece(None, "Care"),
        Piece(2, "Dry it."),
        Piece(3, "Oil it."),
        Piece(None, "Oil"),
        Piece(4, "Any will do."),
        Piece(5, "Not much."),
        Piece(6, "End"),  # a section that holds nothing else: a leaf, and so not a heading again
    ]
    assert leaf_texts(manual()) == [piece.text for piece in found if piece.leaf is not None]


def test_a_node_is_read_with_the_headings_above_it() -> None:
    item = manual()
    assert isinstance(item.payload, TextPayload)
    begin = item.payload.text.index("Not much.")
    last = node_at(item, begin, begin + len("Not much."))
    assert node_text(item, last) == "Pump > Home > Garden > Care > Oil: Not much."


def test_a_heading_inside_a_node_is_part_of_its_text_and_ends_those_before_it() -> None:
    item = manual()
    assert isinstance(item.payload, TextPayload)
    begin = item.payload.text.index("Care")
    care = next(node for node in item.nodes if node.start == begin)
    assert node_text(item, care).startswith("Pump > Home > Garden: Care\nDry it.")


def test_a_text_without_title_is_itself() -> None:
    item = make("text", TextPayload(text="Ada. "), text_tree(5, [[(0, 4)]]))
    assert context_text(item) == ""
    assert node_text(item, item.nodes[0]) == "Ada."


def test_rows_carry_their_column_names_and_the_context_all_of_them_once() -> None:
    table = TablePayload(
        header=("name", "born"), rows=(("Ada", "1815"), ("", ""), ("Alan", "")), caption="Births"
    )
    item = make("table", table, table_tree(3), "People", ("Science",))
    assert context_text(item) == "People > Science > Births: name; born"
    assert leaf_texts(item) == ["name: Ada; born: 1815", "", "name: Alan"]
    assert node_text(item, item.nodes[0]) == (
        "People > Science > Births: name: Ada; born: 1815\n\nname: Alan"
    )


@pytest.mark.parametrize(
    ("header", "row", "expected"),
    [
        ((), ("Ada", "1815"), "Ada; 1815"),
        (("name",), ("Ada", "1815"), "name: Ada; 1815"),
        (("name", "born", "died"), ("Ada",), "name: Ada"),
        (("", "born"), ("Ada", " 1815 "), "Ada; born: 1815"),
    ],
)
def test_ragged_rows_lose_no_cell(
    header: tuple[str, ...], row: tuple[str, ...], expected: str
) -> None:
    assert row_text(header, row) == expected


def test_a_table_without_rows_is_its_context() -> None:
    item = make("table", TablePayload(header=("name",), rows=()), table_tree(0), "People")
    assert context_text(item) == "People: name"
    assert leaf_texts(item) == [""]


def test_an_image_is_read_as_caption_and_ocr_under_its_title() -> None:
    payload = ImagePayload(media="a.png", width=1, height=1, caption="A lake", ocr="NO SKATING")
    item = make("image", payload, image_tree(), "Holidays")
    assert context_text(item) == "Holidays"
    assert leaf_texts(item) == ["A lake\nNO SKATING"]


def test_segments_are_read_as_their_subtitles_under_the_videos_caption() -> None:
    segments = tuple(
        Segment(start=100.0 + 10 * n, stop=110.0 + 10 * n, subtitles=text)
        for n, text in enumerate(["Hello.", "", "Bye."])
    )
    payload = VideoPayload(
        media="a.mp4", duration_s=200, segments=segments, width=1, height=1, caption="A talk"
    )
    item = make("video", payload, video_tree(segments), "Talks")
    assert context_text(item) == "Talks > A talk"
    assert leaf_texts(item) == ["Hello.", "", "Bye."]
    assert node_text(item, item.nodes[0]) == "Talks > A talk: Hello.\nBye."
