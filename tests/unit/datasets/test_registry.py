from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from canopy_rag.core.errors import ConfigError, DataError, UnknownNameError
from canopy_rag.core.questions import GoldSpan, Question
from canopy_rag.core.types import Item
from canopy_rag.datasets._items import passage_item
from canopy_rag.datasets.base import Loaded
from canopy_rag.datasets.checking import check
from canopy_rag.datasets.registry import NAMES, benchmark, benchmarks, load, parse_place

COUNTS = {
    "nq": (3615, 1985, 2694),
    "hotpotqa": (125, 125, 1244),
    "2wikimultihopqa": (2, 2, 6119),
    "musique": (60, 60, 1146),
}


def test_every_benchmark_is_described() -> None:
    for each in benchmarks():
        assert each.name in NAMES
        assert each.title
        assert each.licence
        assert each.files
        assert len({file.path for file in each.files}) == len(each.files)


def test_the_documentation_lists_every_benchmark_with_its_licence() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/datasets.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([^|]+) \| [^|]+ \|$", page, re.MULTILINE)
    assert [name for name, _ in rows[: len(NAMES)]] == list(NAMES)
    for name, licence in rows[: len(NAMES)]:
        assert licence.split()[0].strip(";,") in benchmark(name).licence or name == "jsonl"


def test_an_unknown_benchmark_is_told_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'hotpotqa'"):
        benchmark("hotpot-qa")


def test_a_place_is_a_name_and_a_folder() -> None:
    found, folder = parse_place("nq=~/a=b")
    assert (found.name, folder) == ("nq", Path("~/a=b").expanduser())
    for text in ("nq", "nq=", "data/nq"):
        with pytest.raises(ConfigError, match="must be NAME=PATH, such as nq="):
            parse_place(text)
    with pytest.raises(UnknownNameError):
        parse_place("nope=x")


def test_a_folder_that_is_not_there_is_told(tmp_path: Path, splitter) -> None:
    for name in NAMES:
        with pytest.raises(DataError, match="there is no such folder"):
            load(name, tmp_path / "nowhere", splitter)


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_folder_is_told_with_the_expected_files(
    name: str, tmp_path: Path, splitter
) -> None:
    with pytest.raises(DataError) as error:
        load(name, tmp_path, splitter)
    assert name in str(error.value)
    assert "Expected one or more of" in str(error.value)


def test_a_loader_is_imported_when_it_is_asked_for() -> None:
    code = "import sys, canopy_rag.datasets.registry as registry; registry.benchmark('musique'); "
    code += "print([*sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "canopy_rag.datasets.musique" in done.stdout
    assert "canopy_rag.datasets.nq'" not in done.stdout


@pytest.mark.parametrize("name", COUNTS)
def test_the_samples_have_the_known_counts(name: str, data: Path, splitter) -> None:
    loaded = load(name, data / name, splitter)
    found = check(loaded)
    assert (loaded.n_total, len(loaded.questions), found.n_items["text"]) == COUNTS[name]
    assert found.problems == ()
    assert len(loaded.omitted) == loaded.n_total - len(loaded.questions)


def test_a_check_finds_what_is_broken() -> None:
    one, two = (passage_item("c", f"c/{n}", "T", "Ten chars.", [(0, 10)]) for n in (1, 2))

    def asked(name: str, item: Item, stop: int) -> Question:
        gold = (GoldSpan(item_id=item.id, start=0, stop=stop),)
        return Question(id=name, text="?", answers=(), kind="", gold=gold)

    questions = (asked("good", one, 10), asked("long", one, 11), asked("lost", two, 3))
    told: list[int] = []
    found = check(
        Loaded(name="c", questions=questions, items=lambda: iter([one, one])), told.append
    )
    assert (found.n_items, found.n_nodes, told) == ({"text": 2}, 2, [])
    outside, twice, lost = sorted(found.problems, key=lambda each: each.split()[1] != "long")
    assert "question long: gold [0, 11) is not inside" in outside
    assert "comes twice" in twice
    assert "question lost: its gold item" in lost
