"""The pool of a group: encoded once, resumed after a failure, refused for other data."""

import json

import pytest
from tests.unit.evaluation.evaluations import item, question

from canopy_rag.config import Config, EncoderConfig
from canopy_rag.core.errors import ConfigError, DataError, EncodeError
from canopy_rag.evaluation import pool as pools
from canopy_rag.evaluation.diagnose import Task
from canopy_rag.evaluation.pool import files_digest, open_pool
from canopy_rag.testing.hashing import HashingEncoder

CONFIG = Config(encoder=EncoderConfig(name="hashing"))


def task(items, name="toy", n=2):
    questions = tuple(question(number) for number in range(n))
    return Task(name=name, group="extra", questions=questions, items=lambda: iter(items))


@pytest.fixture
def encoded(monkeypatch):
    """Hear which items are encoded; encoding item `poison` fails until it is taken out."""
    heard = {"ids": [], "poison": None}
    encode = HashingEncoder.encode_items

    def listening(self, items):
        if heard["poison"] in {each.id for each in items}:
            raise EncodeError(heard["poison"], "it cannot be encoded")
        heard["ids"] += [each.id for each in items]
        return encode(self, items)

    monkeypatch.setattr(HashingEncoder, "encode_items", listening)
    monkeypatch.setattr(pools, "BATCH", 4)
    return heard


def test_encoding_goes_on_where_it_failed(tmp_path, encoded):
    items = [item(number) for number in range(10)]
    encoded["poison"] = "thing 6"
    with pytest.raises(EncodeError, match="thing 6"):
        open_pool(tmp_path, CONFIG, [task(items)], {"files": "a"})
    before = list(encoded["ids"])
    assert before
    encoded["poison"] = None
    opened = open_pool(tmp_path, CONFIG, [task(items)], {"files": "a"})
    assert sorted(encoded["ids"]) == sorted(each.id for each in items)
    assert opened.store.count()["total"] == 10
    assert opened.counts == {"toy": {"items": {"text": 10}, "gold_items": {"text": 2}}}


def test_a_complete_pool_is_opened_without_reading_its_items(tmp_path, encoded):
    open_pool(tmp_path, CONFIG, [task([item(0), item(1)])], {"files": "a"})
    n_encoded = len(encoded["ids"])

    def never():
        raise AssertionError("the items were read again")

    again = Task(name="toy", group="extra", questions=(question(0),), items=never)
    opened = open_pool(tmp_path, CONFIG, [again], {"files": "a"})
    assert len(encoded["ids"]) == n_encoded
    assert opened.counts["toy"]["items"] == {"text": 2}


def test_the_pool_of_other_data_is_refused(tmp_path):
    open_pool(tmp_path, CONFIG, [task([item(0), item(1)])], {"files": "a"})
    with pytest.raises(ConfigError, match="pool of other data"):
        open_pool(tmp_path, CONFIG, [task([item(0), item(1)])], {"files": "b"})


def test_items_of_a_source_that_come_apart_are_no_silent_loss(tmp_path, encoded):
    import dataclasses

    apart = dataclasses.replace(item(9), id="other", source=item(0).source)
    items = [*(item(number) for number in range(8)), apart]
    with pytest.raises(DataError, match="comes apart"):
        open_pool(tmp_path, CONFIG, [task(items)], {"files": "a"})


def test_an_item_of_two_benchmarks_stands_there_once(tmp_path):
    tasks = [task([item(0), item(1)]), task([item(1), item(0)], name="other")]
    opened = open_pool(tmp_path, CONFIG, tasks, {"files": "a"})
    assert opened.store.count()["total"] == 2


def test_the_digest_of_a_folder_tells_content_names_and_sizes(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps([1]))
    (tmp_path / "clip.mp4").write_bytes(b"12")
    first = files_digest(tmp_path)
    (tmp_path / ".hidden").write_text("x")
    assert files_digest(tmp_path) == first
    (tmp_path / "a.json").write_text(json.dumps([2]))
    second = files_digest(tmp_path)
    assert second != first
    (tmp_path / "clip.mp4").write_bytes(b"34")
    assert files_digest(tmp_path) == second
    (tmp_path / "clip.mp4").write_bytes(b"345")
    assert files_digest(tmp_path) != second
