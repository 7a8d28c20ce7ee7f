"""The order in which a budget takes things away."""

from dataclasses import replace

import pytest

from canopy_rag.core.budget import fit, never_longer
from canopy_rag.core.errors import ConfigError, UnknownNameError
from canopy_rag.core.evidence import Evidence, Meter, Shown
from canopy_rag.core.trees import image_tree, table_tree, text_tree
from canopy_rag.core.types import ImagePayload, Item, Source, TablePayload, TextPayload


def item(name, *sentences, title=""):
    text, spans = "", []
    for sentence in sentences:
        spans.append((len(text), len(text) + len(sentence)))
        text += f"{sentence} "
    text = text[:-1]
    return Item(
        id=name,
        modality="text",
        title=title,
        payload=TextPayload(text=text),
        nodes=text_tree(len(text), [spans]),
        source=Source(uri=name),
    )


def shown(item, similarities, kept, rank):
    return Shown(
        item=item,
        kept=kept,
        why="refined",
        query="q",
        round=1,
        rank=rank,
        similarity=similarities[0],
        node_similarities=tuple(similarities),
    )


FIRST = shown(item("a", "one two three.", "four five."), [0.5, 0.6, 0.9], (1, 2), 1)
SECOND = shown(item("b", "six seven.", "eight nine ten."), [0.4, 0.7, 0.1], (1,), 2)
BOTH = Evidence().add([FIRST, SECOND])  # similarities: a1 .6, a2 .9, b1 .7


def kept(evidence):
    return {entry.item.id: entry.kept for entry in evidence.entries}


def test_the_smallest_margin_over_the_set_goes_first():
    assert BOTH.tokens == 10
    assert kept(fit(BOTH, 9)) == {"a": (2,), "b": (1,)}
    assert kept(fit(BOTH, 5)) == {"a": (2,)}


def test_the_tail_cap_takes_the_latest_retrieved_first():
    assert kept(fit(BOTH, 9, "tail")) == {"a": (1, 2)}
    assert kept(fit(BOTH, 5, "tail")) == {"a": (1,)}


def test_an_item_of_which_nothing_is_left_is_named():
    fitted = fit(BOTH, 5)
    assert [(each.item_id, each.rank, each.reason) for each in fitted.left_out] == [
        ("b", 2, "budget")
    ]
    assert not fitted.holds("b")


def test_a_whole_item_is_measured_as_any_other_fragment():
    low = shown(item("c", "eleven twelve."), [0.1], (0,), 3)
    high = shown(item("d", "thirteen fourteen."), [0.9], (0,), 4)
    fitted = fit(Evidence().add([low, high, FIRST]), 12)
    assert "c" not in kept(fitted)
    assert "d" in kept(fitted)


TITLED = shown(item("t", "one two three four five.", title="A long title here"), [0.5], (0,), 1)


def test_headings_go_before_words_of_the_last_fragment():
    fitted = fit(Evidence().add([TITLED]), 7)
    assert fitted.text == "one two three four five."
    assert "headings dropped" in fitted.fallbacks[0].reason


def test_the_best_leaf_that_fits_replaces_a_node_that_does_not():
    both = shown(item("e", "one two three four.", "five six."), [0.5, 0.4, 0.3], (0,), 1)
    fitted = fit(Evidence().add([both]), 4)
    assert fitted.text == "five six."
    assert fitted.fallbacks == ()


def test_what_is_left_of_the_budget_is_filled_with_the_best_leaves_of_what_went():
    long = shown(
        item("f", "one two three four five.", "six.", "seven eight nine."),
        [0.6, 0.5, 0.3, 0.4, 0.55],
        (0,),
        1,
    )
    best = shown(item("g", "ten eleven."), [0.9], (0,), 2)
    fitted = fit(Evidence().add([long, best]), 8)
    assert fitted.text == "seven eight nine.\n\nten eleven."


def test_the_tail_cap_cuts_the_first_fragment_it_removes_between_leaves():
    long = shown(item("h", "one two.", "three four.", "five six."), [0.5] * 5, (0,), 2)
    first = shown(item("i", "ten eleven."), [0.1], (0,), 1)
    fitted = fit(Evidence().add([first, long]), 9, "tail")
    assert fitted.text == "ten eleven.\n\none two. three four."


def test_the_best_leaf_is_cut_at_a_word_when_none_fits():
    fitted = fit(Evidence().add([TITLED]), 4)
    assert fitted.text == "one two three …"
    assert fitted.fragments[0].text == "one two three"
    assert fitted.fragments[0].stop == len("one two three")
    assert "cut" in fitted.fallbacks[0].reason
    assert fit(Evidence().add([TITLED]), 1).text == "o"


def test_the_tail_cap_too_takes_a_later_leaf_that_fits_before_it_cuts_one():
    first = shown(item("j", "one two three four."), [0.1], (0,), 1)
    second = shown(item("k", "five."), [0.9], (0,), 2)
    fitted = fit(Evidence().add([first, second]), 2, "tail")
    assert fitted.text == "five."
    assert fitted.entries[0].cut is None


def test_a_cut_costs_few_counts_however_long_the_leaf_is():
    counted = []

    def count(text):
        counted.append(len(text))
        return len(text.split())

    long = shown(item("l", "word " * 100_000), [0.5], (0,), 1)
    fitted = fit(Evidence(meter=Meter(count=count)).add([long]), 4)
    assert fitted.text == "word word word …"
    assert len(counted) < 60
    assert sum(length > 25_000 for length in counted) <= 1


def test_a_character_that_does_not_fit_is_shown_alone_and_said_to_be_too_long():
    meter = Meter(count=lambda text: 10 * len(text))
    fitted = fit(Evidence(meter=meter).add([FIRST, SECOND]), 5)
    assert fitted.text == "f"  # of the most similar leaf
    assert fitted.fallbacks[-1].reason == "not even one character fits 5 tokens"


def test_a_callers_count_is_asked_even_if_it_makes_more_tokens_than_bytes():
    meter = Meter(count=lambda text: 3 * len(text), exact=True)
    assert fit(Evidence(meter=meter).add([SECOND]), 20).tokens <= 20


def test_marks_that_outweigh_what_they_replace_are_not_written():
    blanks = shown(item("m", "one two.", "\u200b", "three."), [0.1, 0.3, 0.9, 0.1, 0.8], (2, 4), 1)
    plain = Meter(count=lambda text: len(text.replace("\u200b", "").split()))
    assert never_longer(blanks, plain).kept == (0,)
    assert Evidence(meter=plain).add([replace(blanks, kept=(0,))]).tokens == 3
    cut = fit(Evidence(meter=plain).add([blanks, shown(item("n", "six."), [0.1], (0,), 2)]), 4)
    assert cut.tokens <= cut.tokens_full


@pytest.mark.parametrize("cap", ["margin", "tail"])
def test_a_region_goes_rather_than_that_one_comes_which_was_not_selected(cap):
    blanks = shown(item("m", "one two.", "\u200b", "three."), [0.1, 0.3, 0.9, 0.1, 0.8], (2, 4), 1)
    plain = Meter(count=lambda text: len(text.replace("\u200b", "").split()))
    other = shown(item("n", "six seven."), [0.1], (0,), 2)
    cut = fit(Evidence(meter=plain).add([blanks, other]), 4, cap)
    (entry,) = cut.entries
    assert set(entry.kept) < {2, 4}
    assert cut.tokens <= cut.tokens_full


def test_a_mark_between_blank_rows_is_no_content():
    rows = TablePayload(header=("a",), rows=(("",), ("b",), ("",)), caption="")
    table = Item(
        id="t",
        modality="table",
        title="numbers",
        payload=rows,
        nodes=table_tree(3),
        source=Source(uri="t.csv"),
    )
    blank = shown(table, [0.0, 0.25, 0.25, 0.0, 0.0], (2, 4), 2)
    fitted = fit(Evidence().add([shown(item("n", "a."), [0.0], (0,), 1), blank]), 1)
    assert fitted.text.startswith("a")


def test_no_tokens_are_counted_where_more_is_left_out_than_a_mark_takes():
    middle = "A sentence that is longer than any mark that takes its place."
    entry = shown(item("o", "one.", middle, "three."), [0.1, 0.3, 0.9, 0.1, 0.8], (2, 4), 1)

    def count(text):
        raise AssertionError("counted")

    assert never_longer(entry, Meter(count=count)) is entry


def test_pictures_give_way_to_words():
    picture = Item(
        id="p",
        modality="image",
        title="cat",
        payload=ImagePayload(media="cat.png", width=1, height=1, caption="a cat"),
        nodes=image_tree(),
        source=Source(uri="cat.png"),
    )
    seeing = Evidence(meter=Meter(count_media=lambda part: 1000))
    entry = replace(shown(picture, [0.5], (0,), 1), why="image")
    fitted = fit(seeing.add([entry]), 10)
    assert fitted.tokens <= 10
    assert fitted.text == "cat\na cat"
    assert "pictures left out" in fitted.fallbacks[0].reason
    assert fit(seeing.add([entry]), 1010).fallbacks == ()


def test_no_budget_changes_nothing():
    assert fit(BOTH, None) is BOTH


def test_a_budget_below_one_and_an_unknown_cap_are_refused():
    with pytest.raises(ConfigError, match="at least 1"):
        fit(BOTH, 0)
    with pytest.raises(UnknownNameError, match="margin"):
        fit(BOTH, 5, "margins")


def test_regions_that_numbers_make_longer_than_the_item_are_shown_whole():
    many = item("m", *(f"w{i}." for i in range(6)))
    leaves = tuple(node.index for node in many.nodes if not node.children)[:-1]
    entry = shown(many, [0.5] * len(many.nodes), leaves, 1)
    assert never_longer(entry, Meter(numbered=True)).kept == (0,)
    assert never_longer(entry, Meter()) is entry
