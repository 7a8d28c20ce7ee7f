"""Numbers and texts in words, safe to print."""

from __future__ import annotations

import unicodedata


def clean(text: str) -> str:
    r"""Return `text` without control characters, which could make a terminal do things.

    >>> clean("a\x1b[31mb\tc")
    'a[31mb\tc'
    """
    return "".join(one for one in text if one in "\n\t" or unicodedata.category(one) != "Cc")


def one_line(text: str) -> str:
    """Return `text` on one line, without control characters."""
    return " ".join(clean(text).split())


def count(n: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun.

    >>> count(1, "leaf", "leaves"), count(3, "file")
    ('1 leaf', '3 files')
    """
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def of(part: int, whole: int) -> str:
    """Return a share of tokens in words.

    >>> of(57, 229)
    '57 of 229 tokens (25 %)'
    """
    share = f" ({100 * part / whole:.0f} %)" if whole else ""
    return f"{part:,} of {whole:,} tokens{share}"


def size(n_bytes: int) -> str:
    """Return a number of bytes in words.

    >>> size(2_345_678), size(512)
    ('2.3 MB', '512 bytes')
    """
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= factor:
            return f"{n_bytes / factor:.1f} {unit}"
    return count(n_bytes, "byte")
