"""Official metrics against tables of tricky cases and a slow reference of the published rules."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.evaluation import reference

from canopy_rag.core.errors import UnknownNameError
from canopy_rag.core.questions import Question
from canopy_rag.evaluation.metrics import columns, headline, hotpotqa_score, score, squad_score
from canopy_rag.evaluation.mmqa import mmqa_score
from canopy_rag.evaluation.tatqa import KINDS, tatqa_score

GOLDEN = Path(__file__).parents[2] / "golden" / "metrics"


def cases(name):
    rows = json.loads((GOLDEN / name).read_text("utf-8"))
    return [
        pytest.param(row, id=f"{index}-{row['why']}".replace(" ", "-"))
        for index, row in enumerate(rows)
    ]


def expected(row):
    return pytest.approx((row["em"], float(Fraction(row["f1"]))), abs=1e-12)


@pytest.mark.parametrize("row", cases("squad.json"))
def test_squad_scores_a_tricky_case_as_the_official_script(row):
    assert squad_score(row["prediction"], row["gold"]) == expected(row)
    assert reference.squad(row["prediction"], row["gold"]) == expected(row)


@pytest.mark.parametrize("row", cases("hotpotqa.json"))
def test_hotpotqa_scores_a_tricky_case_as_the_official_script(row):
    assert hotpotqa_score(row["prediction"], row["gold"]) == expected(row)
    assert reference.hotpotqa(row["prediction"], row["gold"]) == expected(row)


@pytest.mark.parametrize("row", cases("tatqa.json"))
def test_tatqa_scores_a_tricky_case_as_the_official_script(row):
    ours = tatqa_score(
        row["prediction"],
        row["gold"],
        kind=row["kind"],
        scale=row["scale"],
        predicted_scale=row["predicted_scale"],
    )
    slow = reference.tatqa(
        row["prediction"], row["gold"], row["kind"], row["scale"], row["predicted_scale"]
    )
    assert ours == expected(row)
    assert slow == expected(row)


@pytest.mark.parametrize("row", cases("mmqa.json"))
def test_mmqa_scores_a_tricky_case_as_the_official_script(row):
    assert mmqa_score(row["prediction"], row["gold"]) == expected(row)
    em, f1 = reference.mmqa(row["prediction"], row["gold"])
    assert em == row["em"]
    assert f1 == pytest.approx(row["f1"], abs=0.005001)


def test_the_tables_hold_at_least_fifty_tricky_cases_for_hotpotqa_and_tatqa():
    assert len(cases("hotpotqa.json")) >= 50
    assert len(cases("tatqa.json")) >= 50


WORDS = st.sampled_from(
    [
        *("the", "a", "An", "Alpha", "alpha", "Beta", "yes", "no", "noanswer", "café", "U.S."),
        *("12", "12.5", "(12)", "(12.5)", "1,234", "$1,234.56", "12%", "12.35%", "(12%)", "-12"),
        *("million", "Thousand", "billion", "percent", "hundred", "12million", "twenty-one"),
        *("2019", "in", "–12", "+5", ".5", "-.5", "0.2342", "€", "€3", "nan", "1e5", "#12"),
        *("12/31", "don't", "3.", "[7]", "twelve", "１２", "²", "2.675", "1.2.3", '"x"', "--", "("),
    ]
)
TEXTS = st.lists(WORDS, max_size=4).map(" ".join) | st.text(max_size=6)
SCALES = st.sampled_from(["", "thousand", "million", "billion", "percent"])


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=3))
def test_squad_and_hotpotqa_agree_with_the_slow_reference_on_any_text(prediction, answers):
    assert squad_score(prediction, answers) == pytest.approx(reference.squad(prediction, answers))
    slow = reference.hotpotqa(prediction, answers)
    assert hotpotqa_score(prediction, answers) == pytest.approx(slow)


@given(
    st.lists(TEXTS, max_size=3),
    st.lists(TEXTS, min_size=1, max_size=3),
    st.sampled_from(KINDS),
    SCALES,
    SCALES,
)
def test_tatqa_agrees_with_the_slow_reference_on_any_text(predicted, gold, kind, scale, apart):
    ours = tatqa_score(predicted, gold, kind=kind, scale=scale, predicted_scale=apart)
    assert tuple(ours) == reference.tatqa(predicted, gold, kind, scale, apart)


@given(st.lists(TEXTS, max_size=4), st.lists(TEXTS, min_size=1, max_size=4))
def test_mmqa_agrees_with_the_slow_reference_on_any_text(predicted, gold):
    em, f1 = mmqa_score(predicted, gold)
    slow_em, slow_f1 = reference.mmqa(predicted, gold)
    assert em == slow_em
    assert f1 == pytest.approx(slow_f1, abs=0.005001)


@given(st.lists(TEXTS, min_size=1, max_size=3))
def test_a_reference_given_as_prediction_matches_exactly(gold):
    assert squad_score(gold[0], gold).exact == 1
    assert hotpotqa_score(gold[0], gold).exact == 1
    assert tatqa_score(gold, gold, kind="multi-span").exact == 1
    assert mmqa_score(gold, gold).exact == 1


def test_a_number_too_long_for_a_float_is_scored_and_does_not_fail():
    assert tatqa_score(["1" * 5000 + " million"], ["1"], kind="count").exact == 0
    assert tatqa_score(["1" * 400 + "%"], ["1"], kind="count").exact == 0


# One reply to a question


def question(answers, **fields):
    return Question(id="q1", text="?", answers=answers, gold=(), **({"kind": ""} | fields))


def test_each_metric_scores_a_reply_to_its_question():
    assert score("squad", "the Alpha", question(("Beta", "alpha"))) == {"em": 1, "f1": 1}
    assert score("hotpotqa", "yes it is", question(("yes",))) == {"em": 0, "f1": 0}
    tatqa = question(("12.3",), kind="arithmetic", scale="million")
    assert score("tatqa", "$12.3 million", tatqa) == {"em": 1, "f1": 1}
    assert score("tatqa", "12.3", tatqa) == {"em": 0, "f1": 0}
    assert score("tatqa", "12.3", tatqa, scale="million") == {"em": 1, "f1": 1}
    assert score("mmqa", "- Beta\n- Alpha", question(("Alpha", "Beta"))) == {"em": 1, "f1": 1}
    choice = question(("B",), options=("a cat", "a dog"))
    assert score("accuracy", "(B)", choice) == {"accuracy": 1, "no_option": 0}
    assert score("accuracy", "a cat", choice) == {"accuracy": 0, "no_option": 0}
    assert score("accuracy", "unknown", choice) == {"accuracy": 0, "no_option": 1}


@pytest.mark.parametrize("metric", ["squad", "hotpotqa", "tatqa", "mmqa"])
def test_an_empty_reply_scores_nothing(metric):
    assert score(metric, " ", question(("Alpha",), kind="span")) == {"em": 0, "f1": 0}


@pytest.mark.parametrize("metric", ["squad", "hotpotqa", "tatqa", "mmqa", "accuracy"])
def test_a_question_without_answer_is_an_error_that_names_it(metric):
    with pytest.raises(ValueError, match=r"question 'q1': a.* needs"):
        score(metric, "Alpha", question((), kind="span", options=("a", "b")))


def test_a_tatqa_question_without_its_answer_type_is_an_error():
    with pytest.raises(ValueError, match=r"answer types are span, .* not 'bridge'"):
        score("tatqa", "12", question(("12",), kind="bridge"))


def test_a_multiple_choice_question_without_options_is_an_error():
    with pytest.raises(ValueError, match="has 1 to 26 options, this has 0"):
        score("accuracy", "B", question(("B",)))


def test_an_unknown_metric_is_an_error_with_a_suggestion():
    with pytest.raises(UnknownNameError, match="Did you mean 'hotpotqa'"):
        score("hotpot", "x", question(("x",)))


def test_the_headline_is_accuracy_for_multiple_choice_and_f1_otherwise():
    assert headline("accuracy") == "accuracy"
    assert headline("mmqa") == "f1"


def test_scores_of_many_questions_become_one_array_per_figure():
    table = columns([{"em": 1.0, "f1": 1.0}, {"em": 0.0, "f1": 0.5}])
    assert list(table) == ["em", "f1"]
    np.testing.assert_array_equal(table["f1"], [1.0, 0.5])
    assert columns([]) == {}
    with pytest.raises(ValueError, match="the same figures"):
        columns([{"em": 1.0}, {"accuracy": 1.0}])
