"""The operators of the graph: type inference, reference, and facts that passes, lowerings and frontends use.

Their lowerings are in `fastgraph.plan.lower`, by operator name; an operator without one runs its NumPy reference as a
host step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ..errors import ModelError
from ..families import Families
from ..ir import MAX_ELEMENTS, MAX_RANK, Node, TensorType
from .catalog import CATALOG
from .chain import evaluate_chain

Infer = Callable[[Node, list[Any]], list[TensorType]]
Reference = Callable[[Node, list[Any]], list[Any]]

REQUIRED: Any = object()
"""Stands for the default of an attribute or parameter that must be given."""

USER = "custom"
"""The name under which all users' operators share one definition; also the attribute of a node that holds its own."""

USERS: dict[tuple[str, str], Any] = {}
"""The users' operators by domain and name; see custom.py, which is imported once there is one."""

FLAGS = frozenset(
    """
    align_corners allowzero antialias ceil_mode center_point_box count_include_pad every exclude_outside exclusive grows
    input_forget interleaved inverse is_case_sensitive is_causal keepdims largest layout linear_before_reset new_axis
    noop_with_empty_axes normalized onesided periodic reverse saturate select_last_index sorted squared storage_order
    time_major training_mode trans_a trans_b upper wrap
    """.split()
)
"""Attributes that are 0 or 1, whatever the operator."""


class Layout(Enum):
    """How an operator treats the axes of its operands: whether, and how, it commutes with a transpose."""

    OWN = auto()
    """None of those below: passes/layout.py has a rule for the operator, or transposes stay before it."""
    EACH = auto()
    """Elementwise: an element of the result depends on the broadcast operands' elements at the same index."""
    AXIS = auto()
    """One axis is special, that of `axis`; the result has the operand's axes."""
    AXES = auto()
    """A reduction over the axes of input 1, which stay with `keepdims`."""
    ORDER = auto()
    """All elements stay in their order, only the shape changes."""
    WINDOW = auto()
    """A window slides over the spatial axes of [N, spatial..., C], by strides, dilations and pads."""


class Quant(Enum):
    """How an operator treats quantized operands and results."""

    REALS = auto()
    """It computes on the reals that they stand for."""
    INTEGERS = auto()
    """As REALS; kernels compute the same on integers, where all operands and results are quantized."""
    STORED = auto()
    """It takes the stored numbers themselves."""


class Op(NamedTuple):
    """An operator: its meaning, and the facts that passes, planning and frontends go by.

    `infer(node, input types) -> output types`: an output whose shape depends on data gets shape None (no
    rank) or None extents. ModelError when the node makes no sense.
    `reference(node, input arrays) -> output arrays`: NumPy, the meaning of the operator, used to fold
    constants, to run what has no kernel, and as the oracle of tests. Control flow gets the arrays of
    `evaluate.operands(node)`.
    Both take absent inputs as None, or left off at the end, and give one result per output of the node.
    `attrs` are the defaults of the attributes.

    To add an operator, `define` it in the file of its family, with what holds of it among the facts below, have `python
    -m docs.catalog` write the catalog, and name it in the table of each frontend whose format has it (ONNX finds it by
    itself, when it is called the same). With no fact at all it works: it is inferred, folded, and run by its reference;
    facts and a lowering make it fast. So `expm1`, a function of each element, is one entry of `RARE` in elementwise.py,
    which is defined with layout EACH, and one word in frontends/circle/signature_table.py.
    """

    name: str
    infer: Infer
    reference: Reference
    attrs: Mapping[str, Any]
    pure: bool = True
    """Whether it may be folded: not random numbers, and loops that may never end."""
    work: Callable[[Node], tuple[int, int]] | None = None
    """(work, elements held) of its reference beyond the elements of its operands and results; see work.py."""
    layout: Layout = Layout.OWN
    axis: str | int = "axis"
    """Which axis is special: the name of an attribute, or the number of a constant input."""
    shaped_by: tuple[int, ...] = ()
    """The inputs whose values, not their shapes, decide the shape of a result."""
    moves: bool = False
    """Whether its results are elements of the first operand (of all: concat), or padding; no new numbers arise."""
    quant: Quant = Quant.REALS
    sums: bool = False
    """Whether its terms may cancel, so that the result is far smaller than they are."""
    step: Callable[[Node], tuple[Any, ...] | None] | None = None
    """node -> its step in a chain (see chain.py), over the node's inputs and numbers; None for a node that is none."""
    weights: int | None = None
    """The input that is a layer's weights, when it is constant."""
    bias: int | None = None
    """The input that a layer adds to each channel of its sums."""
    extras_at: int | None = None
    """Where the further inputs of a chain (attribute `chain`) begin, if it can end in one. Value 0 of the chain is the
    operator's own result; of `fused`, the first input."""
    one_to_one_at: int | None = None
    """The first operand from which on each element is read only where the result's is written, so that a kernel may
    write the result over them; by default 0 for layout EACH, else `extras_at`."""
    updates: bool = False
    """Whether its result is the first operand with some elements replaced, so that a kernel may write only these, into
    the operand's memory, if no other operand lies there."""


_defined: dict[str, Op] = {}
OPS = Families("fastgraph", CATALOG, _defined)

LAYER: dict[str, Any] = {"weights": 1, "bias": 2, "extras_at": 3}
"""Facts of layers: weights, then a bias or None, then what their chain takes."""


def define(
    name: str,
    infer: Infer,
    reference: Reference | None = None,
    inputs: tuple[int, int | None] | None = None,
    attrs: Mapping[str, Any] | None = None,
    **facts: Any,
) -> None:
    """Add an operator; a second definition of a name is a defect.

    `inputs` is the least and the greatest number of inputs (None: any), by default those that `check.takes` lists. The
    functions see their lists filled up with None to the greatest, and the first `inputs[0]` present. Without a
    reference the operator means what the rules that decompose it write. `facts`: further fields of `Op`. What is a step
    has layout EACH; that, and what moves, has kernels for integers; unless told.
    """
    assert name not in _defined, f"operator {name} is defined twice"
    meaning = reference or _by_rules
    counts: tuple[int, int | None] = getattr(infer, "inputs", (0, None)) if inputs is None else inputs

    def typed(node: Node, types: list[Any]) -> list[TensorType]:
        for flag in FLAGS.intersection(node.attrs) if node.attrs else ():
            if node.attrs[flag] not in (0, 1, None):
                fail(node, f"{flag} must be 0 or 1, found {node.attrs[flag]!r}")
        results = _per_output(node, infer(node, _filled(node, types[: _own_count(node, types)], counts)))
        for result in results:
            _check_size(node, result)
        return results

    def computed(node: Node, arrays: list[Any]) -> list[Any]:
        own = _own_count(node, arrays)
        results = _per_output(node, meaning(node, _filled(node, arrays[:own], counts)))
        return [evaluate_chain(node.attrs["chain"], [*results, *arrays[own:]])] if _ends_in_chain(node) else results

    if facts.get("step"):
        facts.setdefault("layout", Layout.EACH)
    if facts.get("step") or facts.get("moves"):
        facts.setdefault("quant", Quant.INTEGERS)
    facts.setdefault("one_to_one_at", 0 if facts.get("layout") is Layout.EACH else facts.get("extras_at"))
    _defined[name] = Op(name, typed, computed, attrs or {}, **facts)


def _by_rules(node: Node, arrays: list[Any]) -> list[Any]:
    found: list[Any] = import_module("fastgraph.passes.reference").by_rules(node, arrays)
    return found


def fail(node: Node, what: str) -> NoReturn:
    """Raise the ModelError of an operator; whoever runs inference adds the node's name and the file."""
    raise ModelError(f"{node.op}: {what}")


def attr(node: Node, name: str) -> Any:
    """The attribute, or its default; ModelError when it has none."""
    value = node.attrs.get(name, REQUIRED)
    if value is REQUIRED:
        value = OPS[node.op].attrs.get(name, REQUIRED)
    if value is REQUIRED:
        fail(node, f"attribute {name} is missing")
    return value


def step_of(node: Node) -> tuple[Any, ...] | None:
    """The step of a chain that a node is (`Op.step`); None when it is none."""
    step = OPS[node.op].step
    return None if step is None else step(node)


def _ends_in_chain(node: Node) -> bool:
    """Whether a chain follows on the operator's own work; a `fused` node is nothing else."""
    return "chain" in node.attrs and bool(OPS[node.op].extras_at)


def _own_count(node: Node, items: list[Any]) -> int | None:
    """The number of inputs that are the operator's own and not its chain's."""
    return OPS[node.op].extras_at if _ends_in_chain(node) else len(items)


def _filled(node: Node, items: list[Any], inputs: tuple[int, int | None]) -> list[Any]:
    least, most = inputs
    found = len(items)
    if found < least or (most is not None and found > most):
        wanted = str(least) if least == most else f"{least} to {most}" if most is not None else f"at least {least}"
        fail(node, f"expected {wanted} inputs, found {found}")
    for index in range(least):
        if index >= len(node.inputs) or node.inputs[index] is None:
            fail(node, f"input {index} is required and absent")
    return [*items, *[None] * ((most or 0) - found)]


def _per_output(node: Node, results: list[Any]) -> list[Any]:
    if len(results) < len(node.outputs):
        fail(node, f"gives {len(results)} outputs, but the node names {len(node.outputs)}")
    # NumPy turns arrays of rank 0 into scalars on the way; references see and give arrays only.
    return [np.asarray(r) if isinstance(r, np.generic) else r for r in results[: len(node.outputs)]]


def _check_size(node: Node, result: TensorType) -> None:
    if result.concrete and len(result.dims) <= MAX_RANK and min(result.dims, default=1) > 0:
        if result.size <= MAX_ELEMENTS:
            return
    if len(result.shape or ()) > MAX_RANK:
        rank = len(result.shape or ())
        fail(node, f"the result would have {rank} axes, at most {MAX_RANK} are possible")
    count = 1
    for extent in result.shape or ():
        if isinstance(extent, int):
            if extent < 0:
                fail(node, f"the result would have a negative extent: {result}")
            count *= max(extent, 1)
    if count > MAX_ELEMENTS:
        fail(node, f"the result would have {count} elements: {result}")
