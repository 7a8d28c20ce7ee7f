"""Methods by name and parameters."""

import dataclasses
import importlib

import pytest

from canopy_rag.baselines.registry import build, full_name, methods, parse, specs
from canopy_rag.core.errors import ConfigError, UnknownNameError
from canopy_rag.testing.scripted import ScriptedLLM
from tests.unit.baselines.conftest import parts_of


def test_every_method_says_what_it_does():
    found = methods()
    assert {"canopy", "canopy-routed", "vanilla", "flat", "recomp"} < set(found)
    assert {"s2g-rag", "ircot", "universalrag"} < set(found)
    assert {"canopy-norefine", "canopy-oneround", "canopy-f0"} < set(found)
    assert all(found.values())


@pytest.mark.parametrize(
    ("given", "full"),
    [
        ("flat", "flat"),
        ("flat:m=5", "flat"),
        (" flat: encoder = f0 , m = 3 ", "flat:m=3,encoder=f0"),
        ("canopy-routed:refine=false", "canopy-routed:refine=false"),
        ("canopy-oneround:rounds=1", "canopy-oneround"),
        ("ircot:last=no,choice=1", "ircot:last=false,choice=true"),
    ],
)
def test_a_method_has_one_name_however_it_is_written(given, full):
    assert full_name(*parse(given)) == full
    assert build(given, parts_of(ScriptedLLM())).name == full


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("vanila", UnknownNameError, "Did you mean 'vanilla'"),
        ("flat:n=3", UnknownNameError, "parameter of method 'flat'"),
        ("flat:", UnknownNameError, "parameter of method 'flat'"),
        ("vanilla:k=3", UnknownNameError, "Known: none"),
        ("flat:m=0", ConfigError, "at least 1"),
        ("flat:m=many", ConfigError, "a whole number"),
        ("flat:m", ConfigError, "m=VALUE"),
        ("flat:m=1,m=2", ConfigError, "once"),
        ("canopy:select=best", ConfigError, "paper, set"),
    ],
)
def test_a_name_that_cannot_work_says_why(name, error, words):
    with pytest.raises(error, match=words):
        build(name, parts_of(ScriptedLLM()))


@pytest.mark.parametrize("name", ["canopy-f0", "recomp", "flat:encoder=f0"])
def test_without_the_frozen_encoder_what_needs_it_is_refused(name):
    with pytest.raises(ConfigError, match=r"frozen encoder \(f0\)"):
        build(name, parts_of(ScriptedLLM(), frozen=False))


@pytest.mark.parametrize("name", ["canopy-routed", "s2g-rag", "ircot", "universalrag"])
def test_without_a_chat_model_what_needs_it_is_refused(name):
    parts = dataclasses.replace(parts_of(ScriptedLLM()), llm=None)
    with pytest.raises(ConfigError, match="needs a chat model"):
        build(name, parts)


def test_reasoning_needs_to_know_where_a_sentence_ends():
    parts = dataclasses.replace(parts_of(ScriptedLLM()), splitter=None)
    with pytest.raises(ConfigError, match="sentence splitter"):
        build("ircot", parts)


@pytest.mark.parametrize("name", specs())
def test_every_method_states_what_differs_from_the_original(name):
    text = importlib.import_module(specs()[name].module).__doc__
    assert "\nDifferences from " in text
    assert text.count("\n- ") >= 1


@pytest.mark.parametrize("name", specs())
def test_the_default_parameters_go_without_saying(name):
    assert dataclasses.is_dataclass(specs()[name].settings)
    assert full_name(specs()[name], specs()[name].settings()) == name
