"""The same networks with `precision="bfloat16"`, on CPUs that multiply it.

A layer multiplies operands that are rounded to 8 bits, each by up to a part of 2**-9 of it, and sums in f32. So each
step of a plan is held against references that round the same operands: then nothing adds up, and what is left are f32
sums in another order. The results are held against those of float32, by the largest number on the way: a network of
some layers may be a part of BFLOAT16_TOLERANCE off. One whose results leap, or whose norms make much of little, is
further off, and then it counts that all its steps are right.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

import fastgraph as fg
from fastgraph.freedoms import without
from fastgraph.ir import Node
from fastgraph.ir.types import BFLOAT16
from fastgraph.kernels.amx.pack_real import widened
from fastgraph.kernels.core.kernel import Kernel
from fastgraph.kernels.gemm.pack_bf16 import balanced, rounded
from fastgraph.kernels.isa.tiers import multiplies_pairs, multiplies_tiles, usable
from fastgraph.kernels.pointwise.rows import LONG_FORMS
from fastgraph.ops import evaluate
from fastgraph.ops.evaluate import run_node
from fastgraph.plan.describe import unit
from fastgraph.plan.layer import extra_values
from fastgraph.plan.lower.epilogue import ending
from fastgraph.plan.program import Step
from fastgraph.tools.agreement import BFLOAT16_TOLERANCE
from fastgraph.tools.differences import STATEFUL, magnitude
from tests.plan.step_by_step import check_steps

from .afford import is_dry, load
from .check import CLOSE, Arrays, Differs, Subject, near, run, same_bits, shaped

SAME = ("threads 2", "threads 3", "without bands", "without views", "without in_place", "without reuse")
"""Other plans, which give the same bits."""
NEAR = (
    *[f"without {name}" for name in ("narrow", "winograd", "grouped", "conv_bf16", "dot_bf16")],
    *[f"isa {tier.name}" for tier in usable()[:-1] if tier.masks],
    "precision float16",
)
"""Other plans, which are as near to float32."""
WAYS = (("steps",), ("steps",), SAME, NEAR)
"""Steps are looked at most often: they tell most, and take no other plan."""

LAYERS = frozenset("dot conv winograd grouped amx_real attention attention_few recurrent".split())
"""Kernels in whose place there may be others."""
MULTIPLIED = {"dense": 2, "conv": 2, "conv_transpose": 1, "attention": 3, **dict.fromkeys(STATEFUL, 3)}
"""How many of an operator's first operands are multiplied; of transposed convolutions, those that are rounded alone."""
HALF = 2.0**-8
"""Half a unit of bf16 is at most this part of a number."""
ROUGH = 2.0**-11, 2.0**-14
"""What LONG_FORMS may be off where their operand is such a sum, or they are rounded: of the number, and at least."""
LEAPS = frozenset("ceil floor round sign less less_or_equal greater greater_or_equal equal thresholded_relu".split())
"""Steps of chains whose results leap with their operands."""


def is_multiplied() -> bool:
    """Whether the precision changes plans on this CPU."""
    return multiplies_pairs(usable()[-1]) or multiplies_tiles(usable()[-1])


def in_bfloat16(subject: Subject, way: str, plain: fg.Model, first: Arrays) -> None:
    """Differs unless the network in bfloat16 is near `first`, what the `plain` model gives. `way`: one of WAYS, what
    else is compared.
    """
    if not any(kernel.name in LAYERS for kernel in plain.plan.kernels()):
        return
    model = shaped(load(subject.source, precision="bfloat16"), subject)
    if not any(map(_rounds, model.plan.kernels())):
        return
    other = model if way == "steps" else _other(subject, way)
    if is_dry(model) or is_dry(other):
        return
    found = run(model, subject)
    _agree(subject, found, first, model, "bfloat16")
    if way == "steps":
        _steps(subject, model, "bfloat16 steps")
    elif way in SAME:
        same_bits(run(other, subject), found, f"bfloat16 {way}")
    else:
        _agree(subject, run(other, subject), first, other, f"bfloat16 {way}")


def _other(subject: Subject, way: str) -> fg.Model:
    kind, what = way.split()
    options: dict[str, Any] = {"precision": "bfloat16"}
    if kind != "without":
        options[kind] = int(what) if kind == "threads" else what
    with without(*[what] * (kind == "without")):
        return shaped(load(subject.source, **options), subject)


def _rounds(kernel: Kernel) -> bool:
    """Whether it multiplies operands in bf16."""
    return unit(kernel) in ("pairs", "tiles")


def _agree(subject: Subject, found: Arrays, first: Arrays, model: fg.Model, where: str) -> None:
    """Differs unless results are near, or all steps of the model are."""
    loose = replace(subject, scale=subject.scale * BFLOAT16_TOLERANCE / CLOSE, steps=())
    try:
        loose.close(found, first, where)
    except Differs:
        _steps(subject, model, where)


def _steps(subject: Subject, model: fg.Model, where: str) -> None:
    """Differs unless each step gives what its reference makes of operands that are rounded as the step rounds them."""
    steps = [step for step in model.plan.program.steps if isinstance(step, Step)]
    rounding = {step.node for step in steps if _rounds(step.kernel)}
    tiled = {step.node for step in steps if unit(step.kernel) == "tiles"}
    walked = {step.node for step in steps if step.kernel.name == "recurrent" and not _rounds(step.kernel)}
    halves = {step.node for step in steps if unit(step.kernel) == "f16 tiles"}
    more: dict[Node, float] = {}

    def reference(node: Node, given: list[Any]) -> list[Any]:
        if node in rounding:
            if node.op in ("conv", "dense") and node.y.data is not None:
                given = [given[0], balanced(given[1]), *given[2:]]
            elif node.op in STATEFUL and node in tiled:
                given = [
                    given[0],
                    balanced(given[1].reshape(-1, given[1].shape[-1])).reshape(given[1].shape),
                    *given[2:],
                ]
            elif node.op == "conv_transpose":  # each phase has its own balance: weights are within 3/4 of a unit
                more[node] = HALF * magnitude(node, given)
            multiplied = MULTIPLIED[node.op] - (node in walked)  # whose state and weights stay f32
            given = [widened(rounded(x)) if i < multiplied else x for i, x in enumerate(given)]
            if node.op == "attention":  # its weights, the other operands, are rounded too
                more[node] = HALF * float(np.abs(given[2]).max())
        if node in halves:  # whose operands are rounded to 11 bits, but not where results are done again
            more[node] = 2.0**-11 * magnitude(node, given)
        return run_node(node, given)

    def close(found: np.ndarray, wanted: np.ndarray, nodes: Sequence[Node]) -> None:
        near(found, wanted, nodes, _rounding(wanted, nodes, rounding | halves) + more.get(nodes[-1], 0.0))

    try:
        with patch.object(evaluate, "run_node", reference):  # which bodies are run by
            check_steps(model.plan, subject.feeds, close, reference)
    except AssertionError as error:
        raise Differs(where, str(error)) from None


def _rounding(wanted: np.ndarray, nodes: Sequence[Node], rounding: set[Node]) -> np.ndarray | float:
    """How far off results may be as they are rounded, or made of what is rounded where no one sees it."""
    node = nodes[-1]
    unseen = any(other in rounding or other.out.type.dtype == BFLOAT16 for other in nodes[:-1])
    if unseen and any(step[0] in LEAPS for other in nodes for step in other.attrs.get("chain", ())):
        return np.inf
    if unseen or node.graphs or (node in rounding and node.op in STATEFUL):
        return BFLOAT16_TOLERANCE * max(1.0, float(np.abs(wanted).max(initial=0)))
    narrow = node.out.type.dtype == BFLOAT16
    if not narrow and node not in rounding:
        return 0.0
    chain = node.attrs.get("chain", ())
    end = ending(chain, len(extra_values(node))) if chain else None
    part, least = ROUGH if end is not None and end.form in LONG_FORMS else (0.0, 0.0)
    return (HALF * narrow + part) * np.abs(wanted) + least  # type: ignore[no-any-return]
