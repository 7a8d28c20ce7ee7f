"""Encoders of indices: the index's own again, another one refused, a map put on top."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import save_file

from canopy_rag.api import Index
from canopy_rag.config import Config, EncoderConfig
from canopy_rag.core.errors import ConfigError, EncodeError, IngestError, StoreError
from canopy_rag.core.protocols import MediaPart
from canopy_rag.pipeline.factory import build_encoder, encoder_settings, load_picture
from canopy_rag.testing.embedding_server import EmbeddingHost, embedding_of
from canopy_rag.testing.hashing import HashingEncoder

DIM = 64


def named(name: str, **settings: object) -> Config:
    origins = dict.fromkeys(["encoder.name", *(f"encoder.{key}" for key in settings)], "test")
    return Config(encoder=EncoderConfig(name=name, **settings), origins=origins)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    text = "# Judo\n\nJudo was created in 1882. It is a sport. Many people like it a lot.\n"
    (folder / "judo.md").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def host() -> Iterator[EmbeddingHost]:
    words = embedding_of(HashingEncoder(mode="node"))
    with EmbeddingHost(models={"words": words}) as served:
        yield served


def write_map(folder: Path, *, both: bool = False, mode: str = "late") -> Path:
    folder.mkdir()
    base = HashingEncoder(mode=mode).fingerprint
    manifest = {
        "format": 1,
        "kind": "map",
        "base": {"model": base.model, "revision": base.revision},
        "mode": mode,
    }
    (folder / "adapter.json").write_text(json.dumps(manifest), encoding="utf-8")
    rng = np.random.default_rng(0)
    names = ("query", "node") if both else ("query",)
    maps = {name: rng.standard_normal((DIM, DIM)).astype(np.float32) for name in names}
    save_file(maps, folder / "map.safetensors")
    return folder


def made(path: Path, files: Path, config: Config) -> Index:
    index = Index.open(path, create=True, config=config)
    assert index.add(files).failed == []
    return index


def similarity_of(index: Index) -> float:
    (explained,) = index.explain("When was judo created?")
    return float(explained.similarities[0])


def test_a_map_on_queries_works_on_an_index_that_was_made_without_it(
    tmp_path: Path, files: Path
) -> None:
    path = tmp_path / "index"
    plain = made(path, files, named("hashing"))
    folder = write_map(tmp_path / "map")
    index = Index.open(path, config=named(f"hashing+{folder}"))
    assert similarity_of(index) != pytest.approx(similarity_of(plain))
    assert index.add(files).unchanged == 1
    (hit,), (before,) = index.explain("judo"), plain.explain("judo")
    assert hit.found.hit.similarity == before.found.hit.similarity


def test_an_index_made_with_a_map_on_queries_is_searched_with_and_without_it(
    tmp_path: Path, files: Path
) -> None:
    path = tmp_path / "index"
    folder = write_map(tmp_path / "map")
    with_map = made(path, files, named(f"hashing+{folder}"))
    assert similarity_of(Index.open(path)) == similarity_of(with_map)
    plain = Index.open(path, config=named("hashing"))
    assert similarity_of(plain) != pytest.approx(similarity_of(with_map))


def test_a_map_on_nodes_makes_an_index_of_its_own(tmp_path: Path, files: Path) -> None:
    folder = write_map(tmp_path / "map", both=True)
    made(tmp_path / "plain", files, named("hashing"))
    with pytest.raises(StoreError, match="holds vectors of the encoder 'hashing'"):
        Index.open(tmp_path / "plain", config=named(f"hashing+{folder}"))
    index = made(tmp_path / "mapped", files, named(f"hashing+{folder}"))
    with pytest.raises(StoreError, match="holds vectors of the encoder 'hashing'"):
        Index.open(tmp_path / "mapped", config=named("hashing"))
    assert similarity_of(Index.open(tmp_path / "mapped")) == similarity_of(index)


def test_an_index_finds_its_adapter_from_another_working_directory(
    tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_map(tmp_path / "map", both=True)
    monkeypatch.chdir(tmp_path)
    made(tmp_path / "index", files, named("hashing+map"))
    monkeypatch.chdir(files)
    index = Index.open(tmp_path / "index")
    assert index.search("judo").entries
    assert index.info()["adapter"] == str((tmp_path / "map").resolve())


def test_an_index_whose_adapter_is_gone_says_which(tmp_path: Path, files: Path) -> None:
    folder = write_map(tmp_path / "map", both=True)
    made(tmp_path / "index", files, named(f"hashing+{folder}"))
    (folder / "adapter.json").unlink()
    with pytest.raises(ConfigError, match=r"there is no '.*map/adapter\.json'"):
        Index.open(tmp_path / "index")


def test_the_mode_of_the_index_goes_for_its_own_encoder_alone() -> None:
    stored = HashingEncoder(mode="node").fingerprint
    assert encoder_settings(Config(), stored).mode == "node"
    assert encoder_settings(named("hashing+map"), stored).mode == "node"
    assert encoder_settings(named("hashing", mode="late"), stored).mode == "late"
    assert encoder_settings(named("minilm"), stored).mode is None


def test_an_index_made_over_http_never_tells_where_to_send_queries(
    tmp_path: Path, files: Path, host: EmbeddingHost
) -> None:
    path = tmp_path / "index"
    made(path, files, named(f"http:{host.url}#words"))
    assert host.url not in (path / "index.json").read_text("utf-8")
    before = len(host.asked)
    index = Index.open(path)
    assert index.info()["items"]["total"] == 1
    with pytest.raises(ConfigError, match=r"name it with --encoder 'http:.*#words'"):
        index.search("judo")
    assert len(host.asked) == before
    again = Index.open(path, config=named(f"http:{host.url}#words"))
    assert len(host.asked) == before
    assert again.search("judo").entries
    assert len(host.asked) == before + 1


def test_another_model_of_the_server_is_refused(
    tmp_path: Path, files: Path, host: EmbeddingHost
) -> None:
    made(tmp_path / "index", files, named("hashing"))
    with pytest.raises(StoreError, match="not of 'http:words'"):
        Index.open(tmp_path / "index", config=named(f"http:{host.url}#words"))


def test_pictures_of_an_index_are_found_from_its_roots(tmp_path: Path, host: EmbeddingHost) -> None:
    image = pytest.importorskip("PIL.Image")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        image.new("RGB", (20, 10), "red").save(tmp_path / name / "lake.png")
    config = named(f"http:{host.url}#words", form="chat")
    index = Index.open(tmp_path / "index", create=True, config=config)
    report = index.add(tmp_path / "one", tmp_path / "two")
    assert report.failed == []
    about = index.info()
    assert about["items"]["image"] == 2
    assert about["embedded"] == {
        "text": "text",
        "table": "text",
        "image": "media",
        "video": "media",
    }
    kinds = [part["type"] for each in host.asked for part in each.body["messages"][1]["content"]]
    assert kinds.count("image_url") == 2


def test_a_picture_that_the_server_refuses_fails_its_file_and_the_rest_is_indexed(
    tmp_path: Path, files: Path
) -> None:
    image = pytest.importorskip("PIL.Image")
    for name in ("lake.png", "odd.png", "hill.png"):
        image.new("RGB", (20, 10), "red").save(files / name)
    words = embedding_of(HashingEncoder(mode="node"))

    def embed(text: str) -> np.ndarray | str:
        return "no vector" if "odd" in text else words(text)

    with EmbeddingHost(models={"words": embed}) as host:
        config = named(f"http:{host.url}#words", form="chat")
        index = Index.open(tmp_path / "index", create=True, config=config)
        report = index.add(files)
        (failure,) = report.failed
        assert Path(failure.path).name == "odd.png"
        assert "gave a vector that cannot be read" in failure.reason
        assert index.info()["items"]["image"] == 2
        assert index.info()["items"]["text"] == 1


def test_a_server_that_goes_away_ends_the_run_and_leaves_what_was_written(
    tmp_path: Path, files: Path
) -> None:
    words = embedding_of(HashingEncoder(mode="node"))
    with EmbeddingHost(models={"words": words}) as host:
        config = named(f"http:{host.url}#words")
        index = made(tmp_path / "index", files, config)
    (files / "more.md").write_text("A lake.", encoding="utf-8")
    with EmbeddingHost(models={"other": words}) as other:
        index = Index.open(tmp_path / "index", config=named(f"http:{other.url}#words"))
        with pytest.raises(EncodeError, match="`words` does not exist"):
            index.add(files)
    assert index.info()["items"]["text"] == 1


def test_the_key_of_the_encoder_comes_from_the_environment(
    host: EmbeddingHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "theirs")
    config = EncoderConfig(name=f"http:{host.url}#words")
    build_encoder(config).encode_queries(["judo"])
    monkeypatch.setenv("CANOPY_ENCODER_API_KEY", "ours")
    build_encoder(config).encode_queries(["judo"])
    told = [each.headers["authorization"] for each in host.asked]
    assert told[0] == "Bearer theirs"
    assert told[-1] == "Bearer ours"


def test_a_picture_outside_the_indexed_folders_is_not_opened(tmp_path: Path, files: Path) -> None:
    for place in (files, tmp_path):
        Image.new("RGB", (8, 8)).save(place / "p.png")
    (files / "link.png").symlink_to(tmp_path / "p.png")
    index = Index.open(tmp_path / "index", create=True, config=named("hashing"))
    index.add(files)
    for inside in ("p.png", str(files / "p.png")):
        assert index.load(MediaPart(media=inside)).startswith("data:image/")
    outside = str(tmp_path / "p.png")
    for media in (outside, str(files / ".." / "p.png"), "../p.png", "link.png"):
        with pytest.raises(IngestError):
            index.load(MediaPart(media=media))
    part = MediaPart(media=outside)
    assert load_picture(part, tmp_path / "index", anywhere=True).startswith("data:image/")
