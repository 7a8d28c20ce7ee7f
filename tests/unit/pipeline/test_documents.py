"""What callers may hand over as documents, and what they may not."""

import base64
import io
import math
from pathlib import Path

import pytest
from PIL import Image

from canopy_rag.core.errors import DataError
from canopy_rag.core.types import ImagePayload
from canopy_rag.pipeline.documents import to_items
from tests.unit.pipeline.conftest import ITEMS, text_item


class Frame:
    """Looks like pandas: columns and itertuples."""

    columns = ("name", 2024)

    def itertuples(self, index=True, name="Pandas"):
        assert (index, name) == (False, None)
        return iter([("Ada", 1.5), (None, math.nan)])


class Polars:
    """Looks like polars: columns and rows."""

    columns = ("a",)

    def rows(self):
        return [(1,), (None,)]


def read(document, name):
    read.seen.append((document, name))
    return [text_item(f"{name}-read", "x.")]


@pytest.fixture(autouse=True)
def seen():
    read.seen = []


def test_strings_dicts_and_paths_are_read_and_keep_their_order():
    documents = ["text", {"text": "b"}, Path("c.txt"), ITEMS[0]]
    items = to_items(documents, read)
    assert [each for each, _ in read.seen] == documents[:3]
    assert [item.source.uri for item in items] == [
        *("document-1-read", "document-2-read", "document-3-read", "judo.txt")
    ]


def test_frames_become_tables_and_missing_values_empty_cells():
    to_items([Frame(), Polars()], read)
    assert read.seen[0][0] == {
        "table": {"header": ["name", "2024"], "rows": [["Ada", "1.5"], ["", ""]]}
    }
    assert read.seen[1][0] == {"table": {"header": ["a"], "rows": [["1"], [""]]}}


def test_a_picture_carries_its_own_pixels():
    (item,) = to_items([Image.new("RGB", (3, 2), "red")], read)
    assert isinstance(item.payload, ImagePayload)
    head, _, body = item.payload.media.partition(",")
    assert head == "data:image/png;base64"
    assert Image.open(io.BytesIO(base64.b64decode(body))).size == (3, 2)


def test_two_documents_of_one_id_are_refused_rather_than_one_lost():
    with pytest.raises(DataError, match="two documents have the id"):
        to_items([ITEMS[0], ITEMS[0]], read)


@pytest.mark.parametrize("document", [3, None, object()])
def test_what_is_no_document_is_named(document):
    with pytest.raises(DataError, match="document-2 is a"):
        to_items(["fine", document], read)


@pytest.mark.parametrize("documents", ["text", {"text": "a"}])
def test_a_single_document_is_not_a_list(documents):
    with pytest.raises(DataError, match="must be a list"):
        to_items(documents, read)


class Unsaid:
    """Like pandas' NA: compares to something that has no truth value."""

    def __ne__(self, other):
        return self

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")


class Array:
    """Like numpy's: compares value by value."""

    def __ne__(self, other):
        return self

    def __bool__(self):
        raise ValueError("the truth value of an array is ambiguous")

    def __str__(self):
        return "[1 2]"


class Odd(Polars):
    def rows(self):
        return [(Unsaid(),), (Array(),)]


def test_a_cell_that_will_not_say_whether_it_is_missing_is_missing_and_an_array_is_not():
    to_items([Odd()], read)
    assert read.seen[0][0]["table"]["rows"] == [[""], ["[1 2]"]]


@pytest.mark.parametrize(
    "single",
    [Frame(), Path("a.txt"), Image.new("RGB", (2, 2)), ITEMS[0], None, 3],
    ids=["frame", "path", "picture", "item", "nothing", "number"],
)
def test_a_single_document_in_the_place_of_a_list_is_refused(single):
    with pytest.raises(DataError, match="put it in"):
        to_items(single, read)
