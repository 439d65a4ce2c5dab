"""Nodes of operators that rules write by others, as graphs: for golden texts, and to see that each rule applies."""

from collections.abc import Callable
from typing import Any

import numpy as np

from fastgraph.ir import Graph, Node, TensorType, Value
from fastgraph.ops.evaluate import infer_graph

F32, F64, I64 = np.float32, np.float64, np.int64
Entry = tuple[str, list[Any], dict[str, Any], int]


def _x(*shape: int, dtype: Any = F32) -> TensorType:
    """An input."""
    return TensorType(np.dtype(dtype), shape)


def _graph(*entries: Entry) -> Graph:
    """A graph of nodes (operator, operands, attributes, results) that share nothing: an operand is the type of an
    input, the data of a constant, the number of a node before it, or None."""
    graph = Graph("uncommon", [], [], [])
    made: list[Value] = []
    for i, (op, operands, attrs, outputs) in enumerate(entries):
        inputs: list[Value | None] = []
        for k, operand in enumerate(operands):
            if isinstance(operand, TensorType):
                graph.inputs.append(Value(f"x{i}_{k}", operand))
                inputs.append(graph.inputs[-1])
            elif isinstance(operand, int):
                inputs.append(made[operand])
            else:
                inputs.append(None if operand is None else Value.constant(f"c{i}_{k}", np.asarray(operand)))
        results = [Value(f"y{i}_{k}") for k in range(outputs)]
        graph.nodes.append(Node(op, inputs, results, attrs, f"n{i}"))
        graph.outputs += results
        made.append(results[0])
    infer_graph(graph)
    return graph


def spectra() -> Graph:
    return _graph(
        ("dft", [_x(2, 600, 1, dtype=F64), None, None], {"onesided": 1}, 1),
        ("stft", [_x(1, 60), np.array(8), np.hanning(16).astype(F32), None], {}, 1),
        ("rfft2d", [_x(4, 16), np.array([4, 16], np.int32)], {}, 1),
        ("real", [2], {}, 1), ("complex_abs", [2], {}, 1),
        ("audio_spectrogram", [_x(64, 1)], {"window_size": 16, "stride": 8}, 1),
        ("mfcc", [5, np.array([4000], np.int32)], {"upper_frequency": 1900.0, "filters": 3, "coefficients": 2}, 1),
        ("hadamard_rotation", [_x(2, 16)], {"size": 8}, 1),
    )  # fmt: skip


def randoms() -> Graph:
    count = TensorType(np.dtype(I64), ())
    return _graph(
        ("random_uniform", [], {"shape": (3, 4), "seed": 5}, 1), ("bernoulli", [_x(3, 4)], {"seed": 6}, 1),
        ("dropout", [_x(3, 4), np.array(0.5, F32), np.array(True)], {"seed": 7}, 2),
        ("multinomial", [_x(2, 5)], {"sample_size": 3, "seed": 8}, 1),
        ("philox_normal", [np.array([3, 5]), count], {"seeds": (1, 2)}, 2),
        ("philox_multinomial", [_x(2, 5), np.array([3]), count], {"seeds": (3, 4)}, 2),
        ("random_bits", [_x(2, dtype=np.uint64)], {"dtype": np.dtype(np.int64), "shape": (5,)}, 2),
    )  # fmt: skip


def regions() -> Graph:
    rois = TensorType(np.dtype(F32), (2, 4))
    return _graph(
        ("roi_align", [_x(1, 2, 6, 7), rois, np.zeros(2, I64)], {"sampling_ratio": 2, "output_height": 3}, 1),
        ("crop_resize", [_x(1, 2, 6, 7), rois, np.zeros(2, I64)], {"size": (3, 2)}, 1),
        ("dense_image_warp", [_x(1, 4, 5, 2), _x(1, 4, 5, 2)], {}, 1),
        ("deform_conv", [_x(1, 2, 5, 5), np.ones((3, 2, 2, 2), F32), _x(1, 8, 4, 4), None, None], {}, 1),
    )


def windows() -> Graph:
    kernel = {"kernel_shape": (2, 2)}
    return _graph(
        ("lp_pool", [_x(1, 4, 4, 3)], {**kernel, "p": 3}, 1), ("max_pool", [_x(1, 4, 4, 3)], kernel, 2),
        ("average_pool", [_x(1, 4, 4, 3, dtype=F64)], {**kernel, "pads": (1, 0, 0, 1)}, 1),
        ("col2im", [_x(1, 12, 16), np.array([5, 5]), np.array([2, 2])], {}, 1),
        ("max_unpool", [_x(1, 1, 2, 2), np.array([[[[0, 3], [9, 15]]]]), np.array([1, 1, 5, 5])],
         {**kernel, "strides": (2, 2)}, 1),
    )  # fmt: skip


def dilated_windows() -> Graph:
    pad = {"low": (1, 0), "high": (-1, 2), "interior": (1, 2)}
    window = {"reduction": "add", "window": (2, 3), "strides": (1, 2), "dilations": (2, 1), "pads": ((1, 1), (0, 2))}
    return _graph(
        ("interior_pad", [_x(3, 4), np.array(0.5, F32)], pad, 1),
        ("reduce_window", [_x(5, 7), np.array(0.5, F32)], window, 1),
    )


def doubles() -> Graph:
    return _graph(
        ("sigmoid", [_x(3, 4, dtype=F64)], {}, 1), ("gelu", [_x(3, 4, dtype=F64)], {"approximate": "tanh"}, 1),
        ("pow", [_x(3, 4, dtype=F64), np.array(2.0)], {}, 1),
        ("layer_normalization", [_x(3, 4, dtype=F64), np.ones(4)], {"axis": -1}, 1),
    )  # fmt: skip


GRAPHS: dict[str, Callable[[], Graph]] = {
    make.__name__: make for make in (spectra, randoms, regions, windows, dilated_windows, doubles)
}
