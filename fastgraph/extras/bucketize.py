"""Numbers by the range that they lie in. Semantics: tflite/kernels/bucketize.cc."""

from __future__ import annotations

import numpy as np

from ..ir import FLOAT32, FLOAT64, INT32, Node, TensorType
from ..ops import check
from ..ops.inference import Types
from ..ops.registry import REQUIRED, attr, define
from ..rules.operands import known
from ..rules.rule import rule
from ..rules.sweep import Sweep


@check.takes("x iuf")
def _infer(node: Node, types: Types) -> list[TensorType]:
    return [TensorType(INT32, types[0].shape)]


define("bucketize", _infer, attrs={"boundaries": REQUIRED})


@rule("common", "bucketize")
def bucketize(g: Sweep, node: Node) -> bool:
    """How many boundaries an element is not below; all of them for NaN."""
    x, boundaries = node.x, attr(node, "boundaries")
    if not known(x):
        return False
    if not len(boundaries):
        return g.becomes(g.number(np.zeros(x.type.dims, INT32)))
    wide = FLOAT32 if x.type.dtype == FLOAT32 else FLOAT64
    below = g.shape(g.cast(x, wide), *x.type.dims, 1) < np.asarray(boundaries, wide)
    return g.becomes(g.sum(g.cast(~below, INT32), [len(x.type.dims)]))
