"""Panels of a layer's weights: of constants, or packed in each run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ....cpus import level_two
from ....ir import Value
from ....ir.quantization import to_real
from ....ir.weights import once
from ....kernels.core.table import row
from ....kernels.gemm.pack import pack_weights
from ....kernels.gemm.pack_bf16 import pairs
from ....kernels.gemm.pick_dot import F32_COSTS, DotPiece, Product, dot_pieces, pick_dot, pick_dot_bf16
from ....kernels.recurrent.pack_recurrent import blocks, by_block, pack_peepholes, pack_state_bytes, pack_state_weights
from ....kernels.recurrent.rows import CELLS, GATES, PEEPHOLES, UNROLL
from ...program import Ref
from ..emit import Strided
from ..registry import Emit, Slot


class Constants(NamedTuple):
    """Constants of all directions: w [D, gates * hidden, I], r [D, gates * hidden, hidden], biases of the products with
    the input and with the state [D, gates * hidden], peepholes [D, 3 * hidden]; gates in the canonical order.

    The bias of the state is only that of the gates that see its product apart. `scales` [D, gates * hidden]: those of
    r, which is int8 then; `input_scales`: likewise those of w.
    """

    w: np.ndarray
    r: np.ndarray
    bias: np.ndarray | None
    state_bias: np.ndarray | None
    peepholes: np.ndarray | None
    scales: np.ndarray | None = None
    input_scales: np.ndarray | None = None


class Given(NamedTuple):
    """The addresses of the weights of Constants: w and r by [direction, row], b [D, 2 * gates * hidden] and peepholes
    by [direction]."""

    w: Strided
    r: Strided
    bias: Strided | None
    peepholes: Strided | None


class Panels(NamedTuple):
    """`pieces(m, matrices, ldx)`: how the product with m rows of inputs is divided; inputs(piece): its panels; `slots`:
    those of the walk. element: what is multiplied. rounds: whether inputs are multiplied as bytes. constants: what is
    packed, where it is known.
    """

    pieces: Callable[[int, int, int], Sequence[DotPiece]]
    inputs: Callable[[DotPiece], Ref]
    slots: dict[str, Slot]
    element: str = "f32"
    rounds: bool = False
    constants: Constants | None = None


def reals(value: Value) -> np.ndarray:
    """The f32 that a constant stands for."""
    if value.type.quant is None:
        return value.array
    return to_real(value.array, value.type.quant).astype(np.float32)


ZERO = {np.dtype(np.int8): 0, np.dtype(np.uint8): 128}
"""The zero point that quantized weights of a type must have, for kernels that take them as s8."""


def stored(value: Value) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of a quantized constant as s8, and its scales."""
    return once(signed, value.array), np.array(value.type.quantization.scale)


def signed(data: np.ndarray) -> np.ndarray:
    """Stored numbers of 8 bits as s8."""
    return (data.astype(np.int16) - ZERO[data.dtype]).astype(np.int8)


def symmetric(value: Value) -> bool:
    """Whether `stored` takes a constant [..., rows, k], with a scale for each row or one."""
    quant, data = value.type.quant, value.data
    if quant is None or data is None or data.dtype not in ZERO:
        return False
    rows = (None, data.ndim - 2) if data[..., :1, :1].size == 1 else (None,)
    return quant.axis in rows and all(zero == ZERO[data.dtype] for zero in quant.zero_point)


def products(cell: str) -> list[tuple[str, int, int]]:
    """The products of a step with its state: (slot of their panels, first gate, end)."""
    ends = np.cumsum(CELLS[cell]).tolist()
    return [(slot, end - n, end) for slot, n, end in zip(("weights", "second"), CELLS[cell], ends, strict=False)]


def width(e: Emit, cell: str, hidden: int) -> int:
    """Columns of a direction's projected input."""
    return blocks(hidden, e.tier.lanes) * GATES[cell] * e.tier.lanes


def constant(e: Emit, cell: str, c: Constants, element: str) -> Panels:
    """Panels of constants, packed for the plan."""
    lanes, gates = e.tier.lanes, GATES[cell]
    directions, rows, inputs = c.w.shape
    hidden = rows // gates
    n = directions * width(e, cell, hidden)

    def pieces(m: int, matrices: int, ldx: int) -> Sequence[DotPiece]:
        if element == "f32":
            return pick_dot(e.tier, Product(m, n, inputs, matrices, ldx), e.threads, level_two())
        product = Product(m, n, inputs + inputs % 2, matrices, ldx)
        return pick_dot_bf16(e.tier, product, element, "f32", e.threads, level_two())

    def of_inputs(piece: DotPiece) -> Ref:
        columns = piece.start, piece.start + piece.columns
        return e.packed(_input_panels, c.w, c.bias, gates, columns, piece.nv, lanes, element)

    slots: dict[str, Slot] = {"second": 0, "peepholes": 0}
    for slot, start, end in products(cell):
        part, count = slice(start * hidden, end * hidden), end - start
        if c.scales is None:
            bias = None if c.state_bias is None else c.state_bias[:, part]
            slots[slot] = e.packed(pack_state_weights, c.r[:, part], bias, count, lanes, element)
        else:
            slots[slot] = e.packed(pack_state_bytes, e.tier, c.r[:, part], c.scales[:, part], count)
    if c.peepholes is not None:
        slots["peepholes"] = e.packed(pack_peepholes, c.peepholes, lanes)
    return Panels(pieces, of_inputs, slots, element, constants=c)


def _input_panels(
    w: np.ndarray, bias: np.ndarray | None, gates: int, columns: tuple[int, int], nv: int, lanes: int, element: str
) -> np.ndarray:
    """Panels of the columns from one to another of the product with the input, of w [D, gates * hidden, I]."""
    part, k = slice(*columns), w.shape[-1]
    own = None if bias is None else by_block(bias, gates, lanes).reshape(-1)[part]
    rows = by_block(w, gates, lanes).reshape(-1, k)[part]
    if element == "bf16":
        rows = pairs(np.pad(rows, ((0, 0), (0, k % 2))))
    return pack_weights(rows, own, nv, lanes)


def given(e: Emit, cell: str, directions: int, inputs: int, hidden: int, g: Given) -> Panels:
    """Panels of computed weights, packed in each run."""
    gates, rows = GATES[cell], GATES[cell] * hidden
    apart = 1 if cell == "gru_after" else 0
    count, line = directions * blocks(hidden, e.tier.lanes), 4 * e.tier.lanes

    def packed(w: Strided | None, first: int, to: int, lines: int, bias: Strided | None, skip: int = 0) -> Ref:
        """Gates from `first` on, of weights and biases; those of the input (g.w) with the biases of the state, too.
        skip: bytes before their bias.
        """
        out, own = e.scratch(count * (1 + lines) * (to - first) * line), 4 * first * hidden + skip
        k = 0 if w is None else inputs if w is g.w else hidden
        args: dict[str, Slot] = dict.fromkeys(row("pack_gates").args, 0)
        args |= {"packed": out, "directions": directions, "gates": to - first, "hidden": hidden, "k": k, "lines": lines}
        if w is not None:
            args |= {"weights": w.address.plus(first * hidden * w.strides[1]), "weights_direction": w.strides[0]}
            args["weights_row"] = w.strides[1]
        if bias is not None:
            args |= {"bias": bias.address.plus(own), "bias_direction": bias.strides[0]}
        if bias is not None and w is g.w:
            args |= {"more": bias.address.plus(own + 4 * rows), "summed": gates - apart}
        e.kernel("pack_gates", {}, args, share=0)
        return out

    lines = -(-hidden // UNROLL) * UNROLL
    slots: dict[str, Slot] = {"second": 0, "peepholes": 0}
    for slot, start, end in products(cell):
        slots[slot] = packed(g.r, start, end, lines, g.bias if apart else None, skip=4 * rows)
    if g.peepholes is not None:
        slots["peepholes"] = packed(None, 0, PEEPHOLES, 0, g.peepholes)
    of_inputs = packed(g.w, 0, gates, inputs, g.bias)
    costs = F32_COSTS._replace(widths=lambda tier: (gates,))
    n = directions * width(e, cell, hidden)
    panel = (1 + inputs) * gates * line
    return Panels(
        lambda m, matrices, ldx: dot_pieces(e.tier, Product(m, n, inputs, matrices, ldx), e.threads, costs, {}),
        lambda piece: of_inputs.plus(piece.start // (gates * e.tier.lanes) * panel),
        slots,
    )
