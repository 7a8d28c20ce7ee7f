"""A cheap guess whether a text is in English, to warn when the encoder knows nothing else."""

from __future__ import annotations

import re
from collections import Counter

_WORD = re.compile(r"[^\W\d_]+")
_SAMPLE_CHARS = 20_000
_MIN_WORDS = 8
_MAX_FOREIGN_LETTERS = 0.3

# Common words of English, and of other languages in the Latin script; none stands in both.
_ENGLISH_WORDS = """the of and to is that it for was with as his he be this are or had by not but
from have which she they you were their been has would there what when who will more if out so can
about into than its our your them these because how does did where"""
_OTHER_WORDS = """der das und ist nicht ein eine einen dem den des mit von zu auf für sich auch
wird sind im le la les et est une dans que qui pour pas sur au avec ce cette sont du ne il elle el
los las y en por con para una como más pero su al se del lo di che è per non sono della nel gli dei
anche questo de het een van dat zijn niet aan voor met ook o os um uma não com dos ao mais och att
det som på av inte är för jag ikke og na się nie jest że w z je ve bir bu ile için yang dan dengan
untuk tidak ini va és hogy nem egy ja ei että"""
_ENGLISH = frozenset(_ENGLISH_WORDS.split())
_OTHERS = frozenset(_OTHER_WORDS.split())


def looks_non_english(text: str) -> bool:
    """Tell whether `text` is probably not English.

    By the script of its letters first (more than 30 % outside the Latin script), then by the
    commonest words of English against those of other languages in the Latin script. A text too
    short to tell, such as a name or a number, passes for English. Only the first 20,000 characters
    are read.

    >>> looks_non_english("The cat sat on the mat because it was tired of all that running.")
    False
    >>> looks_non_english("这是一个句子。")
    True
    >>> looks_non_english("Der Hund und die Katze sind nicht im Haus.")
    True
    """
    words = _WORD.findall(text[:_SAMPLE_CHARS].lower())
    letters = sum(map(len, words))
    # Latin letters, with their diacritics, lie below U+0250 and between U+1E00 and U+1EFF.
    foreign = sum(
        not (char < "\u0250" or "\u1e00" <= char <= "\u1eff") for word in words for char in word
    )
    if foreign > _MAX_FOREIGN_LETTERS * max(letters, 1):
        return True
    if len(words) < _MIN_WORDS:
        return False
    counts = Counter(words)
    english = sum(counts[word] for word in _ENGLISH)
    others = sum(counts[word] for word in _OTHERS)
    return others > english and others >= 0.1 * len(words)
