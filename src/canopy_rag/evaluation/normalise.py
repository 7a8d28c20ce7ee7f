"""How answers are written before they are compared, and read before they are scored."""

from __future__ import annotations

import json
import re
import string

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_LIST_MARK = re.compile(r"^\s*(?:[-*•]|\(?\d{1,2}[.)])\s+")


def normalised(text: str) -> str:
    """Return an answer as SQuAD and HotpotQA compare it.

    Lower case, without ASCII punctuation, without the words a, an and the, single blanks. Other
    punctuation (a typographic quote, an en dash) stays, as in the official scripts.

    >>> normalised("The  Alpha-Beta, Inc.")
    'alphabeta inc'
    """
    return joined(without_articles(without_punctuation(text.lower())))


def without_punctuation(text: str) -> str:
    """Delete ASCII punctuation."""
    return text.translate(_PUNCTUATION)


def without_articles(text: str) -> str:
    """Put a blank in place of each word a, an and the; the text is in lower case."""
    return _ARTICLES.sub(" ", text)


def joined(text: str) -> str:
    """Write every run of white space as one blank, none at the ends."""
    return " ".join(text.split())


def answer_parts(text: str) -> tuple[str, ...]:
    r"""Split a reply into the answers that it lists.

    A JSON list is taken entry by entry, several lines line by line without bullets and numbers, and
    one line at its semicolons. Commas do not split: they are part of names, dates and numbers.

    Args:
        text: A reader's reply.

    Returns:
        The answers in the order written, none empty; nothing for a blank reply.

    >>> answer_parts("- 1 May 1950\n- 2 June 1951")
    ('1 May 1950', '2 June 1951')
    >>> answer_parts("Paris, Texas; Rome")
    ('Paris, Texas', 'Rome')
    """
    listed = _json_list(text)
    if listed is None:
        lines = [line for line in text.splitlines() if line.strip()]
        listed = [_LIST_MARK.sub("", line) for line in lines] if len(lines) > 1 else text.split(";")
    return tuple(part.strip() for part in listed if part.strip())


def _json_list(text: str) -> list[str] | None:
    if not text.lstrip().startswith("["):
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    if not isinstance(value, list) or any(isinstance(part, (list, dict)) for part in value):
        return None
    return [part if isinstance(part, str) else json.dumps(part) for part in value]
