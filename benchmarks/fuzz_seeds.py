"""The sound files that fuzzing starts from: small ones of every format, made here, and real ones.

Real are the packaged samples, and those of the folder in `CANOPY_SAMPLES` where it is set.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

CORPUS = Path(__file__).resolve().parents[1] / "src/canopy_rag/testing/corpus/files"
MOST_BYTES = 150_000
"""Larger seeds take their time at every mutation and teach nothing that smaller ones do not."""

WORDS = "The lamp was lit in 1821. Its keeper rowed out at dawn, and came back late at night."
MARKDOWN = f"""# Skerry Point

{WORDS}

| year | height | light |
|---|---:|---|
| 1821 | 31.5 | oil |
| 1904 | 42 | electric |

- one item
- another, with `code` and [a link](http://a.example/)

```python
for n in range(3):
    print(n)
```

> {WORDS}
"""
HTML = f"""<!doctype html><html lang=en><head><title>Skerry</title><meta charset=utf-8></head><body>
<nav>menu</nav><main id=top><h1>Skerry Point</h1><p id=a>{WORDS}</p><h2>Figures</h2>
<table id=t><caption>Heights</caption><thead><tr><th colspan=2>year<th rowspan=2>light</tr>
<tr><th>from<th>to</tr></thead><tbody><tr id=r1><td>1821<td>1904<td>oil</tr>
<tr><td>1904<td>2020<td>electric</tr></tbody></table><pre>a
  b</pre><ul><li>one<li>two</ul><img alt="a tower" src=x.png><script>alert(1)</script>
<svg><script>alert(2)</script><text>drawn</text></svg></main></body></html>"""
SRT = "\n".join(
    f"{n}\n00:00:0{n},000 --> 00:00:0{n + 1},000\nLine {n} of <i>what is said</i>\n"
    for n in range(1, 6)
)
VTT = f"WEBVTT\n\n{SRT.replace(',', '.')}"
ASS = """[Script Info]
ScriptType: v4.00+
[V4+ Styles]
Format: Name, Fontname, Fontsize
Style: Default,Arial,20
[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
Dialogue: 0,0:00:00.00,0:00:01.50,Default,,0,0,0,,Hello, {\\i1}world{\\i0}\\Nagain
"""


def seeds() -> dict[str, list[bytes]]:
    """Return the contents of sound files by suffix, with the dot."""
    made: dict[str, Callable[[], list[bytes]]] = {
        ".txt": lambda: [(f"{WORDS}\n\n" * 8).encode(), ("Über Öl. " * 90).encode("utf-16")],
        ".md": lambda: [MARKDOWN.encode()],
        ".html": lambda: [HTML.encode()],
        ".csv": lambda: [_csv(","), _csv(";")],
        ".tsv": lambda: [_csv("\t")],
        ".jsonl": lambda: [_jsonl()],
        ".xlsx": lambda: [_xlsx()],
        ".ods": lambda: [_ods()],
        ".parquet": lambda: [_parquet("snappy"), _parquet("none")],
        ".docx": lambda: [_docx()],
        ".pdf": lambda: [_pdf(compressed=True), _pdf(compressed=False)],
        ".png": lambda: [_picture("PNG"), _picture("PNG", mode="P")],
        ".jpg": lambda: [_picture("JPEG")],
        ".webp": lambda: [_picture("WEBP")],
        ".tiff": lambda: [_picture("TIFF", pages=3)],
        ".mp4": lambda: [_video("mp4", "mpeg4")],
        ".mkv": lambda: [_video("matroska", "mpeg4")],
        ".webm": lambda: [_video("webm", "libvpx")],
        ".avi": lambda: [_video("avi", "mpeg4")],
        ".srt": lambda: [SRT.encode()],
        ".vtt": lambda: [VTT.encode()],
        ".ass": lambda: [ASS.encode()],
    }
    found = {suffix: make() for suffix, make in made.items()}
    folders = [CORPUS]
    if os.environ.get("CANOPY_SAMPLES"):
        folders.append(Path(os.environ["CANOPY_SAMPLES"]))
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            suffix = path.suffix.lower()
            if suffix in found and path.stat().st_size <= MOST_BYTES:
                found[suffix].append(path.read_bytes())
    return found


def _csv(delimiter: str) -> bytes:
    rows = [["name", "year", "height", "note"]]
    rows += [
        [f"tower {n}", str(1800 + n), f"{n * 1.5}", f'"said ""{n}"", twice"'] for n in range(40)
    ]
    return "\r\n".join(delimiter.join(row) for row in rows).encode()


def _jsonl() -> bytes:
    documents: list[Any] = [
        WORDS,
        {"id": "a", "title": "A", "section": ["x", "y"], "text": WORDS},
        {"table": {"header": ["a", "b"], "rows": [[1, 2.5], [None, [1, {"c": True}]]]}},
        {"id": 7, "modality": "text", "text": "Über Öl. \ud83d\ude00"},
    ]
    return "\n".join(map(json.dumps, documents)).encode()


def _xlsx() -> bytes:
    import datetime as dt

    import openpyxl

    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Heights"
    sheet.append(["tower", "year", "share", "seen"])
    for n in range(12):
        sheet.append([f"tower {n}", 1800 + n, n / 12, dt.date(2020, 1, n + 1)])
        sheet.cell(n + 2, 3).number_format = "0.0%"
    sheet.merge_cells("A4:A6")
    other = book.create_sheet("Notes")
    other["C5"] = "a lone cell"
    other["C7"], other["D7"], other["C8"], other["D8"] = "x", "y", 1, "=1+1"
    book.create_sheet("hidden").sheet_state = "hidden"
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def _ods() -> bytes:
    from odf.opendocument import OpenDocumentSpreadsheet
    from odf.table import Table, TableCell, TableRow
    from odf.text import P

    book = OpenDocumentSpreadsheet()
    table = Table(name="Heights")
    for n in range(8):
        row = TableRow()
        for value in (f"tower {n}", str(1800 + n), str(n * 1.5)):
            cell = TableCell(valuetype="string")
            cell.addElement(P(text=value))
            row.addElement(cell)
        table.addElement(row)
    book.spreadsheet.addElement(table)
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def _parquet(compression: str) -> bytes:
    import pyarrow as arrow
    from pyarrow import parquet

    table = arrow.table(
        {
            "name": [f"tower {n}" for n in range(30)],
            "height": [n * 1.5 for n in range(30)],
            "tags": [["a", "b"][: n % 3] for n in range(30)],
            "raw": [bytes([n]) * n for n in range(30)],
        }
    )
    buffer = io.BytesIO()
    parquet.write_table(table, buffer, compression=compression, row_group_size=10)
    return buffer.getvalue()


def _docx() -> bytes:
    import docx

    document = docx.Document()
    document.add_heading("Skerry Point", 1)
    document.add_paragraph(WORDS)
    document.add_heading("Figures", 2)
    table = document.add_table(rows=4, cols=3)
    for at, cell in enumerate(cell for row in table.rows for cell in row.cells):
        cell.text = f"cell {at}"
    table.cell(0, 0).merge(table.cell(1, 1))
    document.add_paragraph(WORDS, style="List Bullet")
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def _pdf(*, compressed: bool) -> bytes:
    import fpdf

    document = fpdf.FPDF()
    document.set_compression(compressed)
    document.set_title("Skerry Point")
    document.set_font("Helvetica", size=11)
    for page in range(3):
        document.add_page()
        document.multi_cell(0, 6, f"Page {page}\n{WORDS}\n\n{WORDS}")
        with document.table() as table:
            for n in range(4):
                table.row([f"tower {n}", str(1800 + n), str(n * 1.5)])
    return bytes(document.output())


def _picture(kind: str, *, mode: str = "RGB", pages: int = 1) -> bytes:
    from PIL import Image

    noise = np.random.default_rng(0).integers(0, 255, (48, 64, 3), dtype=np.uint8)
    images = [Image.fromarray(noise).rotate(90 * n).convert(mode) for n in range(pages)]
    exif = Image.Exif()
    exif[0x010E], exif[0x0112] = "a tower by the sea", 6
    buffer = io.BytesIO()
    more: dict[str, Any] = {"save_all": True, "append_images": images[1:]} if pages > 1 else {}
    images[0].save(buffer, kind, exif=exif, **more)
    return buffer.getvalue()


def _video(container: str, codec: str) -> bytes:
    import av

    with tempfile.NamedTemporaryFile(suffix=".bin") as file:
        with av.open(file.name, "w", format=container) as output:
            stream = output.add_stream(codec, rate=10)
            stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
            stream.time_base = Fraction(1, 10)
            for n in range(40):
                picture = np.full((48, 64, 3), 200 if n >= 25 else 6 * n % 40, np.uint8)
                frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
                frame.pts = n
                output.mux(stream.encode(frame))
            output.mux(stream.encode())
        return Path(file.name).read_bytes()
