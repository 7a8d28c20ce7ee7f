"""Random folders of files in many scripts, with what a reader of the files knows of them."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

_TOLD = {
    "latin": "river castle über naïve Ångström résumé market 3.14 bridge Œuvre winter Zürich",
    "cyrillic": "река замок зима мост рынок книга подъезд ёлка",
    "greek": "ποτάμι κάστρο χειμώνας γέφυρα αγορά βιβλίο",
    "hebrew": "נהר טירה חורף גשר שוק סֵפֶר",
    "arabic": "نهر قلعة شتاء جسر سوق كِتَاب",
    "hindi": "नदी किला सर्दी पुल बाज़ार किताब",
    "thai": "แม่น้ำ ปราสาท ฤดูหนาว สะพาน ตลาด",
    "han": "河流 城堡 冬天 桥梁 市场 书籍",
    "kana": "かわ しろ ふゆ はし いちば ほん",
    "hangul": "강 성 겨울 다리 시장 책",
    "signs": "👩‍👩‍👧 🇩🇪 e\u0301 [1] [12] … | # * > \u200f \u202b \ufeff <b> &amp; a\u200bb",
}
_WORDS = {script: tuple(words.split(" ")) for script, words in _TOLD.items()}
_ENDS = {"hindi": "।", "han": "。", "kana": "。", "arabic": "؟"}
_SPACES = (" ", " ", " ", " ", "  ", "\u00a0", "\u2003", "\t", "\u3000", "\u2009")
_BREAKS = ("\n\n", "\n\n", "\n \n", "\r\n\r\n", "\n\n\n\n", "\n\t\n")
_TITLES = ("", "Bees", "Ключ", "Größe 2", "第一章")
KINDS = ("txt", "md", "html", "csv", "jsonl")


@dataclass(slots=True)
class Written:
    """A file, and what is in it."""

    name: str
    content: bytes
    text: str = ""
    """Its characters, of plain text and Markdown."""
    rows: list[list[str]] = field(default_factory=list)
    """All rows of a table."""
    documents: list[str | list[list[str]]] = field(default_factory=list)
    """Texts and tables (header first) of a list of documents."""
    words: list[str] = field(default_factory=list)
    """All visible words of a page, in order."""

    @property
    def kind(self) -> str:
        """Its suffix without the dot."""
        return self.name.rpartition(".")[2]


def folder(dice: random.Random, most: int = 6) -> list[Written]:
    """Return random files."""
    makers: dict[str, Callable[[random.Random, str], Written]] = {
        "txt": _plain, "md": _markdown, "html": _page, "csv": _table, "jsonl": _documents,
    }  # fmt: skip
    files = []
    for number in range(dice.randint(1, most)):
        kind = dice.choice(KINDS)
        stem = f"{dice.choice(['notes', 'Größe', '河流', 'a b', 'it’s'])} {number}"
        files.append(makers[kind](dice, f"{stem}.{kind}"))
    return files


def save(files: list[Written], place: Path) -> None:
    """Write files into a folder."""
    place.mkdir(parents=True, exist_ok=True)
    for each in files:
        (place / each.name).write_bytes(each.content)


def question(dice: random.Random, files: list[Written]) -> str:
    """Return words, most of them of one of the scripts of the files."""
    script = dice.choice(list(_WORDS))
    found = " ".join(dice.choices((*_WORDS[script], *_WORDS["latin"][:3]), k=dice.randint(1, 5)))
    return found if found.strip() else "river"


def sentence(dice: random.Random) -> str:
    """Return a sentence of one script, mostly."""
    script = dice.choice(list(_WORDS))
    words = dice.choices(_WORDS[script], k=dice.randint(1, 9))
    if dice.random() < 0.2:
        words.append(dice.choice(_WORDS[dice.choice(list(_WORDS))]))
    return dice.choice(_SPACES).join(words) + _ENDS.get(script, dice.choice(".!?"))


def paragraph(dice: random.Random) -> str:
    """Return sentences, some of them twice."""
    told = [sentence(dice) for _ in range(dice.randint(1, 6))]
    if dice.random() < 0.3:
        told.append(told[0])
    return dice.choice([" ", "  ", "\n"]).join(told)


def _plain(dice: random.Random, name: str) -> Written:
    parts = [paragraph(dice) for _ in range(dice.randint(1, 8))]
    if dice.random() < 0.3:
        parts.insert(0, parts[-1])
    text = parts[0] + "".join(dice.choice(_BREAKS) + part for part in parts[1:])
    text = dice.choice(["", "\n", " "]) + "River " + text + dice.choice(["", "\n", "\n\n \n"])
    encoding = dice.choice(["utf-8", "utf-8", "utf-8-sig", "utf-16"])
    return Written(name, text.encode(encoding), text=text)


def _markdown(dice: random.Random, name: str) -> Written:
    parts = []
    for _ in range(dice.randint(1, 7)):
        kind = dice.random()
        if kind < 0.25:
            parts.append("#" * dice.randint(1, 4) + f" {dice.choice(_TITLES)}")
        elif kind < 0.4:
            parts.append("\n".join(f"- {sentence(dice)}" for _ in range(dice.randint(1, 4))))
        elif kind < 0.5:
            parts.append(f"```\n{sentence(dice)}\n\n  {sentence(dice)}\n```")
        elif kind < 0.6:
            parts.append("| a | b |\n|---|---|\n" + "\n".join("| x | 1 |" for _ in range(3)))
        else:
            parts.append(paragraph(dice))
    text = "River.\n\n" + "\n\n".join(parts) + "\n"
    return Written(name, text.encode(), text=text)


def _page(dice: random.Random, name: str) -> Written:
    parts, words = ["<p>River begins.</p>"], ["River begins."]
    for _ in range(dice.randint(1, 6)):
        told = paragraph(dice)
        kind = dice.random()
        if kind < 0.2:
            told = dice.choice(_TITLES)
            parts.append(f"<h2>{told}</h2>")
        elif kind < 0.4:
            cells = [[_cell(dice) for _ in range(2)] for _ in range(dice.randint(2, 5))]
            rows = "".join(
                "<tr>" + "".join(f"<td>{_escaped(cell)}</td>" for cell in row) + "</tr>"
                for row in cells
            )
            parts.append(f"<table><tr><th>One</th><th>Two</th></tr>{rows}</table>")
            told = " ".join(["One Two", *(cell for row in cells for cell in row)])
        else:
            parts.append(f"<p>{_escaped(told)}</p>")
        words.append(told)
    body = dice.choice(["\n", "", "  "]).join(parts)
    page = f"<!DOCTYPE html><html><head><meta charset='utf-8'></head><body>{body}</body></html>"
    return Written(name, page.encode(), words=" ".join(words).split())


def _table(dice: random.Random, name: str) -> Written:
    width = dice.randint(2, 4)
    rows = [[f"column {n}" for n in range(width)]]
    for number in range(dice.randint(2, 14)):
        rows.append([str(number), *(_cell(dice) for _ in range(width - 1))])
    file = io.StringIO(newline="")
    csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator=dice.choice(["\n", "\r\n"])).writerows(
        rows
    )
    return Written(name, file.getvalue().encode(), rows=rows)


def _documents(dice: random.Random, name: str) -> Written:
    documents: list[str | list[list[str]]] = []
    lines = []
    for _ in range(dice.randint(1, 5)):
        if dice.random() < 0.25:
            rows = [
                ["one", "two"],
                *([_cell(dice), _cell(dice)] for _ in range(dice.randint(1, 5))),
            ]
            documents.append(rows)
            lines.append({"table": {"header": rows[0], "rows": rows[1:]}, "title": "T"})
        else:
            told = "\n\n".join(paragraph(dice) for _ in range(dice.randint(1, 3)))
            documents.append(f"River {told}")
            lines.append({"text": f"River {told}", "title": dice.choice(_TITLES)})
    ascii_only = dice.random() < 0.5
    content = "".join(json.dumps(each, ensure_ascii=ascii_only) + "\n" for each in lines)
    return Written(name, content.encode(), documents=documents)


def _cell(dice: random.Random) -> str:
    words = _WORDS[dice.choice(list(_WORDS))]
    told = dice.choice([" ", "\n", " \r\n "]).join(dice.choices(words, k=dice.randint(1, 3)))
    return "x" + told.strip("\ufeff")


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
