from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from canopy_rag.core.errors import ConfigError, MissingDependencyError, ModelError
from canopy_rag.encoders.hub import Checkpoint, checksum

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "config.json").write_text('{"a": 1}')
    return folder


class FakeHub:
    """Stands in for huggingface_hub: a cache that is empty or full, a hub that may be down."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cached = False
        self.down = False
        self.asked: list[tuple[str, bool, dict[str, Any]]] = []
        self.module = ModuleType("huggingface_hub")
        self.errors = ModuleType("huggingface_hub.errors")
        names = ("HfHubHTTPError", "HFValidationError")
        for name in names:
            setattr(self.errors, name, type(name, (Exception,), {}))
        self.errors.LocalEntryNotFoundError = type("L", (FileNotFoundError,), {})  # type: ignore[attr-defined]
        self.module.hf_hub_download = self._file  # type: ignore[attr-defined]
        self.module.snapshot_download = self._folder  # type: ignore[attr-defined]

    def _ask(self, name: str, local: bool, options: dict[str, Any]) -> None:
        self.asked.append((name, local, options))
        if local and not self.cached:
            raise self.errors.LocalEntryNotFoundError("not cached")
        if not local and self.down:
            raise OSError("no route to host")
        self.cached = True

    def _file(self, repo: str, name: str, *, local_files_only: bool = False, **options: Any) -> str:
        self._ask(repo, local_files_only, options)
        return str(self.root / COMMIT / name)

    def _folder(self, repo: str, *, local_files_only: bool = False, **options: Any) -> str:
        self._ask(repo, local_files_only, options)
        return str(self.root / COMMIT)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    fake = FakeHub(tmp_path / "snapshots")
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake.module)
    monkeypatch.setitem(sys.modules, "huggingface_hub.errors", fake.errors)
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    return fake


def test_a_folder_is_read_where_it_is(folder: Path, hub: FakeHub) -> None:
    found = Checkpoint(str(folder), extra="qwen")
    assert found.folder() == folder
    assert found.name == str(folder)
    assert found.json("config.json") == {"a": 1}
    assert found.identity == checksum(folder)
    assert hub.asked == []


def test_a_relative_folder_has_an_absolute_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    assert Checkpoint("model", extra="qwen").name == str(folder)


@pytest.mark.parametrize("changed", ["model.safetensors", "config.json", "chat_template.jinja"])
def test_the_checksum_follows_every_file_that_vectors_depend_on(changed: str, folder: Path) -> None:
    before = checksum(folder)
    (folder / "README.md").write_text("words")
    assert checksum(folder) == before
    (folder / changed).write_text("other")
    assert checksum(folder) != before


def test_a_model_on_the_hub_is_fetched_once_and_named_by_its_commit(hub: FakeHub) -> None:
    found = Checkpoint("owner/model", extra="qwen")
    assert found.name == "owner/model"
    assert hub.asked == []  # making one asks nobody
    assert found.identity == COMMIT
    assert found.folder() == hub.root / COMMIT
    assert [local for _, local, _ in hub.asked] == [True, False, True]
    assert hub.asked[-1][2]["revision"] == COMMIT
    assert all("*.bin" not in pattern for pattern in hub.asked[-1][2]["allow_patterns"])


def test_a_revision_is_kept(hub: FakeHub) -> None:
    found = Checkpoint(f"owner/model@{COMMIT}", extra="qwen")
    assert found.identity == COMMIT
    assert hub.asked == []
    assert found.name == f"owner/model@{COMMIT}"
    Checkpoint("owner/model@v2", extra="qwen").file("config.json")
    assert hub.asked[-1][2] == {"revision": "v2"}


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_offline_nothing_is_asked_of_the_hub(
    variable: str, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "1")
    with pytest.raises(ModelError, match="downloads are forbidden"):
        Checkpoint("owner/model", extra="qwen").folder()
    assert all(local for _, local, _ in hub.asked)
    hub.cached = True
    assert Checkpoint("owner/model", extra="qwen").folder() == hub.root / COMMIT


def test_a_hub_that_does_not_answer_is_told(hub: FakeHub) -> None:
    hub.down = True
    with pytest.raises(ModelError, match=r"'owner/model' cannot be fetched.*no route"):
        _ = Checkpoint("owner/model", extra="qwen").identity


@pytest.mark.parametrize("name", ["./gone", "/gone/model", "a/b/c", "~/gone", ""])
def test_what_is_neither_a_folder_nor_a_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="no such folder"):
        Checkpoint(name, extra="qwen")


def test_a_folder_without_the_files_says_which(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"pickled")
    found = Checkpoint(str(tmp_path), extra="qwen")
    with pytest.raises(ConfigError, match=r"no config\.json"):
        found.file("config.json")
    with pytest.raises(ConfigError, match=r"no \*\.safetensors"):
        _ = found.identity
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ConfigError, match="cannot be read as JSON"):
        found.json("config.json")


def test_without_the_hubs_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingDependencyError, match=r"canopy-rag\[qwen\]"):
        Checkpoint("owner/model", extra="qwen").folder()
