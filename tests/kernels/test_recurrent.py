"""Recurrent layers: all steps of a layer, and packing of weights, against the operators' references."""

from typing import Any

import numpy as np
import pytest

from fastgraph.ir import Node, TensorType, Value
from fastgraph.kernels.core.table import row
from fastgraph.kernels.isa import tiers
from fastgraph.kernels.recurrent.pack_recurrent import (
    blocks,
    by_block,
    pack_peepholes,
    pack_state_bytes,
    pack_state_weights,
)
from fastgraph.kernels.recurrent.rows import ACTIVATIONS, CELLS, GATES, INFO, PACK, STATES, UNROLL, USUAL, WALK
from fastgraph.ops.evaluate import run_node
from fastgraph.ops.recurrent import ACTIVATIONS as FUNCTIONS
from tests.kernels.harness import each_integer_tier, each_tier, f32_bits, run

F32, INF = np.float32, float("inf")
needs_pairs = pytest.mark.skipif(not tiers.has(tiers.PAIRS), reason="ISA tier avx512 with avx512bf16")
SIZES = [(1, 1, 1, 1), (4, 1, 1, 16), (3, 2, 5, 17), (2, 1, 4, 33), (3, 2, 1, 45), (5, 2, 3, 70), (0, 1, 2, 5)]
"""Steps, directions, rows of the batch, hidden units."""


class Case:
    """A layer, and its operands; `rare`: it has all that a layer may have."""

    def __init__(self, cell: str, sizes: tuple[int, int, int, int], rare: bool, element: str = "f32") -> None:
        self.element = element
        self.cell, (self.steps, self.ways, self.batch, self.hidden), self.rare = cell, sizes, rare
        self.rng, gates = np.random.default_rng(len(cell)), GATES[cell]
        steps, ways, batch, hidden = sizes
        self.x, self.w = self.draw(steps, batch, 3), self.draw(ways, gates * hidden, 3)
        self.r = self.draw(ways, gates * hidden, hidden) / F32(hidden**0.5)
        if cell == "lstm_bytes":
            self.scales = self.rng.uniform(0.5, 1, (ways, gates * hidden)).astype(F32) / F32(127 * hidden**0.5)
            self.bytes = self.rng.integers(-127, 128, self.r.shape).astype(np.int8)
            self.r = self.bytes * self.scales[..., None]
        self.b = self.draw(ways, 2 * gates * hidden)
        self.h, self.c = (
            self.draw(ways, batch, hidden) if rare else np.zeros((ways, batch, hidden), F32) for _ in "hc"
        )
        self.p = self.draw(ways, 3 * hidden)
        self.lengths = self.rng.integers(0, steps + 1, batch).astype(np.int32)
        names = [name for name in ACTIVATIONS if name not in ("softplus", "affine")]
        each = len(USUAL[cell])
        self.names = [names[(3 * i + len(cell)) % len(names)] for i in range(each * ways)] if rare else None

    def draw(self, *shape: int) -> np.ndarray:
        return self.rng.standard_normal(shape).astype(F32)

    @property
    def numbers(self) -> tuple[list[float], list[float]]:
        found = [FUNCTIONS[name][1] for name in self.names or ()]
        return [0.4 for values in found if values], [0.3 for values in found if len(values) > 1]

    def wanted(self) -> list[np.ndarray]:
        """By the reference: y, and the last states."""
        op = self.cell.partition("_")[0]
        rare = (self.lengths, self.h, self.c, self.p) if self.rare else (None, None, None, None)
        arrays = [self.x, self.w, self.r, self.b, *rare][: 8 if op == "lstm" else 6]
        attrs: dict[str, Any] = {"direction": "bidirectional" if self.ways > 1 else "forward"}
        if self.cell == "gru_after":
            attrs["linear_before_reset"] = 1
        if self.cell == "lstm_bytes":
            attrs["dynamic"] = 1
        if self.rare:
            attrs |= {"clip": 0.9, "activations": tuple(self.names or ())}
            attrs["activation_alpha"], attrs["activation_beta"] = self.numbers
        if self.rare and op == "lstm":
            attrs |= {"cell_clip": 0.7, "input_forget": 1}
        inputs = [None if a is None else Value(f"v{i}", TensorType.of(a)) for i, a in enumerate(arrays)]
        outputs = [Value(f"y{i}", TensorType(np.dtype(F32))) for i in range(3 if op == "lstm" else 2)]
        return run_node(Node(op, inputs, outputs, attrs, "layer"), arrays)

    def biases(self) -> tuple[np.ndarray, np.ndarray]:
        """That of the projected input, and what the state's panels begin with."""
        ours, states = (half.copy() for half in np.split(self.b, 2, axis=1))
        own = 2 * self.hidden if self.cell == "gru_after" else ours.shape[1]
        ours[:, :own] += states[:, :own]
        return ours, states

    def projected(self, lanes: int) -> np.ndarray:
        """[steps, batch, directions, columns]."""
        gates = GATES[self.cell]
        w, bias = by_block(self.w, gates, lanes), by_block(self.biases()[0], gates, lanes)
        return np.einsum("tbi,dni->tbdn", self.x, w).astype(F32) + bias

    def panels(self, tier: Any) -> list[np.ndarray]:
        if self.cell == "lstm_bytes":
            return [pack_state_bytes(tier, self.bytes, self.scales, GATES[self.cell])]
        lanes = tier.lanes
        ends = [0, *np.cumsum(CELLS[self.cell]).tolist()]
        parts = [slice(a * self.hidden, b * self.hidden) for a, b in zip(ends, ends[1:], strict=False)]
        state = self.biases()[1]
        return [pack_state_weights(self.r[:, part], state[:, part], n, lanes, self.element)
                for part, n in zip(parts, CELLS[self.cell], strict=True)]  # fmt: skip

    def activations(self) -> np.ndarray:
        table = np.zeros((self.ways, 3, 3), np.int64)
        alphas, betas = (list(n) for n in self.numbers)
        each = len(USUAL[self.cell])
        for i, name in enumerate(self.names or ()):
            count = len(FUNCTIONS[name][1])
            alpha, beta = (numbers.pop(0) if count > at else 0.0 for at, numbers in enumerate((alphas, betas)))
            table[i // each, i % each] = ACTIVATIONS.index(name), f32_bits(alpha), f32_bits(beta)
        return table


def walked(case: Case, tier: Any, threads: int = 1) -> tuple[list[np.ndarray], int]:
    """By the kernel: y [steps, directions, batch, hidden] and the last states; what it writes at `error`."""
    lanes, rare, lstm = tier.lanes, case.rare, case.cell.startswith("lstm")
    steps, ways, batch, hidden = case.steps, case.ways, case.batch, case.hidden
    y, last, last_cell = (np.zeros((*shape, ways, batch, hidden), F32) for shape in ((steps,), (), ()))
    projected, panels, error = case.projected(lanes), case.panels(tier), np.zeros(1, np.int64)
    line, width = 4 * batch * hidden, 4 * projected.shape[3]
    row_bytes = 4 * STATES * blocks(hidden, lanes) * lanes + 8 * len(INFO)
    slots: dict[str, Any] = {"y": y, "y_step": ways * line, "y_direction": line, "y_row": 4 * hidden}
    for name in ("first", "first_cell", "last", "last_cell"):
        slots |= {f"{name}_direction": line, f"{name}_row": 4 * hidden, name: 0}
    slots |= {"projected": projected, "projected_step": batch * ways * width, "projected_row": ways * width}
    slots |= {"projected_direction": width, "weights": panels[0], "second": panels[1] if len(panels) > 1 else 0}
    slots |= {"last": last, "error": error, "activations": case.activations(), "row_bytes": row_bytes}
    slots |= {"scratch": np.zeros((ways * batch, row_bytes), np.uint8), "lengths": 0, "peepholes": 0, "coupled": 0}
    slots |= {"start": 0, "steps": steps, "total": steps, "directions": ways, "batch": batch, "hidden": hidden}
    slots |= {"reverse": 2 if ways > 1 else 0, "plain": int(not rare), "low": f32_bits(-0.9), "high": f32_bits(0.9)}
    slots |= {"cell_low": f32_bits(-0.7), "cell_high": f32_bits(0.7)}
    slots |= {f"{a}_{b}": 0 for a in ("cell", "state") for b in ("scale", "least", "most")}
    slots |= {"last_cell": last_cell} if lstm else {}
    slots |= {"lengths": case.lengths, "first": case.h} if rare else {}
    if rare and lstm:
        slots |= {"first_cell": case.c, "coupled": 1, "peepholes": pack_peepholes(case.p, lanes)}
    args = WALK.filled(**slots)
    given = [a for a in args if isinstance(a, np.ndarray)]
    found = run(row("recurrent"), {"cell": case.cell, "element": case.element}, args, tier, threads)
    here = {id(a): f for a, f in zip(given, found, strict=True)}
    return [here[id(a)] for a in ((y, last, last_cell) if lstm else (y, last))], int(here[id(error)][0])


@each_tier
@pytest.mark.parametrize("rare", [False, True], ids=["plain", "rare"])
@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell != "lstm_bytes"])
def test_steps(tier: Any, cell: str, rare: bool) -> None:
    check(tier, cell, rare, 3e-6)


@each_integer_tier
@pytest.mark.parametrize("rare", [False, True], ids=["plain", "rare"])
def test_steps_of_a_state_that_is_rounded(tier: Any, rare: bool) -> None:
    """A byte that is rounded to its other neighbor changes a sum by up to a hundredth."""
    check(tier, "lstm_bytes", rare, 1e-2)


@needs_pairs
@pytest.mark.parametrize("rare", [False, True], ids=["plain", "rare"])
@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell != "lstm_bytes"])
def test_steps_of_a_state_of_bf16(cell: str, rare: bool) -> None:
    """States and weights are each within 2**-9 of what they are, of sums of some 1 each; steps pass errors on."""
    check(tiers.BY_NAME["avx512"], cell, rare, 2e-2, "bf16")


@each_tier
@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell != "lstm_bytes"])
def test_infinite_inputs(tier: Any, cell: str) -> None:
    """Gates have their limits, and what lies behind the last unit does not reach the next product."""
    check(tier, cell, False, 3e-6, infinite=True)


def check(tier: Any, cell: str, rare: bool, most: float, element: str = "f32", *, infinite: bool = False) -> None:
    for sizes in SIZES:
        case = Case(cell, sizes, rare, element)
        if infinite:
            case.x[:1, :, 0] = INF
        with np.errstate(all="ignore"):
            wanted = case.wanted()
        for threads in (1, 3):
            for found, right in zip(walked(case, tier, threads)[0], wanted, strict=True):
                np.testing.assert_allclose(found, right, atol=most, err_msg=f"{sizes}, {threads} threads")


@each_tier
def test_packing(tier: Any) -> None:
    """As of constants, whatever the strides: here, rows are two apart."""
    rng, lanes = np.random.default_rng(3), tier.lanes
    for ways, gates, hidden, k in ((1, 4, 1, 1), (2, 3, 18, 7), (1, 2, 33, 4), (2, 1, 5, 33)):
        weights, bias, more = (rng.standard_normal(s).astype(F32) for s in (
            (ways, 2 * gates * hidden, k), (ways, gates * hidden), (ways, gates * hidden)))  # fmt: skip
        lines, summed = -(-k // UNROLL) * UNROLL, gates - 1
        packed = np.full((ways, blocks(hidden, lanes), 1 + lines, gates * lanes), np.nan, F32)
        args = PACK.filled(
            weights=weights, weights_direction=weights[0].nbytes, weights_row=8 * k, bias=bias,
            bias_direction=bias[0].nbytes, more=more, packed=packed, directions=ways, gates=gates, hidden=hidden, k=k,
            lines=lines, summed=summed,
        )  # fmt: skip
        found = run(row("pack_gates"), {}, args, tier, 2)[3]
        total = bias.copy()
        total[:, : summed * hidden] += more[:, : summed * hidden]
        np.testing.assert_array_equal(found, pack_state_weights(weights[:, ::2], total, gates, lanes, "f32"))


@each_tier
def test_lengths_out_of_range(tier: Any) -> None:
    case = Case("rnn", (3, 1, 2, 5), True)
    for lengths, right in (([3, 0], 0), ([4, 1], 1), ([1, -1], 1)):
        case.lengths = np.array(lengths, np.int32)
        assert walked(case, tier)[1] == right
