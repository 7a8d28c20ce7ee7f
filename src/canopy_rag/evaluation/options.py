"""Which option of a multiple-choice question a reply chooses."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Sequence

from canopy_rag.evaluation.normalise import joined, without_punctuation

_MAX_OPTIONS = len(string.ascii_uppercase)
_LINK = r"(?:\s+(?:is|are|would\s+be|must\s+be))?\s*[:=\-]*\s*"
_WORD = r"[A-Za-z0-9_\u00c0-\u024f'’]"
"""What makes a letter part of a word; Chinese characters stand beside it without a blank."""
_ARTICLE_OR_PRONOUN = frozenset("AI")
_GOES_ON_AFTER_LETTER = frozenset(
    ("and", "or", "nor", "but", "is", "as", "are", "because", "since")
)
"""Words after which a single A or I is a letter and not the article or pronoun."""


def chosen_option(reply: str, options: Sequence[str]) -> str | None:
    r"""Return the letter of the option that a reply chooses; None if it chooses none, or several.

    The first of these that finds a letter decides:

    1. the whole reply is a letter, punctuation around it aside, or an option's text;
    2. letters announced as the answer: `Answer: B`, `the answer is (B)`; else as an option:
       `option B`;
    3. a letter in parentheses, brackets or `\boxed{}`, or one that starts a line before a full
       stop, colon or parenthesis: `(B)`, `B. a red car`;
    4. an option's text within the reply, unless a longer option's text covers it;
    5. capital letters that stand alone, leaving out the article A and the pronoun I.

    Args:
        reply: A reader's reply.
        options: The texts of the options, in order; the first is A. A letter of its own before a
            text (`(A) ...`) is ignored.

    Raises:
        ValueError: Without options, or with more than 26.

    >>> chosen_option("The answer is (B).", ["a red car", "a blue car"])
    'B'
    >>> chosen_option("A blue car!", ["a red car", "a blue car"])
    'B'
    >>> chosen_option("A or B", ["a red car", "a blue car"]) is None
    True
    """
    if not 0 < len(options) <= _MAX_OPTIONS:
        raise ValueError(f"a multiple-choice question has 1 to 26 options, this has {len(options)}")
    letters = string.ascii_uppercase[: len(options)]
    text = _lines(unicodedata.normalize("NFKC", reply))
    texts = {
        letter: _plain(_without_letter(option, letter))
        for letter, option in zip(letters, options, strict=True)
    }
    for found in (
        _whole(text, texts),
        _announced("answers?", text, letters),
        _announced("(?:options?|choices?)", text, letters),
        _marked(text, letters),
        _quoted(text, texts),
        _alone(text, letters),
    ):
        if found:
            return found.pop() if len(found) == 1 else None
    return None


def _lines(text: str) -> str:
    return "\n".join(joined(line) for line in text.splitlines() if line.strip())


def _whole(text: str, texts: dict[str, str]) -> set[str]:
    letter = re.sub(r"[\W_]+", "", text).upper()
    if letter in texts:
        return {letter}
    plain = _plain(text)
    return {letter for letter, option in texts.items() if option and option == plain}


def _announced(word: str, text: str, letters: str) -> set[str]:
    one = rf"(?:\([{letters}{letters.lower()}]\)|\W{{0,3}}\b[{letters}]\b(?![’']))"
    listed = rf"{one}(?:\s*(?:,|/|&|and|or|,\s*and|,\s*or)\s*{one})*"
    pattern = re.compile(rf"(?i:\b{word}\b{_LINK}(?P<choice>(?-i:{listed})))")
    return {
        letter
        for match in pattern.finditer(text)
        if not _goes_on_as_prose(text, match.end("choice"))
        for letter in _bracketed(match["choice"], letters)
        | set(re.findall(rf"\b[{letters}]\b", match["choice"]))
    }


def _marked(text: str, letters: str) -> set[str]:
    leading = rf"(?m:^)[\W_]{{0,4}}([{letters}])[*_]{{0,2}}\s?[.):]"
    return _bracketed(text, letters) | set(re.findall(leading, text))


def _bracketed(text: str, letters: str) -> set[str]:
    pattern = rf"[(\[{{]\s*([{letters}{letters.lower()}])\s*[)\]}}]"
    return {letter.upper() for letter in re.findall(pattern, text)}


def _quoted(text: str, texts: dict[str, str]) -> set[str]:
    plain = f" {_plain(text)} "
    inside = {letter for letter, option in texts.items() if option and f" {option} " in plain}
    return {
        letter
        for letter in inside
        if not any(
            letter != other and f" {texts[letter]} " in f" {texts[other]} " for other in inside
        )
    }


def _alone(text: str, letters: str) -> set[str]:
    return {
        match[0]
        for match in re.finditer(rf"(?<!{_WORD})[{letters}](?!{_WORD})", text)
        if not _goes_on_as_prose(text, match.end())
        and not text[: match.start()].lower().endswith("not ")
    }


def _goes_on_as_prose(text: str, end: int) -> bool:
    """Return whether the letter before `end` is the article A or the pronoun I."""
    if text[end - 1] not in _ARTICLE_OR_PRONOUN:
        return False
    follows = re.match(r" (\w+)", text[end:])
    return follows is not None and follows[1].lower() not in _GOES_ON_AFTER_LETTER


def _without_letter(option: str, letter: str) -> str:
    return re.sub(rf"^\s*(?:\({letter}\)|{letter}[.):])\s+", "", option)


def _plain(text: str) -> str:
    return joined(without_punctuation(unicodedata.normalize("NFKC", text).casefold()))
