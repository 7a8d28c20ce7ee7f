from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from canopy_rag import config
from canopy_rag.baselines import registry
from canopy_rag.config import Config, LLMConfig, RetrievalConfig, Secret, SelectConfig
from canopy_rag.core.errors import ConfigError, UnknownNameError
from canopy_rag.ingest.options import IngestOptions

ROOT = Path(__file__).resolve().parents[2]


def written(folder: Path, text: str) -> Path:
    path = folder / "settings.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_without_anything_every_value_is_a_default() -> None:
    found = config.load({}, {})
    assert found == Config()
    assert {origin for _, _, origin in found.rows()} == {"default"}


def test_a_flag_beats_the_environment_which_beats_the_file_which_beats_the_default(
    tmp_path: Path,
) -> None:
    file = written(tmp_path, "[retrieval]\nk = 4\nrounds = 4\nhybrid = true\n")
    env = {"CANOPY_RETRIEVAL_K": "5", "CANOPY_RETRIEVAL_ROUNDS": "5"}
    found = config.load({"retrieval.k": 6}, env, file)
    assert found.retrieval == RetrievalConfig(k=6, rounds=5, hybrid=True)
    rows = {key: (value, origin) for key, value, origin in found.rows()}
    assert rows["retrieval.k"] == (6, "flag")
    assert rows["retrieval.rounds"] == (5, "environment CANOPY_RETRIEVAL_ROUNDS")
    assert rows["retrieval.hybrid"] == (True, str(file))
    assert rows["select.cap"] == ("margin", "default")


def test_a_flag_that_was_not_given_leaves_the_value_alone() -> None:
    assert config.load({"retrieval.k": None}, {"CANOPY_RETRIEVAL_K": "5"}).retrieval.k == 5


def test_the_file_of_the_working_directory_is_read() -> None:
    Path("canopy.toml").write_text("[index]\npath = 'here'\n", encoding="utf-8")
    found = config.load({}, {})
    assert found.index.path == "here"
    assert found.origins["index.path"] == "canopy.toml"


def test_the_environment_can_name_another_file(tmp_path: Path) -> None:
    Path("canopy.toml").write_text("[index]\npath = 'here'\n", encoding="utf-8")
    file = written(tmp_path, "[index]\npath = 'there'\n")
    assert config.load({}, {"CANOPY_CONFIG": str(file)}).index.path == "there"


def test_a_named_file_that_is_missing_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"cannot read the settings file nowhere\.toml: No such"):
        config.load({}, {"CANOPY_CONFIG": "nowhere.toml"})


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("yes", "retrieval.hybrid", True),
        ("OFF", "retrieval.hybrid", False),
        ("250", "select.budget", 250),
        ("none", "select.budget", None),
        ("union", "select.repeat", "union"),
        ("2.5", "llm.timeout_s", 2.5),
        ("3", "llm.timeout_s", 3.0),
        ("none", "llm.name", "none"),
        ("http://127.0.0.1:8000/v1", "llm.name", "http://127.0.0.1:8000/v1"),
        ("late", "encoder.mode", "late"),
    ],
)
def test_text_of_the_environment_is_read_as_the_type_of_its_field(
    text: str, key: str, value: object
) -> None:
    rows = {name: one for name, one, _ in config.load({}, {config.variable(key): text}).rows()}
    assert rows[key] == value
    assert type(rows[key]) is type(value)


def test_canopy_index_is_short_for_the_path_of_the_index() -> None:
    found = config.load({}, {"CANOPY_INDEX": "mine"})
    assert found.index.path == "mine"
    assert found.origins["index.path"] == "environment CANOPY_INDEX"


def test_the_short_and_the_long_variable_may_not_disagree() -> None:
    with pytest.raises(ConfigError, match="'a' and CANOPY_INDEX_PATH='b' disagree"):
        config.load({}, {"CANOPY_INDEX": "a", "CANOPY_INDEX_PATH": "b"})
    assert config.load({}, {"CANOPY_INDEX": "a", "CANOPY_INDEX_PATH": "a"}).index.path == "a"


def test_an_empty_variable_counts_as_unset() -> None:
    assert config.load({}, {"CANOPY_RETRIEVAL_K": "", "CANOPY_NO_SETTING": ""}) == Config()


@pytest.mark.parametrize(
    ("flags", "env", "text", "message"),
    [
        ({}, {"CANOPY_RETREIVAL_K": "3"}, "", "'CANOPY_RETREIVAL_K'. Did you mean 'CANOPY_RETRIEV"),
        ({"retrieval.kk": 3}, {}, "", "unknown flag 'retrieval.kk'. Did you mean 'retrieval.k'"),
        ({}, {}, "[retrieval]\nround = 1", "'retrieval.round'. Did you mean 'retrieval.rounds'"),
        ({}, {}, "[retrieva]\nk = 1", "unknown section of "),
        ({}, {}, "k = 1", "unknown section of "),
    ],
)
def test_unknown_names_are_refused_with_a_suggestion(
    flags: dict[str, Any], env: dict[str, str], text: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UnknownNameError) as caught:
        config.load(flags, env, written(tmp_path, text))
    assert message in str(caught.value)


def test_variables_that_are_no_settings_are_let_through() -> None:
    names = ("CANOPY_LLM_API_KEY", "CANOPY_SERVER_API_KEY", "CANOPY_SAMPLES", "OPENAI_API_KEY")
    names += ("CANOPY_DATA", "CANOPY_DEBUG", "CANOPY_LOCAL_GGUF")
    assert config.load({}, dict.fromkeys(names, "x")) == Config()


@pytest.mark.parametrize(
    ("flags", "env", "text", "message"),
    [
        ({"retrieval.k": 0}, {}, "", "retrieval.k must be a whole number, at least 1, got 0 (from"),
        ({"retrieval.k": 0}, {}, "", "(from flag)"),
        ({"retrieval.k": True}, {}, "", "retrieval.k must be a whole number"),
        ({}, {"CANOPY_RETRIEVAL_K": "ten"}, "", "'ten' (from environment CANOPY_RETRIEVAL_K)"),
        ({}, {"CANOPY_RETRIEVAL_HYBRID": "maybe"}, "", "retrieval.hybrid must be true or false"),
        ({}, {"CANOPY_SELECT_CAP": "head"}, "", "select.cap must be one of margin, tail"),
        ({}, {"CANOPY_LLM_TIMEOUT_S": "nan"}, "", "llm.timeout_s must be a number, above 0"),
        ({}, {"CANOPY_LLM_TIMEOUT_S": "inf"}, "", "llm.timeout_s must be a number, above 0"),
        (
            {},
            {},
            "[retrieval]\nk = '10'",
            "retrieval.k must be a whole number, at least 1, got '10'",
        ),
        ({}, {}, "[retrieval]\nk = '10'", "settings.toml)"),
        ({}, {}, "[index]\npath = ''", "index.path must be text, not empty"),
        (
            {},
            {},
            "[select]\nselect = [1]",
            "select.select must be one of auto, paper, set, got [1]",
        ),
        ({}, {}, "retrieval = 3", "retrieval must be a table, [retrieval], got 3"),
        ({}, {}, "[retrieval", "is not valid TOML"),
    ],
)
def test_a_wrong_value_is_named_with_its_origin(
    flags: dict[str, Any], env: dict[str, str], text: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load(flags, env, written(tmp_path, text))
    assert message in str(caught.value)


def test_a_file_in_another_encoding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_bytes("[index]\npath = 'Bücher'\n".encode("latin-1"))
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        config.load({}, {}, path)


def test_a_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_bytes(b"\xef\xbb\xbf[retrieval]\nk = 2\n")
    assert config.load({}, {}, path).retrieval.k == 2


def test_a_key_in_the_file_is_refused_without_repeating_it(tmp_path: Path) -> None:
    file = written(tmp_path, "[llm]\napi_key = 'sk-abc'\n")
    with pytest.raises(ConfigError, match="keys are read from the environment only") as caught:
        config.load({}, {}, file)
    assert "sk-abc" not in str(caught.value)


def test_a_path_may_be_given_as_a_path() -> None:
    assert config.load({"index.path": Path("a") / "b"}, {}).index.path == str(Path("a") / "b")


def test_sections_built_in_code_are_checked_too() -> None:
    with pytest.raises(
        ConfigError, match=r"retrieval\.k must be a whole number, at least 1, got 0"
    ):
        RetrievalConfig(k=0)
    with pytest.raises(ConfigError, match=r"select\.budget must be a whole number"):
        SelectConfig(budget=0)
    with pytest.raises(ConfigError, match=r"llm\.timeout_s must be a number, above 0"):
        LLMConfig(timeout_s=0)


def test_keys_come_from_the_environment_alone_ours_first() -> None:
    both = {"CANOPY_LLM_API_KEY": "ours", "OPENAI_API_KEY": "theirs"}
    assert config.llm_api_key(both) == Secret("ours")
    assert config.llm_api_key({"OPENAI_API_KEY": "theirs"}) == Secret("theirs")
    assert config.llm_api_key({}) is None


def test_an_empty_key_counts_as_unset() -> None:
    env = {"CANOPY_LLM_API_KEY": " ", "OPENAI_API_KEY": "theirs"}
    assert config.llm_api_key(env) == Secret("theirs")
    assert config.server_api_key({"CANOPY_SERVER_API_KEY": ""}) is None


def test_a_flag_overrides_the_servers_key() -> None:
    env = {"CANOPY_SERVER_API_KEY": "of the environment"}
    assert config.server_api_key(env, flag="of the flag") == Secret("of the flag")
    assert config.server_api_key(env) == Secret("of the environment")


def test_a_secret_shows_itself_only_when_asked() -> None:
    secret = Secret("sk-abc")
    assert secret.reveal() == "sk-abc"
    assert "sk-abc" not in f"{secret!r} {secret} {[secret]}"


def test_a_password_in_a_url_is_masked_in_the_rows() -> None:
    found = config.load({"llm.name": "https://me:secret@host/v1,https://you:secret@other/v1"}, {})
    rows = {key: value for key, value, _ in found.rows()}
    assert rows["llm.name"] == "https://****@host/v1,https://****@other/v1"
    assert "secret" in found.llm.name


def test_every_setting_has_a_row_and_a_variable_of_its_own() -> None:
    keys = [key for key, _, _ in Config().rows()]
    assert keys == list(config.keys())
    assert len({config.variable(key) for key in keys}) == len(keys)


def test_the_settings_of_reading_files_are_those_of_ingest() -> None:
    def shape(cls: type[Any]) -> dict[str, Any]:
        callables = {"splitter", "note"}
        fields = dataclasses.fields(cls)
        return {one.name: one.default for one in fields if one.name not in callables}

    assert shape(config.IngestConfig) == shape(IngestOptions)


def test_the_papers_file_loads_with_the_papers_values() -> None:
    found = config.load({}, {}, ROOT / "configs" / "paper.toml")
    assert (found.retrieval.k, found.retrieval.rounds) == (10, 3)
    assert found.select == SelectConfig(
        select="paper", budget=16_000, cap="tail", min_tokens=0, when="always", repeat="keep"
    )
    assert found.encoder.mode == "node"
    assert found.llm.max_in_flight == 32


def test_every_value_of_the_papers_file_says_where_it_is_from() -> None:
    lines = (ROOT / "configs" / "paper.toml").read_text("utf-8").splitlines()
    values = [at for at, line in enumerate(lines) if re.match(r"\w+ = ", line)]
    assert len(values) >= 25
    told = [at for at in values if "# P" in lines[at] or lines[at - 1].startswith("# P")]
    assert [lines[at] for at in values if at not in told] == []


def test_the_papers_file_names_methods_that_exist() -> None:
    found = config.load({}, {}, ROOT / "configs" / "paper.toml")
    names = found.evaluate.methods.split()
    assert {"canopy", "canopy-routed", "vanilla", "recomp", "s2g-rag", "ircot"} <= set(names)
    assert [name for name in names if not registry.parse(name)] == []


def test_the_sample_file_names_methods_that_exist() -> None:
    found = config.load({}, {}, ROOT / "configs" / "cpu-sample.toml")
    assert [name for name in found.evaluate.methods.split() if not registry.parse(name)] == []


def test_storage_options_are_names_and_values() -> None:
    text = "aws_region=eu-west-1, AWS_ENDPOINT=https://h:9000/a=b,"
    found = config.load({"index.storage_options": text}, {}).index
    assert found.options() == {"aws_region": "eu-west-1", "aws_endpoint": "https://h:9000/a=b"}
    assert config.load({}, {}).index.options() == {}


@pytest.mark.parametrize("text", ["aws_region", "=x", "aws_region=", "a b"])
def test_a_storage_option_without_name_or_value_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="must be name=value with commas between"):
        config.load({"index.storage_options": text}, {})


@pytest.mark.parametrize(
    "name",
    [
        "aws_secret_access_key",
        "AWS_ACCESS_KEY_ID",
        "aws_session_token",
        "aws_sse_customer_key_base64",
        "account_key",
        "sas_token",
    ],
)
def test_a_key_among_storage_options_is_refused_and_not_shown(name: str) -> None:
    with pytest.raises(ConfigError, match="from the environment only") as caught:
        config.load({"index.storage_options": f"aws_region=x,{name}=hunter2"}, {})
    assert "hunter2" not in str(caught.value)


def test_a_password_in_a_storage_option_is_masked() -> None:
    found = config.load({"index.storage_options": "aws_endpoint=https://me:hunter2@h:9000"}, {})
    assert "hunter2" not in str(found.rows())
