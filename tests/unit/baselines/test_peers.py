"""What people use today, over the same items: LangChain, LlamaIndex, LLMLingua-2."""

import sys
from types import ModuleType

import pytest

from canopy_rag.baselines import llmlingua2
from canopy_rag.baselines.registry import build, methods
from canopy_rag.core.errors import ConfigError, MissingDependencyError
from canopy_rag.testing.scripted import ScriptedLLM, prompt_text
from tests.unit.baselines.conftest import ITEMS, SPORT, item_id_of, parts_of, texts
from tests.unit.pipeline.conftest import text_item

LANGCHAIN, LLAMAINDEX = "langchain-embeddings-filter", "llamaindex-sentence-optimizer"
FIGHTS = text_item(
    "fights.txt", *(f"Tea number {n}." for n in range(3)), "Douillet, champion.", "Green it is."
)


async def answered(name, **settings):
    llm = ScriptedLLM(("", "judo"))
    answer = await build(name, parts_of(llm, **settings)).answer(SPORT)
    llm.assert_done()
    return answer, llm


class TestLangChain:
    @pytest.fixture(autouse=True)
    def _needs_it(self):
        pytest.importorskip("langchain_classic")

    async def test_the_nearest_pieces_of_all_items_get_through_the_filter(self):
        answer, _ = await answered(f"{LANGCHAIN}:k=1", items=ITEMS[:3], k=3)
        assert [each.item.id for each in answer.evidence.entries] == [item_id_of("champions.csv")]
        assert texts(answer) == ["Douillet | judo"]
        assert answer.usage.seconds["compress"] > 0

    async def test_pictures_pass_whole(self):
        answer, _ = await answered(f"{LANGCHAIN}:k=1", k=4)
        assert "image" in {each.item.modality for each in answer.evidence.entries}

    async def test_a_threshold_that_nothing_reaches_shows_the_items_whole(self):
        answer, _ = await answered(f"{LANGCHAIN}:threshold=0.999", items=ITEMS[:3], k=2)
        assert {each.why for each in answer.evidence.entries} == {"whole"}

    async def test_nothing_retrieved_is_not_filtered(self):
        answer, _ = await answered(LANGCHAIN, items=())
        assert answer.evidence.entries == ()


class TestLlamaIndex:
    @pytest.fixture(autouse=True)
    def _needs_it(self):
        pytest.importorskip("llama_index.core")

    async def test_the_nearest_sentence_stays_with_one_before_and_one_after(self):
        answer, _ = await answered(f"{LLAMAINDEX}:percentile=0.2", items=(FIGHTS,), k=1)
        (entry,) = answer.evidence.entries
        leaves = [node.index for node in FIGHTS.nodes if not node.children]
        assert entry.kept == tuple(leaves[2:5])
        assert answer.usage.seconds["compress"] > 0

    async def test_without_a_window_it_stays_alone(self):
        name = f"{LLAMAINDEX}:percentile=0.2,before=0,after=0"
        answer, llm = await answered(name, items=(FIGHTS,), k=1)
        assert texts(answer) == ["Douillet, champion."]
        assert "\x00" not in prompt_text(llm.calls[0])

    async def test_each_item_is_cut_by_itself_and_pictures_pass_whole(self):
        answer, _ = await answered(LLAMAINDEX, k=4)
        assert len(answer.evidence.entries) == 4

    async def test_nothing_retrieved_is_not_optimized(self):
        answer, _ = await answered(LLAMAINDEX, items=())
        assert answer.evidence.entries == ()


class EveryOtherWord:
    """Stands in for `llmlingua.PromptCompressor`."""

    def __init__(self, model_name, use_llmlingua2, device_map):
        assert use_llmlingua2
        self.calls = []

    def compress_prompt_llmlingua2(self, context, rate, force_tokens):
        self.calls.append((context, rate))
        return {"compressed_prompt": " ".join(" ".join(context).split()[::2])}


@pytest.fixture
def weights(tmp_path, monkeypatch):
    module = ModuleType("llmlingua")
    module.PromptCompressor = EveryOtherWord
    monkeypatch.setitem(sys.modules, "llmlingua", module)
    (tmp_path / "config.json").write_text("{}")
    llmlingua2._loaded.cache_clear()
    return tmp_path


async def test_llmlingua_deletes_words_and_says_that_it_is_not_verbatim(weights):
    name = f"llmlingua2:model={weights}"
    method = build(name, parts_of(ScriptedLLM(), k=1))
    assert not method.verbatim
    answer, llm = await answered(name, items=ITEMS[1:2], k=1)
    assert texts(answer) == ["Judo invented the 1882. uniform judo white. people it."]
    assert "Judo\nJudo invented the 1882." in prompt_text(llm.calls[0])
    assert answer.evidence.entries[0].item.id == item_id_of("judo.txt")
    assert answer.usage.seconds["compress"] > 0
    assert answer.usage.llm_calls == 1


async def test_llmlingua_reads_tables_as_lines_and_leaves_pictures_alone(weights):
    answer, _ = await answered(f"llmlingua2:model={weights}", k=4)
    by_title = {each.item.title: each for each in answer.evidence.entries}
    assert by_title["a cat asleep"].item.modality == "image"
    assert by_title["Champions"].item.payload.text.startswith("name sport")


async def test_llmlingua_keeps_to_the_cap_and_copes_with_nothing(weights):
    answer, _ = await answered(f"llmlingua2:model={weights}", k=3, budget=10)
    assert 0 < answer.evidence.tokens <= 10
    answer, _ = await answered(f"llmlingua2:model={weights}", items=())
    assert answer.evidence.entries == ()


def test_llmlingua_without_weights_says_what_to_give(weights):
    with pytest.raises(ConfigError, match="llmlingua2:model=FOLDER"):
        build("llmlingua2", parts_of(ScriptedLLM()))


@pytest.mark.parametrize(
    ("name", "module"),
    [
        (LANGCHAIN, "langchain_core.embeddings"),
        (LLAMAINDEX, "llama_index.core.postprocessor"),
        ("llmlingua2", "llmlingua"),
    ],
)
def test_a_peer_that_is_not_installed_names_its_extra(name, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError, match=r"canopy-rag\[(peers|llmlingua)\]"):
        build(name, parts_of(ScriptedLLM()))


def test_only_what_can_run_here_is_listed(monkeypatch):
    monkeypatch.setattr("canopy_rag.baselines.registry.find_spec", lambda package: None)
    assert LANGCHAIN not in methods()
    assert "vanilla" in methods()
