from __future__ import annotations

from pathlib import Path

import pytest

from canopy_rag.testing.corpus import FILES, SampleQuestion, copy_to, questions


def test_every_question_names_a_file_of_the_corpus() -> None:
    assert len(questions()) >= 10
    for sample in questions():
        assert (FILES / sample.file).is_file(), sample.question


def test_every_file_has_its_licence() -> None:
    licences = (FILES.parent / "LICENSES.md").read_text("utf-8")
    for path in FILES.rglob("*"):
        uri = f"files/{path.relative_to(FILES).as_posix()}"
        is_caption = path.parent.name == "pictures" and path.suffix == ".txt"
        assert path.is_dir() or is_caption or f"`{uri}`" in licences, uri


def test_the_corpus_stays_small() -> None:
    assert sum(path.stat().st_size for path in FILES.rglob("*") if path.is_file()) < 4_000_000


def test_a_copy_has_all_files_and_mends_changed_ones(tmp_path: Path) -> None:
    copies = copy_to(tmp_path / "new")
    assert {path.suffix for path in copies} >= {".md", ".html", ".pdf", ".csv", ".xlsx", ".webm"}
    changed = next(path for path in copies if path.suffix == ".md")
    original = changed.read_bytes()
    changed.write_bytes(b"gone")
    assert copy_to(tmp_path / "new") == copies
    assert changed.read_bytes() == original


@pytest.mark.parametrize(
    ("text", "expected"),
    [("It is NINE\n bar.", True), ("nine  bar", True), ("nine", False), ("", False)],
)
def test_an_answer_is_found_whatever_its_case_and_line_breaks(text: str, expected: bool) -> None:
    sample = SampleQuestion(question="?", answer="nine bar", file="a.md")
    assert sample.answered_by(text) is expected
