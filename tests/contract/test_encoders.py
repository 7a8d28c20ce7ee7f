"""Every encoder keeps the promises of its protocol."""

from __future__ import annotations

import pytest

from canopy_rag.core.protocols import Encoder
from canopy_rag.encoders import encoder, locate
from canopy_rag.testing.encoder_contract import EncoderContract, Mode
from canopy_rag.testing.hashing import HashingEncoder

has_weights = locate.PACKED.is_file() or locate.package_checkpoint() is not None
needs_weights = pytest.mark.skipif(
    not has_weights, reason=f"the embedded encoder's weights are not here; run: {locate.INSTALL}"
)


class TestHashingEncoder(EncoderContract):
    def make(self, mode: Mode) -> Encoder:
        return HashingEncoder(mode=mode)


@needs_weights
class TestMiniLM(EncoderContract):
    def make(self, mode: Mode) -> Encoder:
        return encoder("minilm", mode=mode)
