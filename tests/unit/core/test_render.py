"""What evidence looks like to a reader, in full, for each modality."""

from dataclasses import replace

import pytest

from canopy_rag.core.evidence import Evidence, Meter, Shown
from canopy_rag.core.protocols import MediaPart
from canopy_rag.core.render import Style, clock, row_line
from canopy_rag.core.trees import image_tree, table_tree, text_tree, video_tree
from canopy_rag.core.types import (
    Heading,
    ImagePayload,
    Item,
    Segment,
    Source,
    SourceSpan,
    TablePayload,
    TextPayload,
    VideoPayload,
)

TEXT = "# Cats\n\nCats purr. Cats sleep.\n\n## Food\n\nThey eat fish. They eat mice. They drink."


def text_item():
    def sentence(words):
        start = TEXT.index(words)
        return (start, start + len(words))

    headings = (
        Heading(start=0, stop=6, level=1, text="Cats"),
        Heading(start=TEXT.index("## Food"), stop=TEXT.index("## Food") + 7, level=2, text="Food"),
    )
    paragraphs = [
        [sentence("Cats purr."), sentence("Cats sleep.")],
        [sentence("They eat fish."), sentence("They eat mice."), sentence("They drink.")],
    ]
    return Item(
        id="cats",
        modality="text",
        title="Animals",
        section=("Pets",),
        payload=TextPayload(text=TEXT, headings=headings),
        nodes=text_tree(len(TEXT), paragraphs, headings),
        source=Source(
            uri="cats.md", spans=(SourceSpan(start=0, stop=len(TEXT), char=(100, 100 + len(TEXT))),)
        ),
    )


def node_of(item, words):
    start = item.payload.text.index(words)
    return next(
        node.index
        for node in item.nodes
        if item.payload.text[int(node.start) : int(node.stop)].strip() == words
        or (node.start == start and not node.children)
    )


def shown(item, *kept, why="refined"):
    return Shown(
        item=item, kept=tuple(sorted(kept)), why=why, query="q", round=1, rank=1, similarity=0.5
    )


def evidence(item, *kept, meter=None):
    return Evidence(meter=meter or Meter()).add([shown(item, *kept)])


def test_regions_apart_have_an_elision_mark_and_the_heading_in_force():
    item = text_item()
    both = evidence(item, node_of(item, "Cats purr."), node_of(item, "They drink."))
    assert both.text == "Animals > Pets\n# Cats\nCats purr. … ## Food\nThey drink."


def test_neighbours_are_joined_as_they_stand_in_the_source():
    item = text_item()
    both = evidence(item, node_of(item, "Cats sleep."), node_of(item, "They eat fish."))
    assert both.text == "Animals > Pets\n# Cats\nCats sleep.\n\n## Food\n\nThey eat fish."


def test_a_whole_item_reads_as_its_text_under_its_title():
    assert evidence(text_item(), 0).text == f"Animals > Pets\n{TEXT}"


def test_numbers_stand_before_each_fragment():
    item = text_item()
    numbered = evidence(
        item,
        node_of(item, "Cats purr."),
        node_of(item, "They drink."),
        meter=Meter(numbered=True),
    )
    assert numbered.parts() == (
        "Animals > Pets\n# Cats\n[1] Cats purr. … ## Food\n[2] They drink.",
    )


def test_a_documents_own_brackets_cannot_pass_for_fragment_numbers():
    sentence = "As shown in [2], cats purr."
    item = Item(
        id="x",
        modality="text",
        title="On [1]",
        payload=TextPayload(text=sentence),
        nodes=text_tree(len(sentence), [[(0, len(sentence))]]),
        source=Source(uri="x.txt"),
    )
    numbered = evidence(item, 0, meter=Meter(numbered=True))
    assert numbered.parts() == ("On [ 1]\n[1] As shown in [ 2], cats purr.",)
    assert numbered.fragments[0].text == sentence
    assert numbered.text == f"On [1]\n{sentence}"


def test_a_fragment_knows_its_characters_in_the_file():
    item = text_item()
    fragment = evidence(item, node_of(item, "They eat mice.")).fragments[0]
    begin = TEXT.index("They eat mice.")
    assert fragment.text == "They eat mice."
    assert fragment.source.char == (100 + begin, 100 + begin + len("They eat mice."))
    assert (fragment.start, fragment.stop) == (begin, begin + len("They eat mice."))


def table_item(first_row=0):
    rows = (("Ada", "1815"), ("Alan", "1912"), ("Grace\nHopper", "1906"))
    return Item(
        id="people",
        modality="table",
        title="People",
        payload=TablePayload(header=("name", "born"), rows=rows, caption="Pioneers"),
        nodes=table_tree(3),
        source=Source(uri="p.xlsx", sheet="S", range="A1:B4", first_row=first_row),
    )


def test_rows_keep_their_caption_and_header():
    # 0 [1 [2 3] 4]: the first and the last row
    both = evidence(table_item(), 2, 4)
    assert both.text == "People\nPioneers\nname | born\nAda | 1815\n…\nGrace Hopper | 1906"


def test_rows_are_counted_in_the_sources_table():
    fragment = evidence(table_item(first_row=200), 1).fragments[0]
    assert (fragment.start, fragment.stop) == (0, 2)
    assert fragment.source.rows == (200, 201)
    assert (fragment.source.sheet, fragment.source.range) == ("S", "A1:B4")


def video_item():
    segments = (
        Segment(start=0, stop=10, frames=(1.0,), subtitles="A rabbit wakes."),
        Segment(start=10, stop=12.5, frames=(11.0,)),
        Segment(start=12.5, stop=75, frames=(20.0, 40.0), subtitles="A bird\nfalls."),
    )
    return Item(
        id="film",
        modality="video",
        title="Film",
        payload=VideoPayload(
            media="film.webm", duration_s=75, segments=segments, width=4, height=2
        ),
        nodes=video_tree(segments),
        source=Source(uri="film.webm"),
    )


def test_video_regions_show_their_times_and_subtitles():
    item = video_item()
    assert evidence(item, 2, 4).text == (
        "Film\n0:00-0:10: A rabbit wakes.\n…\n0:12.5-1:15: A bird\nfalls."
    )
    assert evidence(item, 3).text == "Film\n0:10-0:12.5"


def test_a_seeing_reader_gets_the_frames_of_the_kept_segments():
    item = video_item()
    parts = evidence(item, 4).parts(Style(media=True))
    assert parts[1:] == (
        MediaPart(media="film.webm", time=20.0, width=4, height=2),
        MediaPart(media="film.webm", time=40.0, width=4, height=2),
    )
    fragment = evidence(item, 4).fragments[0]
    assert fragment.media == "film.webm#t=12.5,75"
    assert fragment.source.time == (12.5, 75)


def image_item(media="cat.png"):
    return Item(
        id="cat",
        modality="image",
        title="cat",
        payload=ImagePayload(media=media, width=3, height=2, caption="a cat", ocr="MEOW"),
        nodes=image_tree(),
        source=Source(uri="cat.png"),
    )


def test_an_image_is_shown_by_its_caption_and_its_own_words():
    assert evidence(image_item(), 0).text == "cat\na cat\nMEOW"


def test_a_caption_that_is_the_title_is_not_said_twice():
    item = replace(image_item(), title="a cat")
    assert evidence(item, 0).text == "a cat\nMEOW"
    assert evidence(item, 0).fragments[0].text == "a cat\nMEOW"


def test_messages_hold_pictures_that_can_be_sent():
    inline = evidence(image_item("data:image/png;base64,AA=="), 0).to_messages()
    assert inline[0]["content"][1]["image_url"]["url"] == "data:image/png;base64,AA=="
    on_disk = evidence(image_item(), 0)
    assert len(on_disk.to_messages()[0]["content"]) == 1
    loaded = on_disk.to_messages(lambda part: f"loaded:{part.media}")
    assert loaded[0]["content"][1]["image_url"]["url"] == "loaded:cat.png"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (59.96, "1:00"), (600, "10:00"), (3600, "1:00:00")]
)
def test_times_read_as_on_a_clock(seconds, text):
    assert clock(seconds) == text


def test_the_json_form_has_the_promised_keys():
    body = evidence(text_item(), 0).to_dict()
    assert set(body) >= {"tokens", "tokens_full", "tokens_are", "items", "left_out"}
    assert set(body["items"][0]) >= {
        *("id", "corpus", "modality", "title", "round", "query", "rank", "similarity"),
        *("why", "n_leaves", "n_leaves_kept", "fragments"),
    }
    fragment = body["items"][0]["fragments"][0]
    assert set(fragment) == {
        *("n", "node", "start", "stop", "unit", "text", "media", "similarity"),
        *("parent_similarity", "source"),
    }
    assert set(fragment["source"]) >= {
        *("uri", "places", "char", "sheet", "rows", "time", "anchor")
    }
    assert body["items"][0]["n_leaves"] == body["items"][0]["n_leaves_kept"] == 5


def test_breaks_inside_a_cell_become_one_space_and_other_blanks_stay():
    assert row_line(["a \n\n b", "c  d", "\r\ne"]) == "a b | c  d |  e"
    assert row_line([" " * 1_000_000 + "\n" + " " * 1_000_000]) == " "  # in linear time
