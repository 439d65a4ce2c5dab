"""The kernels of recurrent layers and their records. Strides are in bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..core.record import Record, Slot, number, reads, strides, works, writes
from ..core.table import Row, has_rounds, of_pairs, rounds
from ..isa.tiers import Tier

CELLS = {"rnn": (1,), "gru": (2, 1), "gru_after": (3,), "lstm": (4,), "lstm_bytes": (4,)}
"""By cell, the gates of each product with the state. `gru` multiplies by what its reset gate leaves of the state in the
second one; `gru_after` resets the product; `lstm_bytes` has weights of s8, and rounds the state to u8 before.
"""
GATES = {cell: sum(products) for cell, products in CELLS.items()}

ACTIVATIONS = (
    "sigmoid", "tanh", "relu", "relu6", "relu_n1_to_1", "softsign", "softplus", "leakyrelu", "thresholdedrelu", "elu",
    "hardsigmoid", "scaledtanh", "affine",
)  # fmt: skip
USUAL = {"rnn": ("tanh",), "gru": ("sigmoid", "tanh"), "gru_after": ("sigmoid", "tanh"),
         **dict.fromkeys(("lstm", "lstm_bytes"), ("sigmoid", "tanh", "tanh"))}  # fmt: skip
"""The activations of a `plain` layer: of gates, of the new cell state, and of the cell state in the result."""
PLACES = 3
"""Activations of a direction, whether its cell has them all or not."""

UNROLL = 4
"""Rows of recurrent weights between two looks at the end: they come in multiples of it, the last ones zeros. Of bytes,
a row is of words of four, of bf16 of two.
"""

PEEPHOLES = 3

INFO = Record(
    projected="address of the projected input of this step",
    y="address of the result of this step",
    alive="1, or 0 where the sequence has ended",
    scale="f32 bits: a step of a state that is rounded to u8, of which 128 is 0.0",
)
"""A step's record of a row of the batch, behind the row's states in scratch."""
STATES = 4
"""Vectors of the state in a row of scratch: the state that a step reads, that it writes, and what else a cell keeps."""

_LSTM = "cell.startswith('lstm')"


def _state(moves: Callable[..., Slot], name: str, meaning: str, when: str = "1") -> dict[str, str]:
    """The slots of a state of each direction and row."""
    loops = f"directions: {name}_direction, batch: {name}_row"
    state = moves(meaning, "4 * hidden", loops, when=when, optional=True)
    return {name: state, **strides(name, "direction row")}


WALK = Record(
    y=writes("the result in f32", "4 * hidden", "steps: y_step, directions: y_direction, batch: y_row"),
    **strides("y", "step direction row"),
    **_state(writes, "last", "the last states [directions, batch, hidden], 0: nobody asks for them"),
    **_state(writes, "last_cell", "those of the cells, which only an lstm has", _LSTM),
    **_state(reads, "first", "the initial states, 0: zeros"),
    **_state(reads, "first_cell", "those of the cells", _LSTM),
    projected=reads(
        "inputs times weights plus bias: each row [blocks, gates, lanes] f32",
        f"ceil_div(hidden, lanes) * {GATES}[cell] * vector",
        "steps: projected_step, directions: projected_direction, batch: projected_row",
    ),
    **strides("projected", "step row direction"),
    weights=reads("what pack_recurrent.py makes, for the first product", "directions * weight_bytes(hidden, 0)"),
    second=reads("those for the second", "directions * weight_bytes(hidden, 1)", when=f"len({CELLS}[cell]) > 1"),
    lengths="address of [batch] int32, the steps of each sequence; 0: all have `total`",
    error="address of an int64 that is set to 1 when a length is none of 0 to `total`",
    peepholes=reads(
        "those of the gates input, output, forget, or 0",
        f"directions * ceil_div(hidden, lanes) * {PEEPHOLES} * vector",
        optional=True,
    ),
    activations=reads("int64: place in ACTIVATIONS, f32 bits of alpha and beta", f"{24 * PLACES} * directions"),
    scratch=works("rows of STATES vectors of a state, then INFO", "row_bytes", "directions * batch: row_bytes"),
    row_bytes=number("", f"== {STATES} * ceil_div(hidden, lanes) * vector + {8 * len(INFO)}"),
    start=number("steps that calls before this one made, with the same scratch", ">= 0"),
    steps="that this call makes; projected and y begin with the first of them in time",
    total="steps of the layer",
    directions="",
    batch="",
    hidden=number("", "> 0"),
    reverse="bit d: direction d goes backwards, from the end of each sequence; where there are lengths, in one call",
    low="f32 bits: bounds of what goes into a gate's activation",
    high="",
    cell_low="f32 bits: bounds of the cell's state",
    cell_high="",
    coupled="0; 1: the forget gate of an lstm is 1 - input; 2: the input gate is 1 - forget",
    cell_scale="f32 bits: an lstm's cell state is rounded to multiples of it, between",
    cell_least="f32 bits: so many of them and",
    cell_most="so many; a scale of 0: it is not rounded",
    state_scale="alike, of its state",
    state_least="",
    state_most="",
    plain="1: the usual activations, and no peepholes, bounds or coupling",
)

PACK = Record(
    weights=reads("f32", "4 * k", "directions: weights_direction, gates * hidden: weights_row"),
    **strides("weights", "direction row"),
    bias=reads(
        "f32 that panels begin with, 0: zeros", "4 * gates * hidden", "directions: bias_direction", optional=True
    ),
    **strides("bias", "direction"),
    more=reads(
        "f32 that are added to that, of the first `summed` gates",
        "4 * min(summed, gates) * hidden",
        "directions: bias_direction",
        when="summed",
    ),
    packed=writes("the panels", "directions * ceil_div(hidden, lanes) * (1 + lines) * gates * vector"),
    directions="",
    gates=number("", "> 0"),
    hidden=number("", "> 0"),
    k=number("columns of weights", "<= lines"),
    lines="of a panel: k, and zeros",
    summed="gates",
)

WORD = {"f32": 1, "bf16": 2}
"""Elements of a state as it is multiplied, and of its weights, in a word of four bytes."""
_WALKS = {"cell": tuple(CELLS), "element": tuple(WORD)}


def _multiplies(tier: Tier, params: Mapping[str, Any]) -> bool:
    return has_rounds(tier, params) and not (rounds(params) and params["cell"] == "lstm_bytes")


def _unit(params: Mapping[str, Any]) -> str:
    return "bytes" if params["cell"] == "lstm_bytes" else of_pairs(params)


ROWS = (
    Row("recurrent", "recurrent.time_steps", "make", WALK, _WALKS, _multiplies, product=True, needs=rounds, unit=_unit),
    Row("pack_gates", "recurrent.pack_gates", "make", PACK),
)
