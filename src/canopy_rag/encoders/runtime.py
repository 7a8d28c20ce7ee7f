"""What runs the embedded network: onnxruntime, or openvino in bfloat16 where the CPU has it."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from canopy_rag._optional import require
from canopy_rag.encoders.checkpoint import Weights, graph_shapes
from canopy_rag.encoders.locate import GRAPH

Backend = Literal["onnxruntime", "openvino"]
Network = Callable[[NDArray[np.float32], NDArray[np.float32]], NDArray[np.float32]]
"""Words' vectors `(n, length, dim)` and what of them is no padding `(n, length)`, to states
`(n, length, dim)`. For all threads."""
FEATURE = "the embedded encoder"
WEIGHTS_FILE = "in-memory"
"""Where the graph says that its weights lie."""


def network(weights: Weights, backend: Backend, threads: int) -> Network:
    """Return the network with these weights.

    Args:
        weights: Its weights.
        backend: What runs it.
        threads: Most calls at the same time; each runs on one thread.

    Raises:
        MissingDependencyError: If the backend is not installed.
    """
    if backend == "openvino":
        return _openvino(weights, threads)
    return _OnnxRuntime(weights)


class _OnnxRuntime:
    """A session, with the weights that it may read as long as it lives."""

    def __init__(self, weights: Weights) -> None:
        ort = require("onnxruntime", extra="local", feature=FEATURE)
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.enable_mem_pattern = False  # shapes differ from batch to batch
        self._values = [ort.OrtValue.ortvalue_from_numpy(value) for value in weights.graph.values()]
        options.add_external_initializers(list(weights.graph), self._values)
        self._session: Any = ort.InferenceSession(
            GRAPH.read_bytes(), options, providers=["CPUExecutionProvider"]
        )

    def __call__(
        self, words: NDArray[np.float32], mask: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        states: NDArray[np.float32] = self._session.run(None, {"words": words, "mask": mask})[0]
        return states


def _openvino(weights: Weights, threads: int) -> Network:
    ov = require("openvino", extra="openvino", feature="encoder.backend = 'openvino'")
    core = ov.Core()
    has_bf16 = "BF16" in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    hints = {
        "INFERENCE_PRECISION_HINT": "bf16" if has_bf16 else "f32",
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": threads,
        "ENABLE_CPU_PINNING": False,
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / GRAPH.name
        path.write_bytes(GRAPH.read_bytes())
        with (Path(folder) / WEIGHTS_FILE).open("wb") as file:
            for name in graph_shapes():
                file.write(np.ascontiguousarray(weights.graph[name], np.float32).tobytes())
        compiled = core.compile_model(core.read_model(path), "CPU", hints)
    own = threading.local()

    def run(words: NDArray[np.float32], mask: NDArray[np.float32]) -> NDArray[np.float32]:
        if not hasattr(own, "request"):
            own.request = compiled.create_infer_request()
        states: Any = own.request.infer({"words": words, "mask": mask})[0]
        return np.array(states, np.float32)  # the request writes its next result there

    return run
