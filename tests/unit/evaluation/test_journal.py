"""Predictions on disk: whole lines, each with its checksum; a torn end is cut off."""

import pytest

from canopy_rag.core.errors import DataError
from canopy_rag.evaluation.journal import Journal, read, sealed, unsealed

RECORDS = [{"question": "q1", "text": "naïve\nlines \ud83d"}, {"question": "q2", "n": 1.5}]


@pytest.fixture
def path(tmp_path):
    with Journal(tmp_path / "a.jsonl") as journal:
        for record in RECORDS:
            journal.append(record)
    return tmp_path / "a.jsonl"


def test_what_was_appended_is_read_back(path):
    assert list(read(path)) == RECORDS


def test_a_file_that_is_not_there_has_no_records(tmp_path):
    assert list(read(tmp_path / "none.jsonl")) == []


@pytest.mark.parametrize("n_bytes", [1, 2, 20, 40])
def test_a_torn_last_line_is_cut_off_and_the_next_record_follows_the_last_whole_one(path, n_bytes):
    data = path.read_bytes()
    path.write_bytes(data[:-n_bytes])
    with Journal(path) as journal:
        assert list(journal.open()) == RECORDS[:1]
        journal.append({"question": "q3"})
    assert [record["question"] for record in read(path)] == ["q1", "q3"]


def test_reading_alone_changes_nothing(path):
    path.write_bytes(path.read_bytes() + b'{"question":"q3"')
    before = path.read_bytes()
    assert list(read(path)) == RECORDS
    assert path.read_bytes() == before


def test_a_damaged_line_before_the_last_is_an_error_that_names_it(path):
    data = path.read_bytes()
    path.write_bytes(data.replace(b"naive", b"x").replace(b"q1", b"q7"))
    with pytest.raises(DataError, match=r"a\.jsonl, line 1: .*checksum"):
        list(read(path))


def test_a_changed_record_does_not_pass_for_whole():
    line = sealed({"question": "q1", "score": 1})
    with pytest.raises(ValueError, match="checksum"):
        unsealed(line.replace('"score":1', '"score":0'))


def test_numbers_that_json_has_no_word_for_are_refused():
    with pytest.raises(ValueError, match="JSON"):
        sealed({"score": float("nan")})
