"""Sound files to damaged and hostile ones: bytes, containers, markup; also made-up ones."""

from __future__ import annotations

import io
import random
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence

Mutation = Callable[[bytes, random.Random, Sequence[bytes]], bytes]
"""Takes a sound file, a source of chance, and the other sound files of its format."""

ZIPPED = frozenset({".docx", ".xlsx", ".ods"})
MARKED_UP = frozenset({".html", ".md", ".vtt", ".ass"})

_NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
_TOKENS: dict[str, tuple[bytes, ...]] = {
    ".pdf": (
        b"endobj", b"endstream", b"stream\n", b"<<", b">>", b"/Length 999999999", b"/Length -1",
        b"/Kids [1 0 R 2 0 R 3 0 R]", b"/Parent 1 0 R", b"/Filter [/FlateDecode /FlateDecode]",
        b"/Type /ObjStm", b"xref\n0 99999\n", b"startxref\n0\n", b"/Count 2147483647",
        b"/MediaBox [0 0 1e30 1e30]", b"/MediaBox [0 0 0 0]", b"/Rotate 45", b"/Encrypt 5 0 R",
        b"1 0 0 1 0 0 cm", b"BT", b"ET", b"q " * 40, b"/F1 1e9 Tf",
    ),
    ".html": (
        b"<table>", b"</table>", b"<td colspan=99999 rowspan=99999>", b"<div>" * 50, b"<!--",
        b"-->",
        b"<script>", b"<svg>", b"<template>", b"&#xD800;", b"&#x110000;", b"&#0;", b"<![CDATA[",
        b"<math alttext='x'>", b"<form>", b"<frameset>", b"<plaintext>", b"<select><option>",
        b"<meta charset=utf-16>", b"<meta charset=utf-7>", b"<h1>", b"<a><b></a></b>", b"\0",
    ),
    ".md": (
        b"|" * 30, b"\n\n", b"#" * 7, b"```", b"~~~", b"> " * 60, b"- " * 60, b"[a][a]\n\n[a]: b",
        b"![](data:image/png;base64,AAAA)", b"<!--", b"<div>", b"\\", b"`" * 20, b"*" * 50, b"\0",
        b"[" * 40, b"| a | b |\n|---|\n",
    ),
    ".jsonl": (
        b"\n", b"[" * 60, b"{" * 60, b'{"text": ', b"NaN", b"1e999", b"-0", b'"\\ud800"', b"null",
        b'{"table": {"rows": [[]]}}', b'{"path": "../../x"}', b'{"id": [], "text": "a"}', b"\xff",
        b'{"table": {"header": ["a"], "rows": [["a"], ["a", "b", "c"]]}}', b'{"text": 1}',
    ),
    ".csv": (b'"', b'""', b"\n" * 9, b"," * 99, b"\0", b"\r", b"\xff", b"\xef\xbb\xbf", b"\t"),
}  # fmt: skip
_XML_TOKENS = (
    b"<!DOCTYPE a [<!ENTITY x 'y'><!ENTITY z '&x;&x;'>]>", b"&z;", b"&#xD800;", b"]]>",
    b"<a:b xmlns:a='c'/>", b"<?xml version='1.1'?>", b"9999999", b"-1", b"1e308", b"A1:XFD1048576",
    b"gridSpan", b"</w:p>", b"</row>", b"</table:table-row>",
    b" table:number-columns-repeated='99999'",
    b" table:number-rows-repeated='999999'", b' r="ZZZ99999999"', b' s="4294967295"', b' t="s"',
)  # fmt: skip


_DAMAGED = (
    zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError,
    ValueError, struct.error, KeyError,
)  # fmt: skip


def mutate(
    data: bytes, suffix: str, rng: random.Random, others: Sequence[bytes]
) -> tuple[bytes, str]:
    """Return a mutated file and what was done to it.

    Args:
        data: A sound file.
        suffix: Its format, with the dot.
        rng: The source of chance.
        others: Sound files of the same format.
    """
    kinds: list[Mutation] = [flip, cut, splice, repeat, number, token(suffix)]
    if suffix in ZIPPED:
        kinds += [zip_member(suffix)] * 6
    if suffix in MARKED_UP:
        kinds += [markup] * 3
    if suffix == ".png":
        kinds += [png_chunk] * 3
    if suffix == ".pdf":
        kinds += [pdf_reference] * 2
    done = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        kind = rng.choice(kinds)
        data = kind(data, rng, others)
        done.append(kind.__name__)
    return data, "+".join(done)


def flip(data: bytes, rng: random.Random, _others: Sequence[bytes]) -> bytes:
    """Set some bytes to others, near one another or anywhere."""
    changed = bytearray(data)
    near = rng.random() < 0.3 and len(data) > 64
    begin = rng.randrange(len(data) - 32) if near else 0
    for _ in range(rng.choice((1, 2, 8, 32))):
        if changed:
            at = begin + rng.randrange(32) if near else rng.randrange(len(changed))
            changed[at] = rng.choice((changed[at] ^ (1 << rng.randrange(8)), rng.randrange(256), 0))
    return bytes(changed)


def cut(data: bytes, rng: random.Random, _others: Sequence[bytes]) -> bytes:
    """Leave out the end, the beginning or a stretch."""
    if not data:
        return data
    one, other = sorted((rng.randrange(len(data)), rng.randrange(len(data))))
    return rng.choice((data[:one], data[other:], data[:one] + data[other:]))


def splice(data: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    """Put a stretch of another file, or of this one, somewhere."""
    source = rng.choice(others)
    if not source or not data:
        return data
    begin, at = rng.randrange(len(source)), rng.randrange(len(data))
    stretch = source[begin : begin + rng.choice((4, 64, 1024, 20_000))]
    return data[:at] + stretch + data[at + rng.choice((0, len(stretch))) :]


def repeat(data: bytes, rng: random.Random, _others: Sequence[bytes]) -> bytes:
    """Repeat a stretch many times."""
    if not data:
        return data
    at = rng.randrange(len(data))
    stretch = data[at : at + rng.choice((1, 8, 64))]
    return data[:at] + stretch * rng.choice((2, 50, 2000)) + data[at:]


def number(data: bytes, rng: random.Random, _others: Sequence[bytes]) -> bytes:
    """Write a number that is a border of some type over two, four or eight bytes."""
    kind = rng.choice(["<H", ">H", "<I", ">I", "<Q", ">Q"])
    size = struct.calcsize(kind)
    if len(data) <= size:
        return data
    at = rng.randrange(min(len(data) - size, rng.choice((256, 4096, len(data)))) or 1)
    value = rng.choice(_NUMBERS) & (256**size - 1)
    return data[:at] + struct.pack(kind, value) + data[at + size :]


def token(suffix: str) -> Mutation:
    """Return the mutation that writes a word of a format somewhere."""
    tokens = _TOKENS.get(
        ".csv" if suffix == ".tsv" else suffix, (b"\0", b"\xff\xff", b" " * 99, b"\n")
    )

    def word(data: bytes, rng: random.Random, _others: Sequence[bytes]) -> bytes:
        at = rng.randrange(len(data) + 1)
        written = rng.choice(tokens)
        return data[:at] + written + data[at + rng.choice((0, len(written))) :]

    return word


def markup(data: bytes, rng: random.Random, _others: Sequence[bytes]) -> bytes:
    """Leave out, double, move or nest what stands between two marks."""
    marks = [mark.start() for mark in re.finditer(rb"[<|#\n]", data)]
    if len(marks) < 3:
        return data
    one, other = sorted(rng.sample(marks, 2))
    part = data[one:other]
    return rng.choice(
        (
            data[:one] + data[other:],
            data[:one] + part * rng.choice((2, 40)) + data[other:],
            data[:one] + data[other:] + part,
            data[:one] + part[: len(part) // 2] + part + part[len(part) // 2 :] + data[other:],
        )
    )


def zip_member(suffix: str) -> Mutation:
    """Return the mutation of what a zip file holds: a member's XML, or the members themselves."""
    words = token(suffix)

    def member(data: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                members = {name: archive.read(name) for name in archive.namelist()}
        except _DAMAGED:
            return flip(data, rng, others)  # damaged by the mutation before this one
        names = sorted(members)
        one, other = rng.choice(names), rng.choice(names)
        what = rng.randrange(8)
        if what == 0:
            del members[one]
        elif what == 1:
            members[one], members[other] = members[other], members[one]
        elif what == 2:
            members[one] = b""
        elif what == 3:
            at = rng.randrange(len(members[one]) + 1)
            members[one] = members[one][:at] + rng.choice(_XML_TOKENS) + members[one][at:]
        elif what == 4:
            members[one] = _numbers(members[one], rng)
        else:
            change = rng.choice((flip, cut, markup, repeat, words))
            members[one] = change(members[one], rng, [members[other]])
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return buffer.getvalue()

    return member


def _numbers(text: bytes, rng: random.Random) -> bytes:
    """Change some of the numbers that a text holds."""
    share = rng.choice((0.02, 0.3))
    values = (b"0", b"-1", b"4294967296", b"99999999999999999999", b"1e999", b"", b"x")
    return re.sub(
        rb"\d+", lambda found: rng.choice(values) if rng.random() < share else found[0], text
    )


def png_chunk(data: bytes, rng: random.Random, _others: Sequence[bytes]) -> bytes:
    """Change a PNG's chunk and mend its checksum, so that what is inside is looked at."""
    chunks, at = [], 8
    while at + 12 <= len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        chunks.append((data[at + 4 : at + 8], data[at + 8 : at + 8 + length]))
        at += 12 + length
    if not chunks:
        return data
    place = rng.randrange(len(chunks))
    kind, content = chunks[place]
    what = rng.randrange(4)
    if what == 0 and content:
        chunks[place] = (kind, flip(content, rng, ()))
    elif what == 1:
        chunks.insert(place, rng.choice(chunks))
    elif what == 2:
        del chunks[place]
    elif kind == b"IHDR":
        width, height = (rng.choice((0, 1, 64, 0x7FFF, 0x7FFFFFFF)) for _ in range(2))
        chunks[place] = (kind, struct.pack(">II", width, height) + content[8:])
    return data[:8] + b"".join(
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in chunks
    )


def pdf_reference(data: bytes, rng: random.Random, _others: Sequence[bytes]) -> bytes:
    """Let a reference of a PDF name another object, its own for one."""
    found = list(re.finditer(rb"(\d+) 0 R", data))
    if not found:
        return data
    changed = rng.choice(found)
    target = rng.choice(found)[1]
    return data[: changed.start(1)] + target + data[changed.end(1) :]


def made_up(n: int) -> list[tuple[str, bytes]]:
    """Return suffix and content of files that hypothesis makes: grids, pages, documents.

    Args:
        n: How many of each of the four kinds.
    """
    import json

    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import strategies as some

    made: list[tuple[str, bytes]] = []
    calm = settings(
        max_examples=n,
        database=None,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    text = some.text(max_size=12)
    cells = some.lists(some.lists(text, max_size=6), max_size=8)
    tags = some.sampled_from(
        [
            "div",
            "p",
            "table",
            "tr",
            "td",
            "th",
            "h1",
            "h2",
            "li",
            "ul",
            "pre",
            "br",
            "img",
            "form",
            "svg",
            "math",
            "script",
            "template",
        ]
    )
    nodes = some.recursive(
        text,
        lambda inner: some.tuples(tags, some.lists(inner, max_size=4)).map(
            lambda node: f"<{node[0]}>{''.join(node[1])}</{node[0]}>"
        ),
        max_leaves=20,
    )
    values = some.recursive(
        some.none() | some.booleans() | some.integers() | some.floats() | text,
        lambda inner: (
            some.lists(inner, max_size=4)
            | some.dictionaries(
                some.sampled_from(
                    [
                        "id",
                        "title",
                        "text",
                        "table",
                        "header",
                        "rows",
                        "section",
                        "modality",
                        "path",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )

    @calm
    @given(cells)
    def grids(rows: list[list[str]]) -> None:
        body = "\n".join(",".join(row) for row in rows)
        made.append((".csv", body.encode("utf-8", "surrogatepass")))
        body = "\n".join("|" + "|".join(row) + "|" for row in rows)
        made.append((".md", body.encode("utf-8", "surrogatepass")))

    @calm
    @given(some.lists(nodes, max_size=4))
    def pages(parts: list[str]) -> None:
        made.append((".html", "".join(parts).encode("utf-8", "surrogatepass")))

    @calm
    @given(some.lists(values, max_size=3))
    def documents(lines: list[object]) -> None:
        made.append((".jsonl", "\n".join(map(json.dumps, lines)).encode()))

    grids()
    pages()
    documents()
    return made
