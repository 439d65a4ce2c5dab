"""`fastgraph verify`: compares every step of a plan, and every operator of the file, with its NumPy reference, and the
outputs with other engines'.

A step and its reference get the same content of the plan's memory: errors don't add up, and the first step that differs
is the wrong one. Host steps are references themselves. Where no step differs but an operator does (operators.py), a
rule is wrong that decomposes it into those steps.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from ..ir import Node, Value
from ..ops.evaluate import operands, run_node
from ..ops.registry import OPS
from ..plan.lower.build import KEEP
from ..plan.program import AnyStep, HostStep, Jump, Step
from ..runtime.executable import Executable
from ..runtime.feeds import widened
from ..runtime.model import Model
from ..runtime.stepwise import Run, groups, is_held, rounded_by, single_runs
from ..text import counted, shorten, table
from . import agreement
from .differences import difference, flip, magnitude, rounding
from .engines import Unavailable, check_names, peer
from .feeds import random_feeds
from .operators import Kept, OperatorCheck, Traced, as_in_file, checks, keep, prepared, tally


@dataclass(frozen=True)
class StepCheck:
    """A node's steps compared with its reference.

    `origin`: the operators of the file that the nodes were written for, where they are others.
    `kernel`: of the steps; "view" where there are none, "numpy" for host steps, which are not compared. `error`: of
    floats the largest |difference| over the largest sum of magnitudes, of integers the largest difference.
    """

    node: str
    op: str
    origin: str
    kernel: str
    error: float
    allowed: float
    ok: bool


@dataclass(frozen=True)
class OutputCheck:
    """An output of a run compared with a peer engine's: the largest |difference| over the largest output, or of
    quantized outputs the largest difference of stored numbers.
    """

    name: str
    engine: str
    difference: float
    allowed: float
    ok: bool


@dataclass(frozen=True)
class Report:
    """The result of `verify`: steps in the order of the plan, operators in that of the file, outputs."""

    model: str
    isa: str
    steps: tuple[StepCheck, ...]
    outputs: tuple[OutputCheck, ...]
    operators: tuple[OperatorCheck, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing differs by more than is allowed."""
        found = (self.steps, self.operators, self.outputs)
        return all(check.ok for checks in found for check in checks)

    @property
    def first(self) -> StepCheck | None:
        """The first step that differs, None when none does."""
        return next((step for step in self.steps if not step.ok), None)

    @property
    def first_operator(self) -> OperatorCheck | None:
        """The first operator of the file that differs, None when none does."""
        return next((operator for operator in self.operators if not operator.ok), None)

    def __str__(self) -> str:
        return text(self)


def verify(model: Model, feeds: Mapping[str, Any] | None = None, against: Sequence[str] = ()) -> Report:
    """Compare each step of a model's plan, and each operator of its file, with its NumPy reference, and the outputs
    with those of the engines `against` ("onnxruntime", "litert", "openvino"), on `feeds` or else on random numbers.

    It works in the memory of the model's plan, as a run does; states are afterwards what they were. Raises InputError
    for feeds that don't fit, for unknown engines, and for engines when the model was not loaded from a file;
    engines.Unavailable when one isn't installed or can't run the model.
    """
    if not isinstance(model, Model):
        raise InputError(f"verify takes a model that fastgraph.load gave, found {type(model).__name__}")
    names = [against] if isinstance(against, str) else list(against) if isinstance(against, Sequence) else [against]
    check_names(names)
    with prepared(model, _random(model) if feeds is None else feeds) as (plan, arrays, found):
        states = [place.copy() for place, _ in plan.states]
        walk = _StepByStep(plan, found)
        steps = walk.checks(arrays)
        part = plan.part()
    while part is not None:  # the tail is a model of its own, which may have a tail
        with prepared(*part) as (plan, fed, traced):
            steps += _StepByStep(plan, traced).checks(fed)
            part = plan.part()
    operators = checks(found, walk.kept)
    outputs = [check for name in names for check in _outputs(model, name, arrays)]
    with model._lock:
        for (place, _), before in zip(model.plan.states, states, strict=True):
            place[...] = before
    title = model.graph.source or model.graph.name or "model"
    return Report(title, model.tier.name, tuple(steps), tuple(outputs), tuple(operators))


def _random(model: Model) -> dict[str, np.ndarray]:
    try:
        return random_feeds(model, {})
    except InputError:
        names = ", ".join(spec.name for spec in model.inputs)
        raise InputError(f"nothing random can be fed to inputs of open shapes, and to texts: feed {names}") from None


class _StepByStep:
    """A run whose steps are checked one after another.

    `kept`: the values that the operators' checks want, right after their steps. `carried`: what references made;
    `copied`: values from before they were rounded in place. `flips`: how much each value may differ since those that
    references of operators begin with, `begins`.
    """

    def __init__(self, plan: Executable, traced: Traced) -> None:
        self.plan, self.traced, self.wanted = plan, traced, traced.wanted()
        self.kept: dict[Value, Kept] = {}
        self.carried: dict[Value, Any] = {}
        self.copied: dict[Value, Any] = {}
        self.flips: dict[Value, float] = {}
        self.begins: set[Value] = set()

    def checks(self, feeds: Mapping[str, np.ndarray]) -> list[StepCheck]:
        """Run the plan; the checks of its steps."""
        self.plan.fill(feeds)
        self._keep(self.plan.graph.inputs)
        runs = list(single_runs(self.plan))
        return [self._check(nodes, [runs[i] for i in numbers]) for nodes, numbers in groups(self.plan)]

    def _check(self, nodes: Sequence[Node], runs: Sequence[tuple[AnyStep, Run]]) -> StepCheck:
        """Run the steps of some nodes, and compare results with those of the references."""
        expected, margins = _references(self.plan, nodes, self.carried, self.copied)
        for step, run in runs:
            value = rounded_by(step)
            if value is not None and is_held(self.plan, value):
                self.copied[value] = self.plan.memory.held(value).copy()
            run()
        self.carried.update(expected)
        for node in nodes:
            before = _flips_before(node, self.flips, self.begins)
            self.flips |= {v: margins.get(v, (0.0, 0.0))[1] + before for v in node.outputs}
        self._keep([v for node in nodes for v in node.outputs])
        steps = [step for step, _ in runs]
        compared = not any(isinstance(step, HostStep) for step in steps)
        beside = [
            difference(np.asarray(self.plan.memory.held(v)), np.asarray(right), node, *margins.get(v, (0.0, 0.0)))
            for node in nodes
            for v, right in expected.items()
            if compared and v in node.outputs and is_held(self.plan, v)
        ]
        error, allowed = max(beside, key=lambda check: check[0] - check[1], default=(0.0, 0.0))
        kernels = dict.fromkeys(
            str(s.kernel) if isinstance(s, Step) else "numpy" for s in steps if not isinstance(s, Jump)
        )
        name, op = nodes[-1].name or nodes[-1].out.name, "+".join(node.op for node in nodes)
        told = name, op, self.traced.origin(nodes), ", ".join(kernels) or "view"
        return StepCheck(*told, error, allowed, error <= allowed)

    def _keep(self, values: Sequence[Value]) -> None:
        """Keep those that are wanted, and note which of them references of operators begin with."""
        made = [v for v in values if v in self.wanted - self.kept.keys() and is_held(self.plan, v)]
        self.kept |= {v: keep(self.plan, v, self.flips.get(v, 0.0)) for v in made}
        places = self.traced.places.items()
        self.begins |= {p.value for v, p in places if p.value in made and as_in_file(v, p, self.kept) is not None}


def _flips_before(node: Node, flips: Mapping[Value, float], begins: Collection[Value]) -> float:
    """How much the operands of a node may differ since the values that references of operators begin with; what is
    moved may be such a value of an operator after it.
    """
    moves = node.op == KEEP or OPS[node.op].moves
    return sum(flips.get(v, 0.0) for v in operands(node) if v is not None and (moves or v not in begins))


def _references(
    plan: Executable, nodes: Sequence[Node], carried: Mapping[Value, Any], copied: Mapping[Value, Any]
) -> tuple[dict[Value, Any], dict[Value, tuple[float, float]]]:
    """The nodes' results for the current content of memory; of each first result `magnitude`, and of all `flip`.

    A value that is never in memory as a whole (within bands) is its reference's result; one in `copied` was there.
    """
    rounded = rounding(plan.graph.precision, plan.tier)
    expected: dict[Value, Any] = {}
    margins: dict[Value, tuple[float, float]] = {}

    def value_of(value: Value | None) -> Any:
        if value is None or value in expected:
            return None if value is None else expected[value]
        if value in copied:
            return copied[value]
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
            flips = flip(node, given, made[0], rounded)
            margins |= dict.fromkeys(node.outputs[1:] if flips else (), (0.0, flips))
            size = magnitude(node, given)
            margins[node.out] = size, flips + rounded * size
    return expected, margins


def _outputs(model: Model, name: str, feeds: Mapping[str, np.ndarray]) -> list[OutputCheck]:
    path = model.graph.source
    if not os.path.exists(path):
        raise InputError(f"against {name!r}: the model was not loaded from a file, which the engine could load too")
    try:
        engine = peer(name, path, dict(feeds), 1, as_written=True)
    except Unavailable as error:
        raise Unavailable(f"{name}: {error}") from error
    ours, theirs = [widened(y) for y in model.run(dict(feeds)).values()], engine.results()
    most = agreement.tolerance(model.graph)
    found = []
    for spec, mine, other in zip(model.outputs, ours, theirs, strict=True):
        row = agreement.compared([mine], [other], [spec], most)
        quantized = spec.quantization is not None and spec.dtype is not None
        allowed = agreement.QUANTIZED_TOLERANCE * (256**spec.dtype.itemsize - 1) if quantized else most  # type: ignore[union-attr]
        gap = float(row["steps"] if quantized else row["difference"])
        found.append(OutputCheck(spec.name, f"{engine.name} {engine.version}", gap, allowed, bool(row["agrees"])))
    return found


# -- text


def as_json(report: Report) -> dict[str, Any]:
    return {"ok": report.ok, **asdict(report)}


def text(report: Report, width: int = 100) -> str:
    """The largest errors by kind of kernel, the first step that differs, the outputs: lines of at most 100 columns, and
    tables of that width.
    """
    kinds: dict[str, list[StepCheck]] = {}
    for step in report.steps:
        kinds.setdefault("numpy" if step.kernel == "numpy" else _kind(step.kernel), []).append(step)
    lines = [
        shorten(f"{report.model}: {report.isa}, {counted(len(report.steps), 'step')} beside NumPy references", 100)
    ]
    rows = [("kernel", "steps", "largest error", "allowed", "")]
    for kind, steps in kinds.items():
        worst = max(steps, key=lambda step: (not step.ok, step.error))
        cells = ("", "") if kind == "numpy" else (f"{worst.error:.1e}", f"{worst.allowed:.1e}")
        rows.append((shorten(kind, 40), str(len(steps)), *cells, "" if worst.ok else "DIFFERS"))
    lines += table(rows, (1, 2, 3), width, {0: 12}, drop=(3,))
    if report.outputs:
        lines.append("")
        seen = [("output", "engine", "difference", "allowed", "")]
        seen += [
            (shorten(o.name, 36), o.engine, f"{o.difference:.1e}", f"{o.allowed:.1e}", "" if o.ok else "DIFFERS")
            for o in report.outputs
        ]
        lines += table(seen, (2, 3), width, {0: 16, 1: 18}, drop=(3,))
    lines += ["", *_tallied(report.operators)]
    if report.first_operator is not None:
        lines += _told(report.first_operator, report)
    if report.first is not None:
        step, number = report.first, report.steps.index(report.first)
        lines += [
            shorten(f"step {number} differs first: {step.op} {step.node!r}", 100),
            *([shorten(f"it is part of {step.origin}", 100)] if step.origin else []),
            shorten(f"by {step.error:.3g}, {step.allowed:.3g} is allowed; kernel {step.kernel}", 100),
        ]
    lines.append("All agree." if report.ok else "They differ.")
    return "\n".join(lines)


def _tallied(operators: Sequence[OperatorCheck]) -> list[str]:
    compared, within, constant, rest = tally(operators)
    parts = [
        f"{within} within kernels are part of these" if within else "",
        f"{constant} of constants are folded" if constant else "",
        f"{rest} unchecked: random, or rounded within kernels" if rest else "",
    ]
    others = ", ".join(part for part in parts if part)
    head = f"{compared} of {counted(len(operators), 'canonical operator')} beside their NumPy references"
    return [f"{head};", others] if others else [head]


def _told(operator: OperatorCheck, report: Report) -> list[str]:
    """Which operator of the file differs first, and its cause."""
    number = report.operators.index(operator)
    lines = [
        f"operator {number} of the file differs first: {operator.op} {operator.name!r}",
        f"by {operator.error:.3g}, {operator.allowed:.3g} is allowed; it became {operator.became or 'part of others'}",
    ]
    if operator.within:
        lines.append(f"with what is within the same kernels: {', '.join(operator.within)}")
    if report.first is None:
        lines.append("no step differs from its own reference: the rule that wrote it so is wrong")
    return [shorten(line, 100) for line in lines]


def _kind(kernels: str) -> str:
    """The names of kernels without their parameters, each once."""
    return "+".join(dict.fromkeys(part.split("(")[0].split("[")[0].split()[0] for part in kernels.split(", ")))
