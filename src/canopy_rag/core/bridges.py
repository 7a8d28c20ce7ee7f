"""What to search next, found without a model: names that the evidence brings in.

A question of several steps is answered by items that name each other: the fragment nearest to the
question says *Frank Capra*, and only Capra's own item says when he died. The follow-up query is
what that fragment leaves open of the question, and the names in it that were not searched for yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_WORD = re.compile(r"[^\W_][\w\u0300-\u036f]*(?:['’.-][^\W_][\w\u0300-\u036f]*)*")
_IN_PARENTHESES = re.compile(r"(?<!\s)\s*\([^()]*\)")
_MAX_NAMES = 8
"""More are a list, whose entries nothing tells apart."""
_LOOK = 10
"""Fragments looked at; further ones are too far from the question to lead on."""


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


_FUNCTION_WORDS = _listed(
    """a about after also although an and are as at be because been before being between both but
    by can could did do does during each first for former from had has have he her his how however
    if in into is it its last later made many may more most much name named no not of on one or
    other over same she since some than that the their them then there these they this those to two
    under until was we were what when where which while who whom whose why will with would you"""
)
_CALENDAR = _listed(
    """january february march april may june july august september october november december monday
    tuesday wednesday thursday friday saturday sunday"""
)
_PARTICLES = _listed("al bin da de del della den der di du el la le of the van von y")
_MAX_PARTICLES = 2
_ENDINGS = re.compile(
    r"(?:['’]s|ingly|edly|ations?|ators?|ings?|ers?|ors?|ies|ied|es|ed|s|ly|e|y)$"
)
_MIN_STEM = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Clue:
    """A sentence, row or segment as shown."""

    item_id: str
    title: str
    """Of its item."""
    context: str
    """What its item is shown under: title, headings, caption, header row."""
    text: str
    similarity: float
    """To the query of the round that found it."""


def follow_up_query(question: str, clues: Iterable[Clue], queries: Sequence[str]) -> str:
    """Return what to search next; empty if the evidence leads nowhere.

    It leads nowhere if the fragments nearest to the queries hold no name that is neither the title
    of a shown item nor part of a query so far. Names are words with capital letters, so evidence in
    scripts without them leads nowhere; function words and endings of words are English.

    Args:
        question: The user's question.
        clues: All that is shown.
        queries: What was searched so far.

    >>> shown = Clue(item_id="1", title="Lost Horizon", context="Lost Horizon",
    ...              text="It was directed by Frank Capra.", similarity=0.6)
    >>> follow_up_query("When did the director of Lost Horizon die?", [shown], [])
    'When did the of die Frank Capra'
    """
    shown = list(clues)
    searched = _plain(" ".join([question, *queries]))
    titles = {_plain(_IN_PARENTHESES.sub("", clue.title)) for clue in shown}
    for clue in sorted(shown, key=lambda each: -each.similarity)[:_LOOK]:
        found = [
            name
            for name in names(clue.text)
            if (plain := _plain(name)) not in titles and f" {plain} " not in f" {searched} "
        ]
        if found:
            said = _stems(f"{clue.context} {clue.text}")
            left = [word for word in _WORD.findall(question) if _stem(word) not in said]
            return " ".join([*left, *found[:_MAX_NAMES]])
    return ""


def covers(question: str, clues: Iterable[Clue]) -> bool:
    """Whether all content words of the question stand in what is shown of one item.

    >>> shown = Clue(item_id="1", title="Judo", context="Judo", text="Kano founded it in 1882.",
    ...              similarity=0.6)
    >>> covers("When was judo founded?", [shown]), covers("Who won in judo?", [shown])
    (True, False)
    """
    wanted = {
        _stem(word) for word in _WORD.findall(question) if word.lower() not in _FUNCTION_WORDS
    }
    shown: dict[str, set[str]] = {}
    for clue in clues:
        shown.setdefault(clue.item_id, _stems(clue.context)).update(_stems(clue.text))
    return bool(wanted) and any(wanted <= words for words in shown.values())


def names(text: str) -> list[str]:
    """Return the names in a text, each once, in order: runs of words with capital letters.

    Particles and numbers inside a name belong to it; function words that begin a sentence, months
    and days are no names.

    >>> names("In May 1934 the Bank of England hired J. R. Ney for Apollo 11.")
    ['Bank of England', 'J. R. Ney', 'Apollo 11']
    """
    found: dict[str, None] = {}
    run: list[re.Match[str]] = []
    pending = 0
    for word in [*_WORD.finditer(text), None]:
        if word is not None and run and _joins(text, run[-1], word):
            if word[0].lower() in _PARTICLES and pending < _MAX_PARTICLES:
                run.append(word)
                pending += 1
                continue
            if word[0][0].isupper() or (word[0].isdigit() and not pending):
                run.append(word)
                pending = 0
                continue
        name = _name(text, run[: len(run) - pending])
        if name:
            found.setdefault(name)
        run, pending = ([word] if word is not None and word[0][0].isupper() else []), 0
    return list(found)


def _joins(text: str, left: re.Match[str], right: re.Match[str]) -> bool:
    """Whether two words stand side by side, initials with their full stop."""
    gap = text[left.end() : right.start()]
    return gap == " " or (gap == ". " and len(left[0]) == 1)


def _name(text: str, run: Sequence[re.Match[str]]) -> str:
    """Return the name that a run of words is; empty if it is none."""
    words = [word[0].lower() for word in run]
    first = 0
    while first < len(run) and (
        words[first] in _FUNCTION_WORDS | _CALENDAR or words[first].isdigit()
    ):
        first += 1
    if first == len(run):
        return ""
    name = re.sub(r"['’]s?$", "", text[run[first].start() : run[-1].end()])
    return name if len(name) > 2 else ""


def _plain(text: str) -> str:
    return " ".join(_WORD.findall(text.lower()))


def _stems(text: str) -> set[str]:
    return {_stem(word) for word in _WORD.findall(text)}


def _stem(word: str) -> str:
    """Return a word in lower case without a common English ending."""
    word = word.lower()
    ending = _ENDINGS.search(word, _MIN_STEM)
    return word[: ending.start()] if ending else word
