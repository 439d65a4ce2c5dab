"""What a .tflite file says of its tensors, signatures and operators, as LiteRT's interpreter says it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..frontends.circle.reader import Reader, Wanted
from ..frontends.circle.tensors import buffer, constant, dtype_of, type_of
from ..frontends.circle.wire import Table

KINDS = {"STRING": np.bytes_, "RESOURCE": np.object_, "VARIANT": np.object_}
"""What LiteRT gives as the dtype of tensors that hold no numbers."""


class File:
    """A file's tables. `graphs`: its sub-graphs; `signatures`: by key, in alphabetical order, as LiteRT has them."""

    def __init__(self, root: Table) -> None:
        self.root = root
        self.graphs = root.subgraphs
        self.signatures = {s.signature_key: s for s in sorted(root.signature_defs, key=lambda s: s.signature_key)}
        self._reader = Reader(root, Wanted())
        self.has_resources = any(code.name == "VAR_HANDLE" for code in map(self._code, range(len(root.operator_codes))))

    def _code(self, index: int) -> Any:
        return self._reader.code(index, self.root.wire.source)

    def tensor(self, graph: int, index: int) -> Table:
        """A tensor. ValueError when there is none of that index."""
        count = len(self.graphs[graph].tensors)
        if not 0 <= index < count:
            raise ValueError(f"expected the index of a tensor, from 0 to {count - 1}, found {index}")
        return self.graphs[graph].tensors[index]

    def key_of(self, graph: int) -> str | None:
        """The key of a signature of a sub-graph; None for sub-graph 0, which needs none."""
        return next((key for key, s in self.signatures.items() if s.subgraph_index == graph), None) if graph else None

    def dtype(self, graph: int, index: int) -> np.dtype:
        """The element type of the arrays that stand for a tensor; that of text is object."""
        return np.dtype(dtype_of(self.tensor(graph, index).type) or np.object_)

    def constant(self, graph: int, index: int) -> np.ndarray | None:
        """A constant, as the file stores it; None for all other tensors."""
        tensor = self.tensor(graph, index)
        if index in self.graphs[graph].inputs or tensor.is_variable or tensor.buffer == 0:
            return None
        stored = buffer(self.root.buffers, tensor.buffer, tensor.name)
        if not len(stored):
            return None
        return constant(tensor, stored, type_of(tensor, tensor.name, constant=True), tensor.name)

    def details(self, graph: int, index: int, shape: Sequence[int] | None = None) -> dict[str, Any]:
        """What `get_tensor_details` says of a tensor. `shape`: the one that it has now, if that is not the file's."""
        tensor = self.tensor(graph, index)
        now = tensor.shape if shape is None else shape
        scales, zeros, axis, block = _quantization(tensor.quantization)
        single = (float(scales[0]), int(zeros[0])) if len(scales) == 1 else (0.0, 0)
        return {
            "name": tensor.name,
            "index": index,
            "shape": np.array(now, np.int32),
            "shape_signature": np.array(tensor.shape_signature or now, np.int32),
            "dtype": KINDS.get(tensor.type) or self.dtype(graph, index).type,
            "quantization": single,
            "quantization_parameters": {
                "scales": scales, "zero_points": zeros, "quantized_dimension": axis, "block_size": block,
            },
            "sparsity_parameters": _sparsity(tensor.sparsity),
        }  # fmt: skip

    def operators(self) -> Iterator[dict[str, Any]]:
        """The details of each operator of sub-graph 0."""
        for place, operator in enumerate(self.graphs[0].operators):
            reads, makes = (np.array(each, np.int32) for each in (operator.inputs, operator.outputs))
            kinds = [[self.details(0, int(i))["dtype"] for i in each if i >= 0] for each in (reads, makes)]
            yield {
                "index": place, "op_name": self._code(operator.opcode_index).name, "inputs": reads, "outputs": makes,
                "operand_types": kinds[0], "result_types": kinds[1],
            }  # fmt: skip


def _quantization(table: Table | None) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Scales, a zero point for each, the axis that they are along, and the size of blocks (0: none)."""
    if table is None:
        return np.zeros(0, np.float32), np.zeros(0, np.int32), 0, 0
    scales = np.array(table.array("scale"), np.float32)
    zeros = np.array(table.array("zero_point"), np.int32)
    if len(zeros) != len(scales):
        zeros = np.broadcast_to(zeros[:1] if len(zeros) else np.int32(0), scales.shape).astype(np.int32)
    details = table.details
    block = details.block_size if details is not None and details.kind == "BlockwiseQuantization" else 0
    return scales, zeros, int(table.quantized_dimension), block


def _sparsity(table: Table | None) -> dict[str, Any]:
    """How a sparse constant is stored; nothing for a dense one."""
    if table is None:
        return {}
    found: dict[str, Any] = {
        "traversal_order": np.array(table.traversal_order, np.int32),
        "block_map": np.array(table.block_map, np.int32),
    }
    found["dim_metadata"] = [_dimension(each) for each in table.dim_metadata]
    return found


def _dimension(table: Table) -> dict[str, Any]:
    if table.format == "DENSE":
        return {"format": 0, "dense_size": table.dense_size}
    segments, indices = (getattr(table, f"array_{name}").array("values") for name in ("segments", "indices"))
    return {"format": 1, "array_segments": np.array(segments, np.int32), "array_indices": np.array(indices, np.int32)}
