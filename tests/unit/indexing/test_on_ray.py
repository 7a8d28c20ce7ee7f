from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from tests.unit.indexing.fakes import READER, Bench, PickyEncoder, write

from canopy_rag.api import Index
from canopy_rag.config import Config, EncoderConfig
from canopy_rag.core.coding import dense
from canopy_rag.core.errors import ConfigError, ModelError
from canopy_rag.indexing import on_ray
from canopy_rag.indexing.encoding import GROUP_NODES
from canopy_rag.indexing.engine import LocalEngine
from canopy_rag.indexing.on_ray import RayEngine, RaySettings
from canopy_rag.indexing.ray_worker import RayWorker, Recipe
from canopy_rag.testing.memory_store import MemoryStore

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs the extra `ray`"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray.*"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A cluster of this machine that all runs of this module share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[3]))
        ray, _ = on_ray.connected(RaySettings(workers=3))
        yield
        ray.shutdown()


class WitnessEncoder(PickyEncoder):
    """Leaves a file for each process that loads it, and dies of certain items."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        (folder / f"{os.getpid()}.pid").touch()

    def encode_items(self, items):
        for item in items:
            if "LETHAL" in item.payload.text:
                os.kill(os.getpid(), signal.SIGKILL)
            if "ONCE" in item.payload.text and not (self._folder / "died").exists():
                (self._folder / "died").touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return super().encode_items(items)


@pytest.fixture
def witness(tmp_path: Path) -> Path:
    folder = tmp_path / "witness"
    folder.mkdir()
    return folder


def on_two(witness: Path, **recipe):
    """Return what makes an engine of two workers."""
    made = Recipe(
        **{
            "parse": READER.parse,
            "make_encoder": partial(WitnessEncoder, witness),
            "fingerprint": PickyEncoder().fingerprint,
            "packer": MemoryStore(PickyEncoder().fingerprint).packer,
            **recipe,
        }
    )
    return partial(RayEngine, made, RaySettings(workers=2))


def recipe_of(store: MemoryStore) -> Recipe:
    return Recipe(
        parse=READER.parse,
        make_encoder=PickyEncoder,
        fingerprint=store.fingerprint,
        packer=store.packer,
    )


def second(tmp_path: Path) -> Bench:
    folder = tmp_path / "other"
    folder.mkdir()
    return Bench(folder, MemoryStore(PickyEncoder().fingerprint))


@pytest.mark.usefixtures("cluster")
def test_two_workers_give_the_index_and_the_report_of_one_machine(
    bench: Bench, docs: Path, tmp_path: Path, witness: Path
) -> None:
    for n in range(30):
        write(docs / f"{n:02}.txt", *(f"file {n} line {m}" for m in range(n % 7)), "NOTE", "end")
    write(docs / "05.txt", "BROKEN")
    write(docs / "11.txt", "BUG")
    write(docs / "17.txt", "fine", "UNENCODABLE")
    write(docs / "23.txt")
    write(docs / "large.txt", *(f"line {n}" for n in range(GROUP_NODES)))
    write(docs / "large-broken.txt", *(f"line {n}" for n in range(GROUP_NODES)), "BROKEN")
    here = bench.run(docs)
    there = second(tmp_path)
    report = there.run(docs, engine=on_two(witness))
    assert report == here
    assert there.store.digest() == bench.store.digest()
    assert len(list(witness.glob("*.pid"))) == 2
    assert there.encoder.n_encoded == 0


@pytest.mark.usefixtures("cluster")
def test_workers_import_from_where_the_run_does() -> None:
    import ray

    seen = ray.get(ray.remote(lambda: sys.path).remote())
    assert str(Path(__file__).parents[3]) in seen


def test_the_working_folder_is_not_where_workers_import_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    monkeypatch.chdir(tmp_path)
    job = on_ray._job(ray)
    # Ray adds the working folder unless a job says this, and has no public way to say it.
    assert job._client_job
    assert not {"", str(tmp_path)} & set(job._py_driver_sys_path)


@pytest.mark.usefixtures("cluster")
def test_a_worker_that_is_killed_in_mid_run_costs_no_item(
    bench: Bench, docs: Path, tmp_path: Path, witness: Path
) -> None:
    for n in range(40):
        write(docs / f"{n}.txt", *(f"file {n} line {m}" for m in range(60)))
    write(docs / "25.txt", "fine", "ONCE")  # one dies over it, and one is killed from outside
    killed = []

    def kill_one(done, _total, _current, _items):
        pids = [int(each.stem) for each in witness.glob("*.pid")]
        if done >= 5 and not killed:
            killed.append(pids[0])
            os.kill(pids[0], signal.SIGKILL)

    report = bench.run(docs, engine=on_two(witness), on_progress=kill_one)
    there = second(tmp_path)
    assert report == there.run(docs)
    assert bench.store.digest() == there.store.digest()
    assert killed
    assert (witness / "died").exists()


@pytest.mark.usefixtures("cluster")
def test_a_large_file_whose_worker_dies_half_way_comes_back_whole(
    bench: Bench, docs: Path, witness: Path
) -> None:
    lines = [f"line {n}" for n in range(2 * GROUP_NODES)]
    lines[GROUP_NODES + 5] = "ONCE"
    write(docs / "large.txt", *lines)
    write(docs / "small.txt", "small")
    report = bench.run(docs, engine=on_two(witness))
    assert report.failed == []
    assert bench.store.sources() == {"large.txt": len(lines), "small.txt": 1}
    assert (witness / "died").exists()


@pytest.mark.usefixtures("cluster")
def test_a_file_that_kills_every_worker_fails_alone(
    bench: Bench, docs: Path, witness: Path
) -> None:
    for n in range(12):
        write(docs / f"{n:02}.txt", "LETHAL" if n == 4 else "fine")
    report = bench.run(docs, engine=on_two(witness))
    assert report.indexed == 11
    assert [Path(each.path).name for each in report.failed] == ["04.txt"]
    assert "ended the worker that parsed or encoded it 3 times" in report.failed[0].reason


@pytest.mark.usefixtures("cluster")
def test_a_worker_with_another_encoder_is_refused(bench: Bench, docs: Path) -> None:
    write(docs / "a.txt", "one")
    engine = on_two(Path(), make_encoder=PickyEncoder, fingerprint=_other_fingerprint())
    with pytest.raises(ModelError, match="same version of canopy-rag"):
        bench.run(docs, engine=engine)


def _other_fingerprint():
    from canopy_rag.testing.hashing import HashingEncoder

    return HashingEncoder(dim=8).fingerprint


class UnstartableEncoder(PickyEncoder):
    def __init__(self) -> None:
        os._exit(1)


@pytest.mark.usefixtures("cluster")
def test_workers_that_end_as_they_start_end_the_run(bench: Bench, docs: Path) -> None:
    write(docs / "a.txt", "one")
    engine = on_two(Path(), make_encoder=UnstartableEncoder)
    with pytest.raises(ModelError, match="5 workers in a row ended while they started"):
        bench.run(docs, engine=engine)


@pytest.mark.usefixtures("cluster")
def test_a_cluster_without_room_for_a_worker_is_told(bench: Bench, docs: Path) -> None:
    write(docs / "a.txt", "one")
    recipe = recipe_of(bench.store)
    settings = RaySettings(worker_gpus=1.0, start_s=0.2)
    with pytest.raises(ConfigError, match=r"1 GPUs, and the cluster has .*ray.worker_gpus"):
        bench.run(docs, engine=partial(RayEngine, recipe, settings))


@pytest.mark.usefixtures("cluster")
def test_ctrl_c_keeps_what_came_back_and_the_next_run_goes_on(
    bench: Bench, docs: Path, witness: Path
) -> None:
    for n in range(20):
        write(docs / f"{n:02}.txt", f"file {n}")

    def interrupt(done, _total, _current, _items):
        if done == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        bench.run(docs, engine=on_two(witness), on_progress=interrupt)
    n_kept = len(bench.store.sources())
    assert 3 < n_kept < 20
    report = bench.run(docs)
    assert (report.unchanged, report.indexed) == (n_kept, 20 - n_kept)


@pytest.mark.usefixtures("cluster")
def test_files_of_all_kinds_come_out_as_on_one_machine(tmp_path: Path) -> None:
    """Through the public face, parsers in processes of their own."""
    docs = mixed_files(tmp_path / "docs")
    config = Config(encoder=EncoderConfig(name="hashing"), origins={"encoder.name": "a test"})
    local, ray = (Index.open(tmp_path / name, create=True, config=config) for name in ("l", "r"))
    here = local.add(docs)
    there = ray.add(docs, engine="ray", workers=2)
    assert there == here
    assert [Path(each.path).name for each in here.failed] == ["bad.pdf"]
    assert there.to_dict()["files"]["indexed"] == 5
    assert ray.info()["digest"] == local.info()["digest"]
    assert ray.info()["items"] == local.info()["items"]
    ids = [hit.item.id for hit in local.store.search(query(local), 50)]
    ours, theirs = local.store.vectors(ids), ray.store.vectors(ids)
    assert set(ours) == set(theirs)
    for item_id, (item, nodes) in ours.items():
        again, others = theirs[item_id]
        assert again == item
        np.testing.assert_allclose(dense(others.rows), dense(nodes.rows), atol=1e-3)


def query(index: Index):
    return index.encoder.encode_queries(["lake"]).retrieval[0]


def mixed_files(folder: Path) -> Path:
    from fpdf import FPDF
    from PIL import Image

    write(folder / "a.txt", "The lake is deep.", "", "The town is old. People fish there.")
    write(folder / "b.md", "# Lakes", "", "Deep water.", "", "# Towns", "", "Old houses.")
    write(folder / "c.csv", "name,depth", *(f"lake {n},{n}" for n in range(20)))
    write(folder / "bad.pdf", "no PDF")
    Image.new("RGB", (32, 16), "navy").save(folder / "d.png")
    write(folder / "d.txt", "A blue flag over a lake.")
    pdf = FPDF()
    pdf.add_page()
    pdf.set_font("helvetica")
    pdf.multi_cell(0, text="A lake in the north. It freezes in winter.")
    pdf.output(str(folder / "e.pdf"))
    return folder


def test_ray_client_is_refused_with_the_way_to_do_it(bench: Bench, docs: Path) -> None:
    write(docs / "a.txt", "one")
    recipe = recipe_of(bench.store)
    engine = partial(RayEngine, recipe, RaySettings(address="ray://head:10001"))
    with pytest.raises(ConfigError, match="ray job submit"):
        bench.run(docs, engine=engine)


def test_an_unchanged_folder_starts_no_worker(bench: Bench, docs: Path, aged) -> None:
    aged(write(docs / "a.txt", "one"))
    bench.run(docs)

    def engine(_n_files, _stopping):
        raise AssertionError("there is nothing to do")

    assert bench.run(docs, engine=engine).unchanged == 1


def test_an_engine_that_loses_a_file_does_not_pass_for_done(bench: Bench, docs: Path) -> None:
    for name in ("a.txt", "b.txt"):
        write(docs / name, name)

    class Lossy(LocalEngine):
        def encoded(self, work):
            yield from islice(super().encoded(work), 1)

    def engine(_n_files, stopping):
        return Lossy(
            READER.parse,
            bench.encoder,
            checksum=lambda task: task.sha256,
            workers=1,
            limits=None,
            stopping=stopping,
        )

    with pytest.raises(RuntimeError, match="1 of 2 files back"):
        bench.run(docs, engine=engine)
    assert bench.run(docs).indexed == 1


def test_a_worker_sends_parts_of_a_large_file_and_skips_what_was_received(docs: Path) -> None:
    """The worker is a plain class: no cluster is needed to see what it sends."""
    from canopy_rag.indexing.parsing import Work

    write(docs / "large.txt", *(f"line {n}" for n in range(GROUP_NODES)))
    write(docs / "small.txt", "small")
    files = [Work(path=docs / name, uri=name, about="0") for name in ("large.txt", "small.txt")]
    worker = RayWorker(recipe_of(MemoryStore(PickyEncoder().fingerprint)))
    before = signal.getsignal(signal.SIGINT)
    try:
        assert worker.start() == ""
    finally:
        signal.signal(signal.SIGINT, before)
    parts = [part for sent in worker.work(files, 0) for part in sent]
    assert max(sum(packed.n_nodes for packed in part.entries) for part in parts) <= 2 * GROUP_NODES
    assert sum(len(part.entries) for part in parts) == GROUP_NODES + 1
    assert [part.last for part in parts][-2:] == [True, True]
    again = [part for sent in worker.work(files, 3) for part in sent]
    assert [len(part.entries) for part in again] == [len(part.entries) for part in parts[3:]]
