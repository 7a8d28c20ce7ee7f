"""The public classes on real files, with the hashing encoder for speed."""

import asyncio
from dataclasses import replace

import pytest

import canopy_rag as canopy
from canopy_rag.config import Config, EncoderConfig, RetrievalConfig, SelectConfig
from canopy_rag.core.errors import ConfigError, DataError, EncodeError, LLMError, StoreError
from canopy_rag.testing.hashing import HashingEncoder
from canopy_rag.testing.scripted import ScriptedLLM

HASHING = Config(encoder=EncoderConfig(name="hashing"), origins={"encoder.name": "test"})
ONE_ROUND = RetrievalConfig(rounds=1, aggregate=False)
DOCUMENTS = [
    "Judo was created in 1882. It is a sport. Many people like it a lot.",
    {"id": "tea", "title": "Tea", "text": "Tea is a drink. It was first drunk in China."},
    {
        "id": "medals",
        "table": {"header": ["name", "sport"], "rows": [["Ada", "judo"], ["Bob", "golf"]]},
    },
]


@pytest.fixture
def folder(tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    (files / "judo.md").write_text("# Judo\n\nJudo was created in 1882. It is a sport.\n")
    (files / "people.csv").write_text("name,born\nAda,1815\nAlan,1912\n")
    return files


@pytest.fixture
def index(tmp_path, folder):
    opened = canopy.Index.open(tmp_path / "index", create=True, config=HASHING)
    report = opened.add(folder)
    assert report.to_dict()["files"]["indexed"] == 2
    return opened


def test_documents_are_compressed_in_order_and_verbatim():
    compressor = canopy.Compressor(HashingEncoder(dim=256), min_tokens=0)
    evidence = compressor.compress("When was judo created?", DOCUMENTS)
    assert [entry.item.id for entry in evidence.entries][1:] == ["tea", "medals"]
    assert "Judo was created in 1882." in evidence.text
    assert evidence.tokens < evidence.tokens_full
    for fragment in evidence.fragments:
        assert fragment.text in evidence.text


def test_a_budget_in_the_callers_own_tokens_is_exact():
    compressor = canopy.Compressor("hashing", budget=6, count_tokens=lambda text: len(text.split()))
    evidence = compressor.compress("judo", DOCUMENTS)
    assert len(evidence.text.split()) <= 6
    assert evidence.to_dict()["tokens_are"] == "exact"


def test_no_documents_give_no_evidence():
    assert canopy.Compressor("hashing").compress("q", []).text == ""


def test_an_encoder_that_fails_gives_the_originals_and_says_why():
    class Broken(HashingEncoder):
        def encode_items(self, items):
            raise EncodeError(items[0].id, "out of memory")

    evidence = canopy.Compressor(Broken()).compress("judo", DOCUMENTS)
    assert evidence.tokens == evidence.tokens_full
    assert len(evidence.entries) == 3
    assert "out of memory" in evidence.fallbacks[0].reason


def test_a_query_that_is_no_string_is_named():
    with pytest.raises(DataError, match="must be a string, got int"):
        canopy.Compressor("hashing").compress(3, DOCUMENTS)


def test_settings_that_cannot_work_are_refused_at_once():
    with pytest.raises(ConfigError, match="budget"):
        canopy.Compressor("hashing", budget=0)
    with pytest.raises(ConfigError, match="Did you mean 'minilm'"):
        canopy.Compressor("minilmm")


def test_a_folder_is_searched_and_fragments_point_into_its_files(index, folder):
    evidence = index.search("when was judo created", selection=None)
    judo = next(e for e in evidence.entries if e.item.source.uri == "judo.md")
    fragment = next(f for f in evidence.fragments if f.item_id == judo.item.id)
    start, stop = fragment.source.char
    assert (folder / "judo.md").read_text()[start:stop] == fragment.text
    assert index.item(judo.item.id) == judo.item
    assert index.info()["items"]["total"] == 2


def test_an_index_is_opened_again_with_its_own_encoder(index):
    again = canopy.Index.open(index.path)
    assert again.encoder.fingerprint == index.encoder.fingerprint
    assert again.search("judo").entries


def test_an_index_of_another_encoder_is_refused(index):
    other = Config(encoder=EncoderConfig(name="minilm"), origins={"encoder.name": "flag"})
    with pytest.raises(StoreError, match="hashing"):
        canopy.Index.open(index.path, config=other)


def test_a_missing_index_says_how_to_make_one(tmp_path):
    with pytest.raises(StoreError, match="canopy index"):
        canopy.Index.open(tmp_path / "nothing")


def test_an_item_that_is_no_hit_can_be_explained_too(index):
    table = next(each for each in index.explain("ada") if each.found.item.modality == "table")
    (alone,) = index.explain("judo", k=1, item=table.found.item.id)
    assert alone.found.item == table.found.item
    with pytest.raises(StoreError, match="no item"):
        index.explain("judo", item="nonsense")
    with pytest.raises(ConfigError, match="k must be"):
        index.explain("judo", k=0)


def test_questions_are_answered_with_and_without_a_running_loop(index):
    llm = ScriptedLLM(("judo", "1882 [1]."), ("Ada", "1815 [1]."), any_order=True)
    rag = canopy.Canopy(index, llm, config=replace(HASHING, retrieval=ONE_ROUND))
    assert rag.ask("When was judo created?").text == "1882 [1]."

    async def inside():
        return rag.ask("When was Ada born?").text

    assert asyncio.run(inside()) == "1815 [1]."
    llm.assert_done()
    rag.close()
    assert llm.closed


def test_many_questions_come_back_in_order(index):
    rag = canopy.Canopy(index)
    questions = ["When was judo created?", "Who is Ada?"]
    assert [answer.question for answer in rag.ask_many(questions)] == questions


def test_a_stream_ends_with_the_answer(index):
    *_, answer = canopy.Canopy(index).stream("judo?")
    assert answer.stop == "no_critic"


def test_many_queries_find_what_each_finds_alone_in_order(index):
    queries = ["When was judo created?", "name: Ada; born: 1815", "When was judo created?"]
    found = index.search_many(queries, k=1)
    assert [each.text for each in found] == [index.search(one, k=1).text for one in queries]
    assert found[0].text != found[1].text
    assert index.search_many([]) == []
    with pytest.raises(DataError, match="empty"):
        index.search_many(["Ada", " "])


def test_an_empty_query_is_refused(index):
    with pytest.raises(DataError, match="query is empty"):
        index.search(" ")
    with pytest.raises(DataError, match="query is empty"):
        index.explain("")


def test_an_empty_question_is_refused(index):
    rag = canopy.Canopy(index)
    for ask in (rag.ask, lambda text: list(rag.stream(text))):
        with pytest.raises(DataError, match="empty"):
            ask("  ")


def test_a_batch_ends_question_by_question_and_errors_name_theirs(index):
    """Two hundred questions, every tenth of which its server fails."""
    questions = [f"When was judo number-{number}-end created?" for number in range(200)]
    steps = [
        (
            f"number-{number}-end",
            LLMError("the server is down", status=500) if number % 10 == 0 else f"{number} [1].",
        )
        for number in range(200)
    ]
    llm = ScriptedLLM(*steps, any_order=True)
    rag = canopy.Canopy(index, llm, config=replace(HASHING, retrieval=ONE_ROUND))
    ended = rag.ask_many(questions, on_error="return")
    llm.assert_done()
    for number, (question, each) in enumerate(zip(questions, ended, strict=True)):
        if number % 10 == 0:
            assert isinstance(each, LLMError)
            assert question in each.__notes__[0]
        else:
            assert each.question == question
            assert each.text == f"{number} [1]."


def test_a_failed_question_is_raised_by_name_once_all_have_ended(index):
    llm = ScriptedLLM(
        ("judo", LLMError("the server is down", status=500)), ("Ada", "1815."), any_order=True
    )
    rag = canopy.Canopy(index, llm, config=replace(HASHING, retrieval=ONE_ROUND))
    with pytest.raises(LLMError, match="down") as caught:
        rag.ask_many(["When was judo created?", "When was Ada born?"])
    llm.assert_done()
    assert caught.value.__notes__ == [
        "question: 'When was judo created?'",
        "1 of 2 questions failed",
    ]


def test_an_index_selects_over_the_set_and_documents_each_for_itself_unless_told(index):
    documents = ["Judo was created in 1882. It is a sport.", "Tea is a drink. It is hot."]
    each = canopy.Compressor("hashing", min_tokens=0).compress("judo created", documents)
    assert len(each.entries) == 2
    over_set = canopy.Compressor("hashing", min_tokens=0, select="set")
    assert len(over_set.compress("judo created", documents).left_out) == 1
    refined = SelectConfig(min_tokens=0)
    assert index.search("judo created", selection=refined).left_out
    paper = replace(refined, select="paper")
    assert not index.search("judo created", selection=paper).left_out
