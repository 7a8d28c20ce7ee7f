"""Write `minilm-graph.onnx`: the forward pass of a 6-layer MiniLM, without its weights.

Built from the standard operators of opset 20, so that running it needs onnxruntime alone; weights
are declared as external initializers, which the encoder hands over in memory. Takes the words'
vectors (looked up by the caller) and returns each token's last state.

Usage: python tools/build_graph.py [--check]
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from canopy_rag.encoders.checkpoint import (
    DIM,
    EPSILON,
    N_HEADS,
    N_LAYERS,
    POSITIONS,
    graph_shapes,
)
from canopy_rag.encoders.runtime import WEIGHTS_FILE

TARGET = (
    Path(__file__).parent.parent / "src" / "canopy_rag" / "encoders" / "weights"
) / "minilm-graph.onnx"


class Graph:
    """Collects nodes and constants; every method returns the name of its output."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def const(self, name: str, value: Any, dtype: Any) -> str:
        """Add a constant."""
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def op(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """Add a node of one output."""
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def linear(self, x: str, layer: str, output: str) -> str:
        """Add a linear layer."""
        product = self.op("MatMul", [x, f"{layer}.weight"], f"{output}.product")
        return self.op("Add", [product, f"{layer}.bias"], output)

    def norm(self, x: str, layer: str, output: str) -> str:
        """Add a layer normalisation."""
        inputs = [x, f"{layer}.weight", f"{layer}.bias"]
        return self.op("LayerNormalization", inputs, output, axis=-1, epsilon=EPSILON)


def build() -> onnx.ModelProto:
    """Return the model."""
    graph = Graph()
    graph.const("one", 1, np.int64)
    graph.const("zero", 0, np.int64)
    graph.const("axes", [1, 2], np.int64)
    graph.const("by_head", [0, 0, N_HEADS, DIM // N_HEADS], np.int64)
    graph.const("joined", [0, 0, DIM], np.int64)
    graph.const("scale", 1 / np.sqrt(DIM // N_HEADS), np.float32)
    graph.const("present", 1, np.float32)
    graph.const("masked", -1e9, np.float32)

    graph.op("Shape", ["words"], "shape")
    graph.op("Gather", ["shape", "one"], "length")
    graph.op("Range", ["zero", "length", "one"], "range")
    graph.op("Gather", [POSITIONS, "range"], "positions")
    graph.op("Sub", ["present", "mask"], "absent")
    graph.op("Mul", ["absent", "masked"], "penalty")
    graph.op("Unsqueeze", ["penalty", "axes"], "bias")
    state = graph.op("Add", ["words", "positions"], "embedded")
    state = graph.norm(state, "embeddings.LayerNorm", "embedded.norm")
    for layer in range(N_LAYERS):
        state = _layer(graph, state, layer)
    graph.op("Identity", [state], "states")

    words = helper.make_tensor_value_info("words", TensorProto.FLOAT, ["batch", "length", DIM])
    mask = helper.make_tensor_value_info("mask", TensorProto.FLOAT, ["batch", "length"])
    states = helper.make_tensor_value_info("states", TensorProto.FLOAT, ["batch", "length", DIM])
    initializers = graph.constants + list(_externals())
    body = helper.make_graph(graph.nodes, "minilm", [words, mask], [states], initializers)
    model = helper.make_model(
        body, producer_name="canopy-rag", opset_imports=[helper.make_opsetid("", 20)]
    )
    model.ir_version = 9
    return model


def _layer(graph: Graph, state: str, layer: int) -> str:
    prefix, tag = f"encoder.layer.{layer}", f"layer{layer}"

    def heads(part: str, perm: list[int]) -> str:
        flat = graph.linear(state, f"{prefix}.attention.self.{part}", f"{tag}.{part}")
        split = graph.op("Reshape", [flat, "by_head"], f"{flat}.heads")
        return graph.op("Transpose", [split], f"{flat}.ordered", perm=perm)

    query, key = heads("query", [0, 2, 1, 3]), heads("key", [0, 2, 3, 1])
    value = heads("value", [0, 2, 1, 3])
    dots = graph.op("MatMul", [query, key], f"{tag}.dots")
    scaled = graph.op("Mul", [dots, "scale"], f"{tag}.scaled")
    biased = graph.op("Add", [scaled, "bias"], f"{tag}.biased")
    shares = graph.op("Softmax", [biased], f"{tag}.shares", axis=-1)
    mixed = graph.op("MatMul", [shares, value], f"{tag}.mixed")
    ordered = graph.op("Transpose", [mixed], f"{tag}.mixed.ordered", perm=[0, 2, 1, 3])
    joined = graph.op("Reshape", [ordered, "joined"], f"{tag}.joined")
    attended = graph.linear(joined, f"{prefix}.attention.output.dense", f"{tag}.attended")
    summed = graph.op("Add", [attended, state], f"{tag}.attended.sum")
    state = graph.norm(summed, f"{prefix}.attention.output.LayerNorm", f"{tag}.attended.norm")
    inner = graph.linear(state, f"{prefix}.intermediate.dense", f"{tag}.inner")
    active = graph.op("Gelu", [inner], f"{tag}.active")
    outer = graph.linear(active, f"{prefix}.output.dense", f"{tag}.outer")
    summed = graph.op("Add", [outer, state], f"{tag}.outer.sum")
    return graph.norm(summed, f"{prefix}.output.LayerNorm", f"{tag}.norm")


def _externals() -> Iterator[onnx.TensorProto]:
    """Declare the initializers that are handed over when the model is loaded.

    In memory by name, or as a file beside the model in which they lie one after the other.
    """
    offset = 0
    for name, shape in graph_shapes().items():
        tensor = onnx.TensorProto()
        tensor.name = name
        tensor.data_type = TensorProto.FLOAT
        tensor.dims.extend(shape)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        length = 4 * math.prod(shape)
        places = {"location": WEIGHTS_FILE, "offset": str(offset), "length": str(length)}
        for key, value in places.items():
            entry = tensor.external_data.add()
            entry.key, entry.value = key, value
        offset += length
        yield tensor


def main() -> int:
    """Write the graph, or with `--check` compare it with the committed one."""
    model = build()
    if "--check" in sys.argv[1:]:
        same = TARGET.is_file() and onnx.load_from_string(TARGET.read_bytes()) == model
        print(f"{TARGET.name} is {'up to date' if same else 'out of date: run this tool'}")
        return 0 if same else 1
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    content = model.SerializeToString(deterministic=True)
    TARGET.write_bytes(content)
    print(f"wrote {TARGET.name}, {len(content):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
