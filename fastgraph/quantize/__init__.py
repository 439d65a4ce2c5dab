"""Post-training quantization of float ONNX networks, to QDQ files that fastgraph and onnxruntime run on integers.

    from fastgraph.quantize import quantize

    report = quantize("net.onnx", "samples.npz", "net.int8.onnx")
    print(report)

Ranges are found by running the network with fastgraph; onnxruntime's quantization tool writes the file. Both it and
the onnx package come with `pip install 'fastgraph-runtime[quantize]'`.
"""

from __future__ import annotations

from .report import Report
from .run import Options, quantize

__all__ = ["Options", "Report", "quantize"]
