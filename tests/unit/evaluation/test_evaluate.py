"""What a run refuses, and which retriever the methods of the frozen encoder get in it."""

from types import SimpleNamespace

import pytest
from tests.unit.baselines.test_frozen import Turned

from canopy_rag.baselines.frozen import FrozenNodes
from canopy_rag.config import Config, EncoderConfig
from canopy_rag.core.errors import ConfigError
from canopy_rag.datasets.frozen import frozen
from canopy_rag.evaluation.evaluate import _frozen_retriever, check_untrained
from canopy_rag.pipeline.retrieve import Retriever
from canopy_rag.testing.hashing import HashingEncoder


def test_the_frozen_encoder_searches_by_itself_only_where_it_finds_the_same_items():
    own = Retriever(encoder=HashingEncoder(), store="own", hybrid=True)
    alike = _frozen_retriever(own, SimpleNamespace(encoder=HashingEncoder(), store="f0"))
    assert (type(alike), alike.store, alike.hybrid) == (Retriever, "f0", True)
    other = _frozen_retriever(own, SimpleNamespace(encoder=Turned(), store="f0"))
    assert isinstance(other, FrozenNodes)
    assert (other.store, other.source, other.hybrid) == ("own", "f0", True)


def task_of(*parts, benchmark="hotpotqa"):
    """A task that tests the first frozen question of each part."""
    by_part = {part: name for name, part in reversed(frozen(benchmark).parts.items())}
    questions = [SimpleNamespace(id=by_part[part]) for part in parts]
    return SimpleNamespace(name=benchmark, questions=questions)


@pytest.mark.parametrize("name", ["minilm", "minilm:paper"])
@pytest.mark.parametrize("part", ["train", "validation"])
def test_what_the_adapter_of_the_package_was_trained_or_chosen_on_is_not_tested(name, part):
    config = Config(encoder=EncoderConfig(name=name))
    check_untrained(config, [task_of("test")])
    with pytest.raises(ConfigError, match="on 1 of the 2 test questions of hotpotqa"):
        check_untrained(config, [task_of("test", part)])


@pytest.mark.parametrize("name", ["minilm:base", "minilm+own", "minilm:base+own", "hashing"])
def test_any_question_may_be_tested_without_that_adapter(name):
    check_untrained(Config(encoder=EncoderConfig(name=name)), [task_of("test", "train")])


def test_what_was_frozen_and_not_trained_on_may_be_tested():
    out_of_domain = [task_of("train", benchmark="tatqa")]
    check_untrained(Config(encoder=EncoderConfig(name="minilm:paper")), out_of_domain)
    with pytest.raises(ConfigError, match="tatqa"):
        check_untrained(Config(encoder=EncoderConfig(name="minilm")), out_of_domain)
