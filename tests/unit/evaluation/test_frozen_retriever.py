"""Which retriever the methods of the frozen encoder get in a run."""

from types import SimpleNamespace

from tests.unit.baselines.test_frozen import Turned

from canopy_rag.baselines.frozen import FrozenNodes
from canopy_rag.evaluation.evaluate import _frozen_retriever
from canopy_rag.pipeline.retrieve import Retriever
from canopy_rag.testing.hashing import HashingEncoder


def test_the_frozen_encoder_searches_by_itself_only_where_it_finds_the_same_items():
    own = Retriever(encoder=HashingEncoder(), store="own", hybrid=True)
    alike = _frozen_retriever(own, SimpleNamespace(encoder=HashingEncoder(), store="f0"))
    assert (type(alike), alike.store, alike.hybrid) == (Retriever, "f0", True)
    other = _frozen_retriever(own, SimpleNamespace(encoder=Turned(), store="f0"))
    assert isinstance(other, FrozenNodes)
    assert (other.store, other.source, other.hybrid) == ("own", "f0", True)
