from __future__ import annotations

import pytest

from canopy_rag.evaluation.normalise import answer_parts


@pytest.mark.parametrize(
    ("reply", "parts"),
    [
        ("Alpha", ("Alpha",)),
        (" Alpha \n", ("Alpha",)),
        ("", ()),
        (" \n\t", ()),
        (";", ()),
        ("Alpha; Beta;", ("Alpha", "Beta")),
        ("Paris, Texas", ("Paris, Texas",)),
        ("1,234", ("1,234",)),
        ("Alpha\nBeta", ("Alpha", "Beta")),
        ("Alpha\n\nBeta\n", ("Alpha", "Beta")),
        ("- Alpha\n* Beta\n• Gamma", ("Alpha", "Beta", "Gamma")),
        ("1. Alpha\n2) Beta\n(3) Gamma", ("Alpha", "Beta", "Gamma")),
        ("1.5\n2.5", ("1.5", "2.5")),
        ("-5\n-6", ("-5", "-6")),
        ("(12)\n(13)", ("(12)", "(13)")),
        ("1. Alpha", ("1. Alpha",)),
        ("Alpha; one\nBeta", ("Alpha; one", "Beta")),
        ('["Alpha", "Beta; Gamma"]', ("Alpha", "Beta; Gamma")),
        ("[1, 2.5, true]", ("1", "2.5", "true")),
        ("[]", ()),
        ("[Alpha; Beta]", ("[Alpha", "Beta]")),
        ('[["Alpha"]]', ('[["Alpha"]]',)),
        ("[12]", ("12",)),
    ],
)
def test_a_reply_is_split_where_it_lists_answers(reply, parts):
    assert answer_parts(reply) == parts
