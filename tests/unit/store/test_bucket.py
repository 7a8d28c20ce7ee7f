"""An index on object storage, against an S3-compatible server on loopback."""

from __future__ import annotations

import datetime
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from canopy_rag.core.errors import ConfigError, StoreError
from canopy_rag.core.protocols import Entry
from canopy_rag.store import LanceStore, upgrade
from canopy_rag.store import lease as lease_module
from canopy_rag.store.lease import Lease
from canopy_rag.store.location import Location, locate
from canopy_rag.store.objects import ChangedError, Objects, Stored
from canopy_rag.testing.s3 import S3Server
from canopy_rag.testing.store_contract import FINGERPRINT, make_entry, make_item, unit


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    pytest.importorskip("flask_cors", reason="needs moto[s3] and flask, of the extra dev")
    with S3Server() as running:
        yield running


@pytest.fixture
def s3(server: S3Server) -> Iterator[S3Server]:
    yield server
    server.fails_with = None
    server.ignores_conditions = False


@pytest.fixture
def address(s3: S3Server) -> str:
    return f"{s3.make_bucket()}/deep/index"


def fill(store: LanceStore, entries: list[Entry]) -> None:
    store.replace({entry.item.source.uri for entry in entries}, entries)


def place_of(address: str, s3: S3Server, refresh_s: float = 0.0) -> Location:
    return locate(address, s3.options, refresh_s=refresh_s)


def objects_of(address: str, s3: S3Server) -> Objects:
    return Objects(address, s3.options)


def test_what_one_process_writes_another_one_finds_and_searches(s3: S3Server, address: str) -> None:
    fill(
        LanceStore.create(address, FINGERPRINT, storage_options=s3.options),
        [make_entry(make_item("a"), unit(1))],
    )
    other = LanceStore.open(f"{address}/", storage_options=s3.options)
    assert [found.item.source.uri for found in other.search(unit(1), 5)] == ["a"]
    assert other.place == address
    assert other.info()["bytes"] > 1000
    assert {name.partition("/")[0] for name in objects_of(address, s3).list()} == {
        "index.json",
        "tables",
        "write.lock",
    }


def test_a_bucket_itself_may_be_an_index(s3: S3Server) -> None:
    address = s3.make_bucket()
    LanceStore.create(address, FINGERPRINT, storage_options=s3.options)
    assert LanceStore.open(address, storage_options=s3.options).count()["total"] == 0


def test_an_index_is_not_made_twice(s3: S3Server, address: str) -> None:
    first, second = place_of(address, s3), place_of(address, s3, 3600.0)
    assert not second.has_index  # and looks no more
    LanceStore.create(first, FINGERPRINT)
    with pytest.raises(StoreError, match="there is an index"):
        LanceStore.create(second, FINGERPRINT)


def test_a_reader_that_looks_every_time_sees_every_commit(s3: S3Server, address: str) -> None:
    writer = LanceStore.create(place_of(address, s3), FINGERPRINT)
    reader = LanceStore.open(place_of(address, s3))
    assert reader.search(unit(1), 5) == []
    for n in range(3):
        fill(writer, [make_entry(make_item("a", text=f"Number {n}. Yes."), unit(1))])
        assert [f.item.payload.text for f in reader.search(unit(1), 5)] == [f"Number {n}. Yes."]


def test_a_reader_that_seldom_looks_survives_that_files_it_knows_are_gone(
    s3: S3Server, address: str
) -> None:
    writer = LanceStore.create(place_of(address, s3), FINGERPRINT)
    fill(writer, [make_entry(make_item(f"a{n}"), unit(1, n)) for n in range(5)])
    reader = LanceStore.open(place_of(address, s3, 3600.0))
    assert len(reader.search(unit(1), 9)) == 5
    n_before = len(s3.requests)
    reader.search(unit(1), 9)
    assert len(s3.requests) - n_before <= 1  # nothing but the rows
    writer.remove({"a0"})
    writer.compact()
    assert len(reader.search(unit(1), 9)) == 4


def test_notes_of_a_writer_are_kept_and_fetched(s3: S3Server, address: str) -> None:
    writer = LanceStore.create(place_of(address, s3), FINGERPRINT)
    with writer.writing():
        (writer.path / "roots.json").write_text("1", encoding="utf-8")
        (writer.path / "manifest.sqlite-journal").write_text("x", encoding="utf-8")
    reader = LanceStore.open(place_of(address, s3))
    assert [each.name for each in reader.path.iterdir()] == ["roots.json"]
    with writer.writing():
        (writer.path / "roots.json").write_text("22", encoding="utf-8")
    assert (reader.path / "roots.json").read_text("utf-8") == "22"


def test_notes_of_strange_names_are_left_where_they_are(s3: S3Server, address: str) -> None:
    LanceStore.create(place_of(address, s3), FINGERPRINT)
    for name in ("..x", ".roots.json", "a\\..\\b", "c:d", "roots.json"):
        objects_of(address, s3).put(f"notes/{name}", b"1")
    reader = LanceStore.open(place_of(address, s3))
    assert [each.name for each in reader.path.iterdir()] == ["roots.json"]


def test_notes_are_kept_when_a_run_ends_by_an_error(s3: S3Server, address: str) -> None:
    writer = LanceStore.create(place_of(address, s3), FINGERPRINT)

    def interrupted() -> None:
        with writer.writing():
            (writer.path / "roots.json").write_text("1", encoding="utf-8")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert "notes/roots.json" in objects_of(address, s3).list("notes")
    with LanceStore.open(place_of(address, s3)).writing():
        pass


def test_the_local_copies_go_with_the_index(s3: S3Server, address: str) -> None:
    store = LanceStore.create(place_of(address, s3), FINGERPRINT)
    folder = store.path
    assert folder.is_dir()
    del store
    assert not folder.exists()


def test_a_second_writer_is_refused_and_told_who_writes(s3: S3Server, address: str) -> None:
    first = LanceStore.create(place_of(address, s3), FINGERPRINT)
    second = LanceStore.open(place_of(address, s3))
    with first.writing():
        with first.writing():
            pass
        match = f"process {os.getpid()} on .* showed life 0 s ago.*run this again in 6[01] s"
        with pytest.raises(StoreError, match=match), second.writing():
            pytest.fail("two writers")
    with second.writing():
        pass


def test_of_many_that_want_to_write_at_once_one_gets_to(s3: S3Server, address: str) -> None:
    leases = [Lease(objects_of(address, s3), address) for _ in range(6)]
    begin = threading.Barrier(len(leases))
    refused: list[StoreError] = []

    def race(lease: Lease) -> None:
        begin.wait()
        try:
            lease.acquire()
        except StoreError as error:
            refused.append(error)

    threads = [threading.Thread(target=race, args=(lease,)) for lease in leases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == len(leases) - 1
    for lease in leases:
        lease.release()


def _left_behind(address: str, s3: S3Server, **changes: object) -> Objects:
    """Return storage with the lease of a process that was killed."""
    objects = objects_of(address, s3)
    lease = Lease(objects, address)
    lease.acquire()
    lease._ended.set()
    note = {**lease._note, "n": 999, **changes}
    objects.put("write.lock", json.dumps(note).encode())
    return objects


def test_the_lease_of_a_process_that_was_killed_on_this_machine_is_free_at_once(
    s3: S3Server, address: str
) -> None:
    pid = 2**22 + 1  # above the largest that Linux gives
    taker = Lease(_left_behind(address, s3, pid=pid), address)
    if not lease_module._machine():
        pytest.skip("this system does not tell whether a process lives on the same machine")
    taker.acquire()
    taker.release()


def test_the_lease_of_another_machine_is_free_when_it_was_not_renewed(
    s3: S3Server, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = _left_behind(address, s3, pid=1, host="elsewhere", machine="another")
    with pytest.raises(StoreError, match="process 1 on elsewhere"):
        Lease(objects, address).acquire()
    monkeypatch.setattr(lease_module, "TTL_S", -1.0)
    taker = Lease(objects, address)
    monkeypatch.setattr(Lease, "_renew", lambda self: None)
    taker.acquire()
    taker.release()


@pytest.mark.parametrize("content", [b"\xff", b"[1]"])
def test_a_lease_that_is_none_expires_like_any_other(
    s3: S3Server, address: str, content: bytes
) -> None:
    objects = objects_of(address, s3)
    objects.put("write.lock", content)
    with pytest.raises(StoreError, match="by another process"):
        Lease(objects, address).acquire()


class Clocked:
    """Storage whose clock says what a test wants."""

    def __init__(self, lock_at: float, now_at: float) -> None:
        self.times = {"write.lock": lock_at, "write.probe": now_at}
        self.held = json.dumps({"pid": 1, "host": "h", "machine": "m"}).encode()

    def put(self, name: str, data: bytes, *, new: bool = False, tag: str = "") -> str:
        if new:
            raise ChangedError(name)
        return "2"

    def get(self, name: str) -> Stored:
        begin = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
        modified = begin + datetime.timedelta(seconds=self.times[name])
        return Stored(data=self.held, tag="1", modified=modified)


@pytest.mark.parametrize(("now_at", "free"), [(-86_400.0, False), (59.0, False), (61.0, True)])
def test_the_age_of_a_lease_is_told_by_the_clock_of_the_storage_alone(
    now_at: float, free: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: pytest.fail("the clock of this machine was asked"))
    lease = Lease(Clocked(0.0, now_at), "s3://b/x")  # type: ignore[arg-type]
    if free:
        assert lease._free_tag() == "1"
    else:
        with pytest.raises(StoreError, match="is being written by process 1 on h"):
            lease._free_tag()


def test_a_writer_that_lost_its_lease_commits_nothing_more(s3: S3Server, address: str) -> None:
    store = LanceStore.create(place_of(address, s3), FINGERPRINT)
    fill(store, [make_entry(make_item("a"), unit(1))])

    def outlived() -> None:
        with store.writing():
            objects_of(address, s3).put("write.lock", b'{"owner": "another"}')
            fill(store, [make_entry(make_item("b"), unit(1))])

    with pytest.raises(StoreError, match="another process took over"):
        outlived()
    assert LanceStore.open(place_of(address, s3)).sources() == {"a": 1}


class HoldingServer(S3Server):
    """Keeps the first commit of a table waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.holds = False
        self.reached, self.go = threading.Event(), threading.Event()

    def _answer(self, environ: dict[str, Any], start: Any) -> Any:
        if (
            self.holds
            and environ["REQUEST_METHOD"] == "PUT"
            and "_versions" in environ["PATH_INFO"]
        ):
            self.holds = False
            self.reached.set()
            assert self.go.wait(60)
        return super()._answer(environ, start)


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("compacts", [True, False])
def test_a_commit_that_was_under_way_when_another_writer_took_over_comes_to_nothing(
    server: S3Server, monkeypatch: pytest.MonkeyPatch, is_new: bool, compacts: bool
) -> None:
    """Else its rows would be there twice, or in files that the other one swept away."""
    monkeypatch.setattr(Lease, "_renew", lambda self: None)
    change = [make_entry(make_item("a", text="Of both. Yes."), unit(1))]
    refused: list[StoreError] = []

    def commit() -> None:
        try:
            fill(sleeper, change)
        except StoreError as error:
            refused.append(error)

    with HoldingServer() as holding:
        address = f"{holding.make_bucket()}/index"
        sleeper = LanceStore.create(place_of(address, holding), FINGERPRINT)
        fill(sleeper, [make_entry(make_item("b" if is_new else "a"), unit(1))])
        holding.holds = True
        thread = threading.Thread(target=commit)
        thread.start()
        assert holding.reached.wait(60)
        with monkeypatch.context() as patch:
            patch.setattr(lease_module, "TTL_S", -1.0)
            follower = LanceStore.open(place_of(address, holding))
            with follower.writing():
                fill(follower, change)
                if compacts:
                    follower.compact()
        holding.go.set()
        thread.join()
        after = LanceStore.open(place_of(address, holding))
        assert len(refused) == 1
        assert after.sources() == ({"a": 1, "b": 1} if is_new else {"a": 1})
        assert after.verify().is_sound


def test_a_lease_that_cannot_be_given_back_hides_no_other_error(
    s3: S3Server, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("canopy_rag.store.objects._RETRIES", 0)
    place = place_of(address, s3)

    def cut_off() -> None:
        with place.writing():
            s3.fails_with = 503
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cut_off()


def test_a_renewal_whose_answer_got_lost_is_no_lost_lease(s3: S3Server, address: str) -> None:
    objects = objects_of(address, s3)
    lease = Lease(objects, address)
    lease.acquire()
    objects.put("write.lock", json.dumps({**lease._note, "n": 7}).encode())
    lease.confirm()
    lease.release()


def test_another_thread_of_the_writer_is_refused(s3: S3Server, address: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    store = LanceStore.create(place_of(address, s3), FINGERPRINT)
    with ThreadPoolExecutor(1) as pool, store.writing():
        change = pool.submit(fill, store, [make_entry(make_item("a"), unit(1))])
        assert "another thread of this process" in str(change.exception())


def test_two_that_ask_at_once_whether_the_storage_heeds_conditions_do_not_mislead_each_other(
    s3: S3Server, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One swept the other's question away before it was asked for the second time."""
    first, second = place_of(address, s3), place_of(address, s3)
    put, n_asked = Objects.put, 0

    def between(self: Objects, name: str, data: bytes, **more: Any) -> str:
        nonlocal n_asked
        done = put(self, name, data, **more)
        n_asked += name.endswith(".test")
        if n_asked == 1 and name.endswith(".test"):
            monkeypatch.setattr(Objects, "put", put)
            with second.writing():
                pass
            monkeypatch.setattr(Objects, "put", between)
        return done

    monkeypatch.setattr(Objects, "put", between)
    with first.writing():
        pass


def test_storage_that_ignores_conditions_is_refused(s3: S3Server, address: str) -> None:
    s3.ignores_conditions = True
    with pytest.raises(StoreError, match="ignores conditional writes"):
        LanceStore.create(address, FINGERPRINT, storage_options=s3.options)


def test_wrong_keys_are_named_and_not_shown(s3: S3Server, address: str) -> None:
    options = {**s3.options, "aws_access_key_id": "AKIAWRONG", "aws_secret_access_key": "hunter2"}
    with pytest.raises(StoreError, match="refuses the credentials"):
        LanceStore.create(address, FINGERPRINT, storage_options=options)
    with pytest.raises(StoreError, match="refuses the credentials") as caught:
        LanceStore.open(address, storage_options=options)
    assert "hunter2" not in str(caught.value)
    assert "restore it from a backup" not in str(caught.value)


def test_a_bucket_that_is_not_there_is_named(s3: S3Server) -> None:
    for act in (
        lambda: LanceStore.open("s3://no-such-bucket/x", storage_options=s3.options),
        lambda: LanceStore.create("s3://no-such-bucket/x", FINGERPRINT, storage_options=s3.options),
    ):
        with pytest.raises(StoreError, match="no bucket 'no-such-bucket'; make it"):
            act()


def test_a_bucket_of_another_region_is_named(s3: S3Server, address: str) -> None:
    s3.fails_with = 301
    with pytest.raises(StoreError, match="in another region; set AWS_REGION"):
        LanceStore.open(address, storage_options=s3.options)


@pytest.mark.parametrize(
    ("address", "options"),
    [
        ("gs://bucket/x", {"google_skip_signature": "true"}),
        ("az://container/x", {"azure_storage_account_name": "a", "azure_skip_signature": "true"}),
    ],
)
def test_the_other_clouds_take_the_same_options(address: str, options: dict[str, str]) -> None:
    found = locate(address, options)
    assert str(found) == address
    assert found.tables == f"{address}/tables"
    assert found.storage_options is not None
    assert options.items() <= found.storage_options.items()


def test_a_storage_that_does_not_answer_is_given_up_soon(
    s3: S3Server, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("canopy_rag.store.objects._RETRIES", 1)
    nobody = {**s3.options, "aws_endpoint": "http://127.0.0.1:9"}
    with pytest.raises(StoreError, match=r"cannot be reached; check the network.*127\.0\.0\.1:9"):
        LanceStore.open(address, storage_options=nobody)
    LanceStore.create(address, FINGERPRINT, storage_options=s3.options)
    n_before = len(s3.requests)
    s3.fails_with = 503
    with pytest.raises(StoreError, match="SlowDown"):
        LanceStore.open(address, storage_options=s3.options)
    assert len(s3.requests) - n_before == 2


def test_a_reader_that_looks_rarely_outlives_an_upgrade(s3: S3Server, address: str) -> None:
    """The table that it has open is gone; what `index.json` says by now is asked for at once."""
    writer = LanceStore.create(place_of(address, s3), FINGERPRINT, vectors="float16")
    fill(writer, [make_entry(make_item("a"), unit(1))])
    reader = LanceStore.open(place_of(address, s3, refresh_s=3600.0))
    assert len(reader.search(unit(1), 1)) == 1
    upgrade(place_of(address, s3), "int4")
    reader.refresh()
    assert len(reader.search(unit(1), 1)) == 1


def test_a_table_that_cannot_be_reached_is_not_called_damaged(s3: S3Server, address: str) -> None:
    store = LanceStore.create(place_of(address, s3), FINGERPRINT)
    fill(store, [make_entry(make_item("a"), unit(1))])
    options = {**s3.options, "client_max_retries": "1", "client_retry_timeout": "1"}
    reader = LanceStore.open(locate(address, options, refresh_s=3600.0))
    s3.fails_with = 403
    with pytest.raises(StoreError, match="refuses the credentials"):
        reader.search(unit(1), 5)


@pytest.mark.parametrize(
    ("address", "match"),
    [
        ("s3://", "names no bucket"),
        ("s3:///path", "names no bucket"),
        ("s3://key:secret@bucket/x", "keys into the environment"),
        ("s3://bucket/x?y=1", "names no bucket"),
        ("ftp://bucket/x", "these are: s3://, gs://, az://"),
        ("memory://x", "neither a folder nor an address"),
    ],
)
def test_an_address_that_is_none_is_refused(address: str, match: str) -> None:
    with pytest.raises(StoreError, match=match) as caught:
        locate(address, {})
    assert "secret@" not in str(caught.value)


def test_an_address_that_became_a_path_is_recognized(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="give s3://bucket/x as text"):
        locate(Path("s3://bucket/x"))


def test_an_option_that_there_is_not_is_named(s3: S3Server) -> None:
    with pytest.raises(ConfigError, match="'aws_regoin' is not valid"):
        locate("s3://bucket/x", {"aws_regoin": "eu"})


def test_without_the_client_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(ImportError, match=r"canopy-rag\[cloud\]"):
        locate("s3://bucket/x")
