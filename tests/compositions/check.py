"""One file that holds a composition, against other engines and against itself."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

import fastgraph as fg
from fastgraph.freedoms import threshold, thresholds, without
from fastgraph.frontends import read
from fastgraph.ir import Node
from fastgraph.passes.specialize import specialize
from fastgraph.runtime.runnable import READ
from tests.nets import by_reference
from tests.plan.step_by_step import check_steps, poison

from .afford import is_dry, load
from .late import late
from .turns import turns

Arrays = list[np.ndarray]


class Differs(AssertionError):
    """Two results that should be the same are not; `where`: whose; `part`: how many of the numbers are far off."""

    def __init__(self, where: str, what: str, part: float = 1.0) -> None:
        super().__init__(f"{where}: {what}")
        self.where = where
        self.part = part


@dataclass
class Subject:
    """A file, what it is fed, and what other engines say. `scale`: the largest number on the way.

    `steps`: where there is rounding to few bits on the way, the unit of each output (0: none). A rounding that goes the
    other way may change others after it: then most numbers must be near, and none far away. `loose`: how much more
    other engines may differ. `engine`: what says more, of other feeds.
    """

    source: bytes
    feeds: dict[str, np.ndarray]
    expected: dict[str, Arrays]
    scale: float
    steps: Sequence[float] = ()
    loose: float = 1.0
    engine: Callable[[bytes, dict[str, np.ndarray]], dict[str, Arrays]] | None = None

    def close(self, found: Sequence[np.ndarray], wanted: Sequence[np.ndarray], where: str, loose: float = 1.0) -> None:
        if len(found) != len(wanted):
            raise Differs(where, f"{len(found)} outputs, not {len(wanted)}")
        for i, (f, w) in enumerate(zip(found, wanted, strict=True)):
            if (f.dtype, f.shape) != (w.dtype, w.shape):
                raise Differs(where, f"output {i} is {f.dtype}{f.shape}, not {w.dtype}{w.shape}")
            error = np.abs(f.astype(np.float64) - w.astype(np.float64))
            limit = self.scale * CLOSE
            if self.steps:
                limit += FAR * self.steps[i] + APART * float(np.abs(w).max(initial=0))
            wrong = ~(error <= limit * loose * (3 if self.steps else 1))
            part = float(np.mean(wrong)) if error.size else 0.0
            if self.steps and error.size:
                wrong |= ~(error.mean() <= limit / 2)
            if wrong.any():
                at = tuple(int(n) for n in np.unravel_index(int(np.argmax(np.nan_to_num(error, nan=np.inf))), f.shape))
                raise Differs(where, f"output {i} {f.dtype}{f.shape}: {np.mean(wrong):.1%} differ; at {at} it is "
                                     f"{f[at]}, not {w[at]}; allowed {limit:.2g}", part)  # fmt: skip


def same_bits(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray], where: str) -> None:
    for i, (f, w) in enumerate(zip(found, wanted, strict=True)):
        if not np.array_equal(f, w, equal_nan=True):
            raise Differs(where, f"output {i}: other bits at {np.argwhere(f != w)[0].tolist()}")


CLOSE = 2e-5
"""Which part of the largest number on the way an error may be that comes of sums in another order."""
FAR, APART, FEW = 1.5, 0.02, 0.01
"""How many units and which part of the largest number an error may be that comes of rounding on the way; which part of
the numbers may be further off where a later operator makes more of it, as a norm of small numbers does."""

BUDGET = 1 << 13


@contextmanager
def small_networks_count(budget: int = BUDGET) -> Iterator[None]:
    """Small networks run as large ones: in bands (of at most so many bytes) and parts, by stored bytes, on threads and
    tiles, in arenas that are arranged for threads, and, with BUDGET, on copies of pixels."""
    bands = {"bands_worth": 1, "bands_budget": budget, "bands_kept": 0, "bands_rows": 1}
    large = {"coded_large": 1 << 8, "reduced_large": 1, "waking_work": 0, "locality_worth": 1, "edges_call": 0}
    copies = {"lines_apart": 0} if budget == BUDGET else {}
    with thresholds(**bands, **large, **copies, tiles_least=threshold("tiles_least", 1)):
        yield


def shaped(model: fg.Model, subject: Subject) -> fg.Model:
    """The model with a plan for the feeds."""
    open_ = {spec.name for spec in model.inputs if not all(isinstance(d, int) for d in spec.shape)}
    if open_:
        model.resize({name: array.shape for name, array in subject.feeds.items() if name in open_})
    return model


def run(model: fg.Model, subject: Subject) -> Arrays:
    """In memory that is poisoned, but for states; the inputs must stay as they were."""
    shaped(model, subject)
    poison(model.plan)
    model.reset_states()
    found = list(model.run(subject.feeds).values())
    for name, array in subject.feeds.items():
        if array.nbytes < READ:  # larger ones are read where they lie
            same_bits([model.input(name)], [array.astype(model.input(name).dtype)], f"input {name} after a run")
    return found


def check(subject: Subject, variants: Sequence[str]) -> fg.Model:
    """Differs, or what fastgraph raises, unless all agree. Gives the model for what else one wants to know of it."""
    graph = read(subject.source)
    specialize(graph, {name: array.shape for name, array in subject.feeds.items()})
    reference = by_reference(graph, subject.feeds)
    for engine, wanted in subject.expected.items():
        try:
            subject.close(reference, wanted, f"references and {engine}", subject.loose)
        except Differs as error:
            if not subject.steps or error.part > FEW:
                raise
    model = load(subject.source)
    first = run(model, subject)
    agree(subject, first, reference, "plan and references", model)
    same_bits(run(model, subject), first, "second run")
    for variant in variants:
        vary(subject, variant, model, first)
    return model


def vary(subject: Subject, variant: str, model: fg.Model, first: Arrays) -> None:
    """`variant`: "threads N", "isa NAME", "without NAME", "budget BYTES" of a band, "steps", "late" for
    inputs whose rows the run counts, "open AXES TIMES MORE", or "bfloat16 WAY" (precision.py).

    A plan that references run has no threads, kernels or bands.
    """
    kind, _, what = variant.partition(" ")
    if is_dry(model) and kind not in ("without", "bfloat16"):
        return
    match kind:
        case "threads":
            other = load(subject.source, threads=int(what))
        case "isa":
            other = load(subject.source, isa=what)
        case "without":
            with without(what):
                other = load(subject.source)
        case "budget":
            with small_networks_count(int(what)):
                other = load(subject.source)
        case "steps":
            steps(subject, model, variant)
            return
        case "bfloat16":
            from .precision import in_bfloat16

            in_bfloat16(subject, what, model, first)
            return
        case "late":
            rows_are_counted(subject, first)
            return
        case "open":
            _, times, more = what.split()
            turns(subject, (int(times), int(more)), first)
            return
        case _:
            raise ValueError(variant)
    found = run(other, subject)
    if is_dry(other) and kind != "without":
        return  # the references, with which the first plan agrees step by step
    if kind == "threads":
        same_bits(found, first, variant)
    else:
        agree(subject, found, first, variant, other)


def rows_are_counted(subject: Subject, first: Arrays) -> None:
    """Differs unless plans that are made during the run, and references, give what the plan before it did."""
    source, feeds = late(subject.source, subject.feeds)
    for work in (0, 1 << 60):
        with thresholds(planning_work=work):
            found = list(load(source).run(feeds).values())
        subject.close(found, first, f"late: work {work}", 2)


def agree(subject: Subject, found: Arrays, wanted: Arrays, where: str, model: fg.Model) -> None:
    """Differs unless results are near, or all steps of the model are, and what they round is amplified on the way."""
    try:
        subject.close(found, wanted, where)
    except Differs:
        if not subject.steps or is_dry(model):
            raise
        steps(subject, model, where)


def steps(subject: Subject, model: fg.Model, where: str) -> None:
    """Differs unless each step gives what its reference makes of the same operands."""
    try:
        check_steps(model.plan, subject.feeds, near)
    except AssertionError as error:
        raise Differs(where, str(error)) from None


def near(found: np.ndarray, wanted: np.ndarray, nodes: Sequence[Node], more: np.ndarray | float = 0.0) -> None:
    """The own rounding of nodes that run together, and so much `more`. No reference draws the same at random."""
    if any(node.op == "random_words" for node in nodes):
        return
    node = nodes[-1]
    assert found.dtype == wanted.dtype and found.shape == wanted.shape, f"{node}: {found.dtype}{found.shape}"
    f, w = found.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(invalid="ignore"):
        error = np.where((f == w) | (np.isnan(f) & np.isnan(w)), 0, np.abs(f - w))
    size = float(np.abs(w).max(initial=0, where=np.isfinite(w)))
    limit = 1.0 if wanted.dtype.kind in "iu" else (2e-3 if wanted.dtype == np.float16 else 3e-5) * max(1.0, size)
    limit = limit + max(map(bias_rounding, nodes)) + more
    assert np.all(error <= limit), f"{node}: off by {error.max()}, allowed {np.max(limit):.2g}"


def bias_rounding(node: Node) -> float:
    """What the bias of a layer of bytes, kept in int32 units of both scales, may be off by: half a unit."""
    quants = [None if v is None else v.type.quant for v in node.inputs[:2]]
    if len(node.inputs) < 3 or any(quant is None for quant in quants):
        return 0.0
    return math.prod(max(quant.scale) for quant in quants if quant is not None) / 2
