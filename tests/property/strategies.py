"""Random trees, similarities and items."""

from dataclasses import replace

from hypothesis import strategies as st

from canopy_rag.core.evidence import Shown
from canopy_rag.core.refine import refine
from canopy_rag.core.render import node_body
from canopy_rag.core.trees import table_tree, text_tree
from canopy_rag.core.trees.build import Group, tree_from_groups
from canopy_rag.core.types import Item, Source, TablePayload, TextPayload, item_id


@st.composite
def groups(draw, depth=4):
    """A nested group over consecutive integers."""
    counter = [0]

    def build(level: int) -> Group:
        n = draw(st.integers(0, 4)) if level else 0
        start = counter[0]
        children = tuple(build(level - 1) for _ in range(n))
        if not children:
            counter[0] += draw(st.integers(1, 3))
        return Group(start=start, stop=counter[0], children=children)

    return build(depth)


@st.composite
def trees(draw):
    return tree_from_groups(draw(groups()), draw(st.integers(2, 4)))


similarity_values = st.one_of(
    st.sampled_from([0.0, 0.25, 0.5, 0.5, 0.75]),  # many ties
    st.floats(-1, 1, width=32),
)


@st.composite
def scored_trees(draw):
    nodes = draw(trees())
    values = draw(st.lists(similarity_values, min_size=len(nodes), max_size=len(nodes)))
    return nodes, values


words = st.text("abcdefg", min_size=1, max_size=8)
sentences = st.lists(words, min_size=1, max_size=9).map(lambda ws: " ".join(ws) + ".")


@st.composite
def text_items(draw, number=0):
    paragraphs = draw(st.lists(st.lists(sentences, min_size=1, max_size=4), min_size=1, max_size=4))
    text, boundaries = "", []
    for paragraph in paragraphs:
        spans = []
        for sentence in paragraph:
            spans.append((len(text), len(text) + len(sentence)))
            text += sentence + " "
        boundaries.append(spans)
        text = text[:-1] + "\n\n"
    text = text[:-2]
    uri = f"{number}.txt"
    return Item(
        id=item_id(uri, 0),
        modality="text",
        title=draw(st.sampled_from(["", "A title"])),
        payload=TextPayload(text=text),
        nodes=text_tree(len(text), boundaries),
        source=Source(uri=uri),
        section=draw(st.sampled_from([(), ("Part", "Chapter")])),
    )


@st.composite
def table_items(draw, number=0):
    width = draw(st.integers(1, 4))
    cell = st.one_of(words, st.just(""))
    rows = draw(st.lists(st.lists(cell, min_size=width, max_size=width), max_size=6))
    uri = f"{number}.csv"
    return Item(
        id=item_id(uri, 0),
        modality="table",
        title=draw(st.sampled_from(["", "numbers"])),
        payload=TablePayload(
            header=tuple(draw(st.lists(words, min_size=width, max_size=width))),
            rows=tuple(map(tuple, rows)),
        ),
        nodes=table_tree(len(rows)),
        source=Source(uri=uri),
    )


@st.composite
def shown_items(draw, number=0, round_number=1):
    item = draw(st.one_of(text_items(number), table_items(number)))
    n = len(item.nodes)
    values = draw(st.lists(similarity_values, min_size=n, max_size=n))
    return Shown(
        item=item,
        kept=refine(item.nodes, values).kept,
        why="refined",
        query="q",
        round=round_number,
        rank=number + 1,
        similarity=values[0],
        node_similarities=tuple(values),
    )


@st.composite
def rounds(draw, max_items=6):
    n = draw(st.integers(1, max_items))
    shown = tuple(draw(shown_items(number)) for number in range(n))
    if any(map(_has_words, shown)):
        return shown
    # As `add_round` does where blank rows stood out and the words are elsewhere.
    return tuple(replace(each, kept=(0,), why="whole") for each in shown)


def _has_words(shown):
    regions = (shown.item.nodes[node] for node in shown.kept)
    return any(node_body(shown.item, each.start, each.stop).strip() for each in regions)
