"""Names of chat models."""

from __future__ import annotations

import subprocess
import sys

import pytest

from canopy_rag.core.errors import ConfigError, UnknownNameError
from canopy_rag.core.protocols import LLM
from canopy_rag.llms.registry import llm


@pytest.mark.parametrize("name", [None, "", " ", "none"])
def test_no_name_is_no_model(name: str | None) -> None:
    assert llm(name) is None


def test_a_url_is_an_openai_compatible_server() -> None:
    made = llm("http://a.example/v1, http://b.example", model="m", api_key="k")
    assert isinstance(made, LLM)
    assert repr(made) == "OpenAIChat('http://a.example/v1,http://b.example/v1', model='m')"


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown llm 'locla'\. Did you mean 'local'\?"):
        llm("locla")


@pytest.mark.parametrize("name", ["localhost:8000", "127.0.0.1:8000/v1", "a.example/v1"])
def test_a_url_without_scheme_is_told_apart_from_a_name(name: str) -> None:
    with pytest.raises(ConfigError, match="no complete URL"):
        llm(name)


def test_the_names_are_known_without_loading_a_client() -> None:
    code = (
        "import sys; from canopy_rag.llms.registry import llm; llm(None); "
        "sys.exit('httpx' in sys.modules or 'xllamacpp' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
