"""Counting with a tokenizer on this machine."""

from __future__ import annotations

import hashlib
import importlib.machinery
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from tokenizers import Tokenizer as HuggingFace
from tokenizers import models, pre_tokenizers, processors

from canopy_rag.core.errors import ConfigError, MissingDependencyError
from canopy_rag.llms import _tokenizers
from canopy_rag.llms._tokenizers import Tokenizer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Save a tokenizer of words as models are published: with a start token, cut at two."""
    words = HuggingFace(models.WordLevel({"<s>": 0, "[UNK]": 1, "one": 2, "two": 3}, "[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.add_special_tokens(["<s>"])
    words.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    words.enable_truncation(2)
    words.enable_padding(length=8)
    words.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_a_file_and_its_folder_count_alike_without_added_tokens_or_limits(folder: Path) -> None:
    for name in (str(folder), str(folder / "tokenizer.json")):
        tokenizer = Tokenizer(name)
        assert tokenizer.count("one two, three") == 4
        assert tokenizer.count("") == 0


def test_a_long_text_is_counted_whole(folder: Path) -> None:
    assert Tokenizer(str(folder)).count("one " * 5000) == 5000


def test_half_a_surrogate_pair_is_counted_as_it_is_sent(folder: Path) -> None:
    assert Tokenizer(str(folder)).count("one \udce4") == 2


def test_a_tokenizer_that_is_not_there_is_told_before_anything_is_asked(tmp_path: Path) -> None:
    for name in ("absent", str(tmp_path)):
        with pytest.raises(ConfigError, match=r"is not there\. Name a tokenizer\.json"):
            Tokenizer(name)


@pytest.mark.parametrize("content", ["", "{}", "no JSON", json.dumps({"model": {"type": "odd"}})])
def test_a_broken_tokenizer_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"tokenizer\.json is no tokenizer that can be read"):
        Tokenizer(str(path)).count("one")


class Tiktoken(ModuleType):
    """Stands for tiktoken: three characters a token."""

    def __init__(self) -> None:
        super().__init__("tiktoken")
        self.__spec__ = importlib.machinery.ModuleSpec("tiktoken", None)
        self.asked: list[str] = []

    def encoding_name_for_model(self, name: str) -> str:
        return {"gpt-4o": "o200k_base", "gpt-oss": "o200k_harmony", "gpt2": "gpt2"}[name]

    def get_encoding(self, name: str) -> SimpleNamespace:
        self.asked.append(name)
        return SimpleNamespace(encode_ordinary=lambda text: list(text[::3]))


@pytest.fixture
def tiktoken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tiktoken:
    """Install it with the table of one encoding in its cache."""
    module = Tiktoken()
    monkeypatch.setitem(sys.modules, "tiktoken", module)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    table = b"the table"
    url = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
    (tmp_path / hashlib.sha1(url.encode()).hexdigest()).write_bytes(table)
    tables = {**_tokenizers._TABLES, "o200k_base": hashlib.sha256(table).hexdigest()}
    monkeypatch.setattr(_tokenizers, "_TABLES", tables)
    return module


@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        ("o200k_base", "o200k_base"),
        ("gpt-4o", "o200k_base"),
        ("gpt-oss", "o200k_harmony"),
        ("o200k_harmony", "o200k_harmony"),
    ],
)
def test_tiktoken_counts_by_encoding_or_model(tiktoken: Tiktoken, name: str, encoding: str) -> None:
    assert Tokenizer(f"tiktoken:{name}").count("abcdefg") == 3
    assert tiktoken.asked == [encoding]


@pytest.mark.parametrize("name", ["cl100k_base", "r50k_base"])
def test_a_table_that_would_have_to_be_downloaded_is_an_error(
    tiktoken: Tiktoken, name: str
) -> None:
    with pytest.raises(ConfigError, match=rf"table for {name} is not on this machine"):
        Tokenizer(f"tiktoken:{name}")
    assert tiktoken.asked == []


def test_a_broken_table_is_not_downloaded_anew(tiktoken: Tiktoken, tmp_path: Path) -> None:
    (next(iter(tmp_path.iterdir()))).write_bytes(b"half the")
    with pytest.raises(ConfigError, match="nothing is downloaded"):
        Tokenizer("tiktoken:gpt-4o")


def test_without_a_cache_tiktoken_would_always_download(
    tiktoken: Tiktoken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    with pytest.raises(ConfigError, match="nothing is downloaded"):
        Tokenizer("tiktoken:gpt-4o")


@pytest.mark.parametrize("name", ["gpt-9", "gpt2", ""])
def test_an_unknown_encoding_is_told_with_those_that_are_known(
    tiktoken: Tiktoken, name: str
) -> None:
    with pytest.raises(ConfigError, match=r"is unknown\. Known encodings: cl100k_base"):
        Tokenizer(f"tiktoken:{name}")


def test_without_tiktoken_its_installation_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tokenizers, "find_spec", lambda _: None)
    with pytest.raises(MissingDependencyError, match="pip install tiktoken"):
        Tokenizer("tiktoken:gpt-4o")
