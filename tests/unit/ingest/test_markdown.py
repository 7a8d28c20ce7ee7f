from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from canopy_rag.core.errors import IngestError
from canopy_rag.core.provenance import locate
from canopy_rag.core.trees import leaves
from canopy_rag.core.types import Item, TablePayload, TextPayload
from canopy_rag.ingest.markdown import _front_title, parse
from canopy_rag.ingest.options import IngestOptions

Write = Callable[..., Path]
Check = Callable[[Sequence[Item], str], None]

DOCUMENT = """\
# The *Big* [Guide](http://x.y)

Intro with **bold** text. It has two sentences.

## Install `it`

- one entry
- another entry
  on two lines
    - a nested one

> A quote
> of two lines.

| Name | Size |
|------|-----:|
| a\\|b | 1 |
| **c** | 2 |

After the table ![a red fox](fox.png).

Setext Heading
--------------

```python
x = 1

y = 2
```

<details><summary>More</summary>

hidden text

</details>
"""


@pytest.fixture
def read(write: Write, options: IngestOptions) -> Callable[[str], list[Item]]:
    def read_markdown(text: str) -> list[Item]:
        return list(parse(write("my_file.md", text.encode()), "docs/my_file.md", options))

    return read_markdown


Read = Callable[[str], list[Item]]


def texts(items: Sequence[Item]) -> list[str]:
    return [item.payload.text for item in items if isinstance(item.payload, TextPayload)]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_text_and_tables_are_slices_of_the_file(
    newline: str, read: Read, check_slices: Check, check_covered: Check
) -> None:
    text = DOCUMENT.replace("\n", newline)
    items = read(text)
    assert [item.modality for item in items] == ["text", "table", "text"]
    check_slices([item for item in items if item.modality == "text"], text)
    check_covered(items, text.replace("|------|-----:|", "").replace("|", " ").replace("\\", " "))


def test_the_title_is_the_first_heading_without_its_markup(read: Read) -> None:
    assert {item.title for item in read(DOCUMENT)} == {"The Big Guide"}


def test_headings_keep_their_markup_in_the_text_and_lose_it_in_paths(read: Read) -> None:
    first, table, last = read(DOCUMENT)
    assert isinstance(first.payload, TextPayload)
    assert [(heading.level, heading.text) for heading in first.payload.headings] == [
        (1, "The Big Guide"),
        (2, "Install it"),
    ]
    assert "## Install `it`" in first.payload.text
    assert table.section == last.section == ("Install it",)
    assert isinstance(last.payload, TextPayload)
    assert last.payload.headings[0].text == "Setext Heading"


def test_a_pipe_table_is_a_table_whose_rows_know_their_lines(read: Read) -> None:
    _, table, _ = read(DOCUMENT)
    assert isinstance(table.payload, TablePayload)
    assert table.payload.header == ("Name", "Size")
    assert table.payload.rows == (("a|b", "1"), ("**c**", "2"))
    place = locate(table, 1, 2)
    assert place.char is not None
    assert DOCUMENT[slice(*place.char)] == "| **c** | 2 |"
    assert place.rows == (1,)


def test_list_entries_quotes_and_code_are_leaves(read: Read) -> None:
    first, _, last = read(DOCUMENT)
    for item, expected in [
        (first, ["- one entry", "- another entry\n  on two lines", "- a nested one"]),
        (first, ["> A quote\n> of two lines."]),
        (last, ["```python\nx = 1\n\ny = 2\n```", "hidden text"]),
    ]:
        shown = [
            texts([item])[0][int(item.nodes[leaf].start) : int(item.nodes[leaf].stop)]
            for leaf in leaves(item.nodes)
        ]
        assert [part for part in shown if part in expected] == expected


def test_the_alt_text_of_a_picture_stays_in_the_text(read: Read) -> None:
    assert "![a red fox](fox.png)" in texts(read(DOCUMENT))[-1]


@pytest.mark.parametrize(
    ("front", "title"),
    [
        ('---\ntitle: "The title"\ntags: [a]\n---\n', "The title"),
        ("+++\ntitle = 'The title'\n+++\n", "The title"),
        ("---\r\n# note\r\ntitle: The title\r\n---\r\n", "The title"),
        ("---\ntags: [a]\n---\n", "Heading"),
    ],
)
def test_front_matter_gives_the_title_and_is_no_text(
    front: str, title: str, read: Read, check_slices: Check
) -> None:
    text = f"{front}\n# Heading\n\nBody.\n"
    items = read(text)
    assert [item.title for item in items] == [title]
    assert texts(items) == ["# Heading\n\nBody."]
    check_slices(items, text)


def test_a_title_of_spaces_in_front_matter_takes_linear_time() -> None:
    spaces = " " * 1_000_000
    assert _front_title(f"title: a{spaces}b") == f"a{spaces}b"
    assert _front_title(f"title:{spaces}\nauthor: b") == ""


def test_a_thematic_break_at_the_top_is_no_front_matter(read: Read) -> None:
    assert texts(read("---\nJust words.\n\n---\n\nMore.\n"))[0].startswith("Just words.")


def test_a_file_without_heading_is_called_by_its_name(read: Read) -> None:
    assert read("Only text.")[0].title == "my file"


def test_embedded_pictures_are_left_out_and_end_the_item(read: Read, check_slices: Check) -> None:
    data = "data:image/png;base64," + "A" * 3000
    text = f"Before ![x]({data}) after.\n\nMiddle ![][image1]\n\n[image1]: <{data}>\n\nEnd.\n"
    items = read(text)
    assert [len(part) < 40 for part in texts(items)] == [True] * 3
    assert "AAAA" not in "".join(texts(items))
    assert [part.split()[0] for part in texts(items)] == ["Before", ")", "End."]
    check_slices(items, text)


def test_a_comment_is_no_text(read: Read) -> None:
    comment = "<!--\n" + "secret " * 100 + "\n-->"
    assert texts(read(f"One.\n\n{comment}\n\nTwo.\n")) == ["One.", "Two."]


def test_deeply_nested_lists_and_quotes_keep_their_text(read: Read) -> None:
    lists = "".join("  " * depth + f"- entry{depth}\n" for depth in range(60))
    text = lists + "\n" + ">" * 60 + " the end\n"
    found = "".join(texts(read(text)))
    assert all(f"entry{depth}" in found for depth in range(60))
    assert "the end" in found


def test_thousands_of_quote_marks_do_not_break_it(read: Read) -> None:
    assert read(">" * 5000 + " deep\n\nflat\n")


def test_a_document_of_headings_alone_keeps_them(read: Read) -> None:
    assert texts(read("# One\n\n## Two\n\n## Three\n")) == ["# One\n\n## Two\n\n## Three"]


def test_a_table_with_ragged_rows_is_filled_up(read: Read) -> None:
    (item,) = read("| a | b |\n|---|---|\n| 1 |\n| 1 | 2 | 3 |\n")
    assert isinstance(item.payload, TablePayload)
    assert item.payload.rows == (("1", ""), ("1", "2"))


def test_an_empty_file_is_refused(read: Read) -> None:
    with pytest.raises(IngestError, match=r"docs/my_file\.md: is empty"):
        read(" \n")
