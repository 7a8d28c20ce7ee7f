from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("av", reason="the corpus has a video: pip install 'canopy-rag[video]'")


@pytest.mark.slow
def test_the_tour_finds_the_known_answers_and_may_be_repeated(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The chat model has tests of its own and takes its time.
    monkeypatch.setattr("canopy_rag.cli.touring.ask_model", lambda output, config: None)
    place = tmp_path / "tour"
    first = run("demo", "--dir", str(place), "--json")
    assert first.code == 0
    report = first.json
    assert report["index"]["files"]["failed"] == []
    assert report["n_found"] >= report["floor"]
    assert all(0 < each["tokens"] <= each["tokens_full"] for each in report["questions"])
    second = run("demo", "--dir", str(place), columns=80)
    assert second.code == 0
    assert "11 unchanged" in second.out
    assert "keep" in second.out
    assert max(map(len, second.out.splitlines())) <= 100


def test_a_folder_that_is_not_the_demo_s_is_left_alone(run, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear", encoding="utf-8")
    done = run("demo", "--dir", str(tmp_path / "mine"))
    assert done.code == 2
    assert "--dir" in done.err
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["letter.txt"]


def test_too_few_known_answers_are_a_failure(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("canopy_rag.cli.touring.build", lambda *args: (None, _Report()))
    monkeypatch.setattr("canopy_rag.cli.touring.ask_all", lambda *args: [])
    monkeypatch.setattr("canopy_rag.cli.touring.draw_tree", lambda *args: None)
    monkeypatch.setattr("canopy_rag.cli.touring.ask_model", lambda *args: None)
    done = run("demo", "--dir", str(tmp_path / "tour"))
    assert done.code == 1
    assert "0 known answers" in done.err


class _Report:
    failed = ()
