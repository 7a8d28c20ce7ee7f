from __future__ import annotations

import importlib
from types import SimpleNamespace

import pytest
from PIL import Image, ImageDraw, ImageFont

from canopy_rag.core.errors import MissingDependencyError
from canopy_rag.ingest import ocr


def answer(monkeypatch: pytest.MonkeyPatch, *lines: tuple[str, float]) -> list[object]:
    seen: list[object] = []

    def engine(pixels: object) -> SimpleNamespace:
        seen.append(pixels)
        return SimpleNamespace(
            txts=tuple(text for text, _ in lines) or None,
            scores=tuple(confidence for _, confidence in lines) or None,
        )

    monkeypatch.setattr(ocr, "_engine", lambda: engine)
    return seen


def test_words_in_a_picture_are_read_in_order() -> None:
    pytest.importorskip("rapidocr")
    picture = Image.new("RGB", (360, 120), "white")
    font = ImageFont.load_default(size=32)
    ImageDraw.Draw(picture).text((10, 10), "Invoice 4711", "black", font)
    ImageDraw.Draw(picture).text((10, 65), "due in May", "black", font)
    assert ocr.read_text(picture).split("\n") == ["Invoice 4711", "due in May"]


def test_lines_of_low_confidence_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, ("Platform 9", 0.98), ("|;:.", 0.4))
    assert ocr.read_text(Image.new("RGB", (50, 50))) == "Platform 9"


def test_a_single_letter_alone_is_taken_for_a_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, ("O", 0.9))
    assert ocr.read_text(Image.new("RGB", (50, 50))) == ""


def test_a_single_letter_beside_words_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, ("Gate", 0.9), ("B", 0.9))
    assert ocr.read_text(Image.new("RGB", (50, 50))) == "Gate\nB"


def test_a_single_chinese_character_is_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, ("茶", 0.9))
    assert ocr.read_text(Image.new("RGB", (50, 50))) == "茶"


def test_nothing_found_is_an_empty_text(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch)
    assert ocr.read_text(Image.new("RGB", (50, 50))) == ""


def test_a_huge_picture_is_scaled_down_first(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = answer(monkeypatch)
    ocr.read_text(Image.new("RGB", (6000, 1000)))
    assert [pixels.shape for pixels in seen] == [(333, 2000, 3)]


@pytest.mark.parametrize("size", [(1, 1), (5, 400), (30, 2000)])
def test_slivers_are_not_looked_at(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    seen = answer(monkeypatch)
    assert ocr.read_text(Image.new("RGB", size)) == ""
    assert seen == []


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    ocr._engine.cache_clear()
    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(MissingDependencyError, match=r"canopy-rag\[ocr\]"):
        ocr.read_text(Image.new("RGB", (50, 50)))
