from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from canopy_rag.core.errors import ConfigError
from canopy_rag.core.protocols import SentenceSplitter
from canopy_rag.text import DefaultSplitter

SPLITTER = DefaultSplitter()


def sentences(text: str) -> list[str]:
    return [text[start:stop] for start, stop in SPLITTER.split(text)]


def assert_covers(text: str, pieces: list[tuple[int, int]]) -> None:
    """Ascending, disjoint, trimmed, not empty, and only white space lies between them."""
    position = 0
    for start, stop in [*pieces, (len(text), len(text))]:
        assert not text[position:start].strip(), (text[position:start], pieces)
        assert position <= start
        if start < len(text):
            assert start < stop
            assert text[start:stop] == text[start:stop].strip()
        position = stop


TRICKY = st.text(
    st.sampled_from(
        'aB1 .!?;:,()[]"”»\n\r\t-_…。！？「」と，؟۔।ก ๆé\u0301\u200b\u200d\x0b\x1c\u2028'
    )
)


@given(st.one_of(st.text(), TRICKY))
@settings(deadline=None, max_examples=400)
def test_no_character_but_white_space_is_lost(text: str) -> None:
    assert_covers(text, SPLITTER.split(text))


@given(TRICKY, st.integers(1, 12))
@settings(deadline=None, max_examples=200)
def test_no_sentence_is_longer_than_the_limit(text: str, limit: int) -> None:
    pieces = DefaultSplitter(max_chars=limit).split(text)
    assert_covers(text, pieces)
    assert all(stop - start <= limit for start, stop in pieces)


def test_it_is_a_sentence_splitter() -> None:
    assert isinstance(SPLITTER, SentenceSplitter)


@pytest.mark.parametrize(
    "expected",
    [
        [
            "Dr. Smith et al. went to the U.S. with J. R. Tolkien on Jan. 3, 2020.",
            "They saw e.g. lions.",
            "It was good.",
        ],
        ["(See Fig. 3.)", 'He said "Go."', "Then he went.", "Really?!", "Version 3.2.1 is out."],
        ["Wind and rain; Storms came.", "See www.example.com for more."],
        ["Am 3. Mai kam er.", "Das ist z. B. gut."],
        ["Он родился в г. Москве.", "А. С. Пушкин писал."],
        ["ذهب الولد إلى المدرسة.", "هل أكل؟", "نعم.", "قال د. أحمد ذلك۔", "ٹھیک ہے۔"],
        ["הילד הלך לבית הספר.", "מה קרה?", 'ארה"ב גדולה.'],
        ["राम घर गया।", "वह खुश था॥", "फिर?"],
        ["안녕하세요.", "저는 학생입니다.", "정말요?"],
    ],
    ids=["abbreviations", "quotes", "semicolon", "german", "russian", "arabic", "hebrew", "hindi",
         "korean"],
)  # fmt: skip
def test_sentences_end_where_a_reader_ends_them(expected: list[str]) -> None:
    assert sentences(" ".join(expected)) == expected


@pytest.mark.parametrize(
    "expected",
    [
        ["他说：“你好。”", "然后走了。", "真的吗？！", "是的!", "好"],
        ["「そうです。」と言った。", "次の文。", "「はい。」", "彼は笑った。"],
        ["圆周率是３．１４。", "对。"],
    ],
    ids=["chinese", "japanese", "full width number"],
)
def test_chinese_and_japanese_need_no_space_between_sentences(expected: list[str]) -> None:
    assert sentences("".join(expected)) == expected


def test_mixed_scripts_are_split_by_the_marks_of_each() -> None:
    assert sentences("He said 你好。 Then he left. مرحبا؟ Yes.") == [
        "He said 你好。",
        "Then he left.",
        "مرحبا؟",
        "Yes.",
    ]


def test_thai_is_cut_at_spaces_between_phrases_but_not_before_numbers_or_repetition() -> None:
    phrase = "กรุงเทพมหานครเป็นเมืองหลวงและนครที่มีประชากรมากที่สุดของประเทศไทย"
    text = f"{phrase} ปี 2020 มีคนต่าง ๆ มากมายในเมืองนี้ {phrase} ปี 2020 มีคนต่าง ๆ"
    pieces = sentences(text)
    assert len(pieces) > 1
    assert all(len(piece) < 170 for piece in pieces)
    assert not any(piece.startswith(("2020", "ๆ")) for piece in pieces)
    assert " ".join(pieces) == text


def test_stray_marks_stay_with_the_sentence_before() -> None:
    assert sentences("やった。 ♪♪。 次。") == ["やった。 ♪♪。", "次。"]


def test_a_line_break_in_wrapped_prose_is_white_space() -> None:
    text = (
        "This is a hard wrapped paragraph that goes on for\n"
        "several lines. It was wrapped at fifty characters\n"
        "or so, and ends there. Nothing else is to be said\n"
        "of it."
    )
    assert len(sentences(text)) == 3


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r", "\u2028"])
def test_list_marks_begin_entries(newline: str) -> None:
    text = newline.join(["Buy:", "- milk", "  from the farm", "- eggs", "3. bread"])
    assert sentences(text) == ["Buy:", f"- milk{newline}  from the farm", "- eggs", "3. bread"]


def test_lines_that_left_room_for_the_next_word_are_entries() -> None:
    lines = ["Name: Ada", "Born in the year: 1815", "City: London", "Trade: mathematics"]
    assert sentences("\n".join(lines)) == lines


def test_aligned_columns_are_entries() -> None:
    lines = ["2019    31    44", "2020    17    48", "2021    18    49"]
    assert sentences("\n".join(lines)) == lines


def test_two_lines_alone_are_not_taken_for_entries() -> None:
    assert sentences("The name of the place\nis London") == ["The name of the place\nis London"]


def test_a_long_sentence_is_cut_at_a_weak_mark_or_a_space() -> None:
    pieces = sentences("word " * 150 + "end; " + "word " * 300)
    assert pieces[0].endswith("end;")
    assert all(len(piece) <= 1000 for piece in pieces)
    assert all(piece.split()[0] in {"word", "end;"} for piece in pieces)


def test_a_word_of_five_million_letters_is_cut() -> None:
    text = "x" * 5_000_000
    pieces = SPLITTER.split(text)
    assert_covers(text, pieces)
    assert max(stop - start for start, stop in pieces) == 1000


def test_a_cut_inside_a_word_keeps_combining_marks_with_their_letter() -> None:
    pieces = DefaultSplitter(max_chars=10).split("e\u0301" * 30)
    assert all((stop - start) % 2 == 0 for start, stop in pieces)


@pytest.mark.parametrize("unit", [". ", "。 ", "( ", '."" ', "ab\n", "a. (b) ", "你!"])
def test_half_a_million_characters_of_marks_pass(unit: str) -> None:
    text = unit * (500_000 // len(unit))
    assert_covers(text, SPLITTER.split(text))


def test_nothing_is_found_in_white_space() -> None:
    assert SPLITTER.split("") == SPLITTER.split(" \n\t ") == []


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="max_chars must be above 0, got 0"):
        DefaultSplitter(max_chars=0)


def test_the_rules_of_syntok_are_loaded_at_their_first_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in sys.modules if name.startswith("syntok")]:
        monkeypatch.delitem(sys.modules, name)
    SPLITTER.split("没有。西文")
    assert "syntok.segmenter" not in sys.modules
    SPLITTER.split("One. Two.")
    assert "syntok.segmenter" in sys.modules
