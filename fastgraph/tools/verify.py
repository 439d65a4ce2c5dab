"""`fastgraph verify`: every step of a plan beside its NumPy reference, and the outputs beside other engines'.

A step gets what the plan's memory holds before it, and so does its reference: errors don't add up, and the first step
that differs is the one that is wrong. Steps that NumPy computes have nothing beside them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from ..ir import Node, Value
from ..ops.evaluate import operands, run_node
from ..ops.registry import OPS, Quant
from ..plan.build import KEEP
from ..plan.program import AnyStep, HostStep, Jump, Step
from ..runtime.bind import out_of_range
from ..runtime.executable import Executable
from ..runtime.feeds import apart, widened
from ..runtime.model import Model
from ..runtime.stepwise import Run, groups, is_held, single_runs
from ..text import shorten, table
from . import bench
from .engines import PEERS, peer
from .feeds import random_feeds

RELATIVE = 1e-5
"""Of floats the largest error over the largest sum of magnitudes: f32 sums in other orders, functions to a few ulps,
Winograd's transforms."""
ROUNDS = frozenset({"dynamic_round", "dynamic_conv", "dynamic_dense"})
"""Operators that round f32 activations to bytes by their range: where one lies between two, either is right."""

STEPS = 8
"""Of a state that is rounded at each step, the neighbors that may add up."""


@dataclass(frozen=True)
class StepCheck:
    """A node's steps beside its reference.

    `kernel`: what computes it; "view" where nothing is to be done, "numpy" for references, which are not compared.
    `error`: of floats the largest |difference| over the largest sum of magnitudes, of integers the largest difference.
    """

    node: str
    op: str
    kernel: str
    error: float
    allowed: float
    ok: bool


@dataclass(frozen=True)
class OutputCheck:
    """An output of a run beside a peer engine's: the largest |difference| over the largest output, or of quantized
    ones the largest difference of stored numbers.
    """

    name: str
    engine: str
    difference: float
    allowed: float
    ok: bool


@dataclass(frozen=True)
class Report:
    """What `verify` found: the steps in the order in which they run, and the outputs."""

    model: str
    isa: str
    steps: tuple[StepCheck, ...]
    outputs: tuple[OutputCheck, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing differs by more than is allowed."""
        return all(step.ok for step in self.steps) and all(output.ok for output in self.outputs)

    @property
    def first(self) -> StepCheck | None:
        """The first step that differs, None when none does."""
        return next((step for step in self.steps if not step.ok), None)

    def __str__(self) -> str:
        return text(self)


def verify(model: Model, feeds: Mapping[str, Any] | None = None, against: Sequence[str] = ()) -> Report:
    """Compare each step of a model with its NumPy reference, and the outputs with those of the engines `against`
    ("onnxruntime", "litert", "openvino"), on `feeds` or else on random numbers.

    It works in the memory of the model's plan, as a run does; states are afterwards what they were. Raises InputError
    for feeds that don't fit, for unknown engines, and for engines when the model was not loaded from a file;
    engines.Unavailable when one isn't installed or can't run the model.
    """
    if not isinstance(model, Model):
        raise InputError(f"verify takes a model that fastgraph.load gave, found {type(model).__name__}")
    names = [against] if isinstance(against, str) else list(against) if isinstance(against, Sequence) else [against]
    for name in names:
        if not isinstance(name, str) or name not in PEERS:
            raise InputError(f"against {name!r}: the engines are {', '.join(PEERS)}")
    with model._lock:
        arrays = apart(model._checked(_random(model) if feeds is None else feeds), model._written())
        plan = model._use(model._keys.of(arrays))
        states = [place.copy() for place, _ in plan.states]
        try:
            steps = _steps(plan, arrays)
        finally:
            _restore(plan, states)
    outputs = [check for name in names for check in _outputs(model, name, arrays)]
    with model._lock:
        _restore(model.plan, states)
    return Report(model.graph.source or model.graph.name or "model", model.tier.name, tuple(steps), tuple(outputs))


def _random(model: Model) -> dict[str, np.ndarray]:
    try:
        return random_feeds(model, {})
    except InputError:
        names = ", ".join(spec.name for spec in model.inputs)
        raise InputError(f"nothing random can be fed to inputs of open shapes, and to texts: feed {names}") from None


def _restore(plan: Executable, states: Sequence[np.ndarray]) -> None:
    for (place, _), before in zip(plan.states, states, strict=True):
        place[...] = before


def _steps(plan: Executable, feeds: Mapping[str, np.ndarray]) -> list[StepCheck]:
    plan.fill(feeds)
    runs, found = list(single_runs(plan)), []
    carried: dict[Value, Any] = {}
    for nodes, numbers in groups(plan):
        expected, margins = _references(plan, nodes, carried)
        for i in numbers:
            _do(plan, *runs[i])
        carried.update(expected)
        steps = [runs[i][0] for i in numbers]
        compared = not any(isinstance(step, HostStep) for step in steps)
        checks = [
            _difference(np.asarray(plan.memory.held(value)), np.asarray(right), node, *margins.get(value, (0.0, 0.0)))
            for node in nodes for value, right in expected.items()
            if compared and value in node.outputs and is_held(plan, value)
        ]  # fmt: skip
        error, allowed = max(checks, key=lambda check: check[0] - check[1], default=(0.0, 0.0))
        kernels = dict.fromkeys(str(s.kernel) if isinstance(s, Step) else "numpy" for s in steps
                                if not isinstance(s, Jump))  # fmt: skip
        name, op = nodes[-1].name or nodes[-1].out.name, "+".join(node.op for node in nodes)
        found.append(StepCheck(name, op, ", ".join(kernels) or "view", error, allowed, error <= allowed))
    return found


def _do(plan: Executable, step: AnyStep, run: Run) -> None:
    if run() and isinstance(step, Step):
        raise out_of_range(plan.graph, [step.node])


def _references(
    plan: Executable, nodes: Sequence[Node], carried: Mapping[Value, Any]
) -> tuple[dict[Value, Any], dict[Value, tuple[float, float]]]:
    """What the nodes should make of what is held now; of each first result `_magnitude`, and of all `_flip`.

    A value that never is in memory as a whole (of a block in bands) is what its reference gave.
    """
    expected: dict[Value, Any] = {}
    margins: dict[Value, tuple[float, float]] = {}

    def value_of(value: Value | None) -> Any:
        if value is None or value in expected:
            return None if value is None else expected[value]
        now = plan.memory.held(value) if is_held(plan, value) else carried[value]
        return np.array(now) if isinstance(now, np.ndarray) and value.data is None else now

    for node in nodes:
        given = [value_of(v) for v in operands(node)]
        if node.op == KEEP:
            expected[node.out] = given[0]
            continue
        with np.errstate(all="ignore"):
            made = run_node(node, given)
            expected.update(zip(node.outputs, made, strict=True))
            flip = _flip(node, given, made[0])
            margins |= dict.fromkeys(node.outputs[1:] if flip else (), (0.0, flip))
            margins[node.out] = _magnitude(node, given), flip
    return expected, margins


def _magnitude(node: Node, given: Sequence[Any]) -> float:
    """The largest sum of magnitudes that a float result comes from, 0 where the result itself tells it."""
    floats = [a for a in given if isinstance(a, np.ndarray) and a.dtype.kind == "f" and a.size]
    if node.out.type.dtype is None or node.out.type.dtype.kind != "f" or not floats:
        return 0.0
    op = OPS[node.op]
    if op.sums and all(v is None or v.type.quant is None for v in node.inputs):
        own = len(given) if op.extras_at is None else op.extras_at
        attrs = {k: v for k, v in node.attrs.items() if k != "chain"}
        plain = Node(node.op, node.inputs[:own], node.outputs[:1], attrs)
        absolute = [np.abs(a) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a for a in given[:own]]
        return _largest(run_node(plain, absolute)[0])
    added = {node.op, *(step[0] for step in node.attrs.get("chain", ()))} & {"add", "sub", "sum"}
    return max(map(_largest, floats)) if added else 0.0


def _flip(node: Node, given: Sequence[Any], made: Any) -> float:
    """By how much a result may differ for what its kernel rounds: an activation to its other neighbor, or a bias of
    floats to a whole number of units of the sums; 0 where nothing is rounded.

    A state that is rounded at each step is one of many that follow from one another.
    """
    if node.attrs.get("dynamic"):
        scales = [max(v.type.quant.scale) for v in node.inputs if v is not None and v.type.quant is not None]
        return STEPS * _largest(made) * max(scales, default=1.0)
    if node.op not in ROUNDS:
        types = (node.attrs.get(name) for name in ("state_type", "cell_type"))
        return _half_unit(node) + sum(2 * t.quant.scale[0] for t in types if t is not None)
    w = node.inputs[1] if len(node.inputs) > 1 else None
    weight = 1.0 if w is None or w.type.quant is None else 128 * max(w.type.quant.scale)
    return 2 * _largest(given[0]) / 127 * weight


def _half_unit(node: Node) -> float:
    """Half a unit of a quantized layer's sums, where its bias is in floats; 0 elsewhere."""
    at = OPS[node.op].bias
    x, w, bias = node.x, node.inputs[1] if len(node.inputs) > 1 else None, None
    if at is not None and len(node.inputs) > at:
        bias = node.inputs[at]
    if bias is None or bias.type.quant is not None or w is None or w.type.quant is None or x.type.quant is None:
        return 0.0
    return max(x.type.quant.scale) * max(w.type.quant.scale) / 2


def _largest(array: np.ndarray) -> float:
    return float(np.abs(array[np.isfinite(array)]).max(initial=0))


def _difference(found: np.ndarray, right: np.ndarray, node: Node, magnitude: float, flip: float) -> tuple[float, float]:
    """The error of a result and what is allowed, in the units of `StepCheck`."""
    if found.shape != right.shape or found.dtype != right.dtype:
        return float("inf"), 0.0
    if found.dtype.kind in "fc":
        scale = max(magnitude, _largest(right))
        return _relative(found, right, scale), RELATIVE + (flip / scale if scale else 0.0)
    if found.dtype.kind not in "iub":
        return float(np.sum(found != right)), 0.0
    gap = np.where(found > right, found, right).astype(object) if found.dtype.itemsize == 8 else None
    if gap is None:
        error = float(np.abs(found.astype(np.int64) - right.astype(np.int64)).max(initial=0))
    else:
        error = float(np.max(gap - np.where(found > right, right, found).astype(object), initial=0))
    types = [v.type.quant for v in (*node.inputs, *node.outputs) if v is not None]
    exact = node.op == KEEP or OPS[node.op].moves or OPS[node.op].quant is Quant.STORED
    rounded = any(types) and (not exact or len({str(q) for q in types if q is not None}) > 1)
    return error, 1.0 if rounded or node.op.endswith("quantize_linear") or node.op.startswith("qlinear") else 0.0


def _relative(found: np.ndarray, right: np.ndarray, scale: float) -> float:
    wide = np.complex128 if found.dtype.kind == "c" else np.float64
    x, y = found.astype(wide), right.astype(wide)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    with np.errstate(all="ignore"):
        gap = np.where(same, 0, np.abs(x - y))
    gap = np.where(gap < 2.0**-120, 0, gap)  # kernels take denormals as 0
    if not gap.any():
        return 0.0
    worst = float(gap.max())
    return worst / scale if np.isfinite(worst) and scale else float("inf")


def _outputs(model: Model, name: str, feeds: Mapping[str, np.ndarray]) -> list[OutputCheck]:
    path = model.graph.source
    if not os.path.exists(path):
        raise InputError(f"against {name!r}: the model was not loaded from a file, which the engine could load too")
    engine = peer(name, path, dict(feeds), 1, as_written=True)
    ours, theirs = [widened(y) for y in model.run(dict(feeds)).values()], engine.results()
    most = bench.HYBRID_TOLERANCE if bench.is_hybrid(model.graph) else bench.TOLERANCE
    found = []
    for spec, mine, other in zip(model.outputs, ours, theirs, strict=True):
        row = bench.compared([mine], [other], [spec], most)
        quantized = spec.quantization is not None and spec.dtype is not None
        allowed = bench.QUANTIZED_TOLERANCE * (256**spec.dtype.itemsize - 1) if quantized else most  # type: ignore[union-attr]
        gap = float(row["steps"] if quantized else row["difference"])
        found.append(OutputCheck(spec.name, f"{engine.name} {engine.version}", gap, allowed, bool(row["agrees"])))
    return found


# -- text


def as_json(report: Report) -> dict[str, Any]:
    """The report as JSON has it, with `ok`."""
    return {"ok": report.ok, **asdict(report)}


def text(report: Report) -> str:
    """The largest errors by kind of kernel, the first step that differs, the outputs: lines of at most 100 columns."""
    kinds: dict[str, list[StepCheck]] = {}
    for step in report.steps:
        kinds.setdefault("numpy" if step.kernel == "numpy" else _kind(step.kernel), []).append(step)
    lines = [shorten(f"{report.model}: {report.isa}, {len(report.steps)} steps beside their NumPy references", 100)]
    rows = [("kernel", "steps", "largest error", "allowed", "")]
    for kind, steps in kinds.items():
        worst = max(steps, key=lambda step: (not step.ok, step.error))
        cells = ("", "") if kind == "numpy" else (f"{worst.error:.1e}", f"{worst.allowed:.1e}")
        rows.append((shorten(kind, 40), str(len(steps)), *cells, "" if worst.ok else "DIFFERS"))
    lines += table(rows, right=(1, 2, 3))
    if report.outputs:
        lines.append("")
        seen = [("output", "engine", "difference", "allowed", "")]
        seen += [(shorten(o.name, 36), o.engine, f"{o.difference:.1e}", f"{o.allowed:.1e}", "" if o.ok else "DIFFERS")
                 for o in report.outputs]  # fmt: skip
        lines += table(seen, right=(2, 3))
    if report.first is not None:
        step, number = report.first, report.steps.index(report.first)
        lines += [
            shorten(f"step {number} differs first: {step.op} {step.node!r}", 100),
            shorten(f"by {step.error:.3g}, {step.allowed:.3g} is allowed; kernel {step.kernel}", 100),
        ]
    lines.append("All agree." if report.ok else "They differ.")
    return "\n".join(lines)


def _kind(kernels: str) -> str:
    """The names of kernels without their parameters, each once."""
    return "+".join(dict.fromkeys(part.split("(")[0].split("[")[0].split()[0] for part in kernels.split(", ")))
