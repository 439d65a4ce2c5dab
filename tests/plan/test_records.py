"""What steps do to memory is verified: sound programs pass on every tier, and records that do harm are found.

MUTANTS=30000 changes that many records; the quick run changes 300, the same ones every time.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastgraph import compile as compiling
from fastgraph.compile import Compiled
from fastgraph.errors import PlanError
from fastgraph.freedoms import thresholds
from fastgraph.frontends import read
from fastgraph.kernels.core.kernel import Kernel
from fastgraph.kernels.core.table import rows
from fastgraph.kernels.isa import tiers
from fastgraph.kernels.isa.tiers import BY_NAME, TIERS, Tier
from fastgraph.plan.lower import depth_first
from fastgraph.plan.program import Ref, Step
from fastgraph.plan.reach import NO_STEPS, RULES
from fastgraph.plan.reach.records import verify_records
from tests.nets import F32, Net
from tests.plan.record_mutants import GRAPHS
from tests.processes import python

MUTANTS = int(os.environ.get("MUTANTS", "300"))
SHARED = Path(__file__).parents[3] / "shared" / "models"


def test_what_is_reached_is_declared_or_has_a_rule() -> None:
    assert rows().keys() >= RULES.keys() | NO_STEPS and not RULES.keys() & NO_STEPS
    for name in rows().keys() - RULES.keys() - NO_STEPS:
        plain = {slot for slot, meaning in rows()[name].args.items() if not getattr(meaning, "run", "")}
        assert not [slot for slot in plain - {"walk"} if "address of" in rows()[name].args[slot]], name


def verify(plan: Compiled) -> None:
    kept = [state.input for state in plan.states]
    verify_records(plan.program, plan.tier, plan.threads, plan.graph.inputs, plan.graph.outputs, kept)


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What an Executable is made of, but for kernels: a plan for any tier, with tiles wherever there can be."""
    monkeypatch.setattr(compiling, "linked", lambda *given: {})
    monkeypatch.setattr(depth_first, "WORTH", 1)
    monkeypatch.setattr(tiers, "has", lambda flags: True)
    with thresholds(tiles_least=1):
        yield lambda graph, tier, threads=1, shapes=None: compiling.compiled(graph, shapes or {}, tier, threads)


@pytest.mark.parametrize("tier", TIERS, ids=lambda tier: tier.name)
def test_sound_programs_pass(tier: Tier, planned: Any) -> None:
    """Building one verifies it, since FASTGRAPH_CHECK is set."""
    assert os.environ["FASTGRAPH_CHECK"] != "0"
    for build in GRAPHS.values():
        verify(planned(build(), tier, 3))


def test_all_kernels_are_among_them(planned: Any) -> None:
    programs = [planned(build(), tier).program for tier in TIERS for build in GRAPHS.values()]
    steps = [step for program in programs for step in program.steps]
    assert {step.kernel.name for step in steps if isinstance(step, Step)} == set(rows()) - NO_STEPS


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["*.onnx", "*.tflite", "*.circle", "*.mlpackage"])
def test_shared_models_pass(pattern: str, planned: Any) -> None:
    paths = sorted(SHARED.rglob(pattern))
    if not paths:
        pytest.skip("no shared/models beside the repository")
    for path in paths:
        try:
            graph = read(str(path), None)
        except Exception:
            continue
        open_ = [v for v in graph.inputs if v.type.shape and not v.type.concrete]
        shapes = {v.name: tuple(d if type(d) is int else 2 for d in v.type.shape or ()) for v in open_}
        for tier in TIERS:
            try:
                planned(graph, tier, 2, shapes)
            except PlanError:
                raise
            except Exception:
                break


def test_a_loop_may_go_on_from_row_to_row() -> None:
    """Every second column of 39 of 40: all of them have the same distance, over the ends of rows, too."""
    net = Net()
    x = net.input("x", [3, 40])
    cut = net("Slice", x, [0], [39], [1])
    net.output(net("Slice", cut, [0], [39], [1], [2]))
    fed = np.arange(120, dtype=F32).reshape(3, 40)
    assert np.array_equal(net.load()(fed), fed[:, :39:2])


@pytest.mark.skipif(sys.platform != "linux", reason="mutants run in forked children, between guard pages")
@pytest.mark.slow
def test_what_does_harm_is_found() -> None:
    """Each mutant that is accepted runs without harm; of those that are not, many do harm."""
    path = os.pathsep.join((*sys.path, str(Path(__file__).parents[2])))
    command = ("-m", "tests.plan.record_mutants", "0", MUTANTS)
    said = python(*command, timeout=3600, FASTGRAPH_CHECK="guard", PYTHONPATH=path)
    *wrong, counts = [json.loads(line) for line in said.splitlines()]
    assert not wrong, wrong
    counts = counts["counts"]
    harmful = sum(n for what, n in counts.items() if what.startswith("rejected") and "harmless" not in what)
    assert harmful > MUTANTS / 5 and counts["accepted harmless"] > MUTANTS / 5, counts


# -- one step, changed


@pytest.mark.parametrize("kernel", ["copy", "transpose", "pad", "take"])
def test_more_loops_than_a_record_holds_are_found(kernel: str, planned: Any) -> None:
    found = planned(GRAPHS["_moves"](), BY_NAME["avx2"])
    at = next(i for i, step in enumerate(found.program.steps) if isinstance(step, Step) and step.kernel.name == kernel)
    with pytest.raises(PlanError, match="rank is 7"):
        verify(changed(found, at, rank=7))


@pytest.fixture
def layers(planned: Any) -> Any:
    net = Net()
    x = net("Relu", net("Gemm", net.input("x", (3, 7)), net.weight(7, 20), net.weight(20)))
    net.output(net("Softmax", net("Add", x, net.input("z", (3, 20)))))
    return planned(read(net.bytes(), None), BY_NAME["avx2"], 2)


def changed(found: Compiled, at: int, **slots: Any) -> Compiled:
    """Slots of a step by their names in the table."""
    step = found.program.steps[at]
    assert isinstance(step, Step)
    names = rows()[step.kernel.name].args
    args = [slots.get(name, arg) for name, arg in zip(names, step.args, strict=False)]
    found.program.steps[at] = Step(step.kernel, (*args, *step.args[len(names) :]), step.node)
    return found


def test_a_step_may_not(layers: Compiled) -> None:
    verify(layers)
    steps = layers.program.steps
    dot, last = steps[0], len(steps) - 1
    assert isinstance(dot, Step) and dot.kernel.name == "dot"
    x, w, y = (dot.args[i] for i in (0, 2, 3))
    assert isinstance(x, Ref) and isinstance(w, Ref) and isinstance(y, Ref)
    cases: list[tuple[int, dict[str, Any], str]] = [
        (0, {"m": 4}, r"step 0, dot.* of %.*gemm|dense.*: (c writes|a reads) bytes"),
        (0, {"c": Ref(y.base, 4)}, "c writes bytes 4..244 of '.*', which has 240"),
        (0, {"lda": 8}, "a reads bytes 0..92 of 'x', which has 84"),
        (0, {"a": Ref(y.base)}, "of which a is a part|nobody has written"),
        (0, {"c": x}, "c writes bytes 0..240 of 'x', which has 84"),
        (0, {"c": Ref(layers.graph.inputs[1])}, "which is an input"),
        (0, {"c": w}, "of constant 0, which is constant"),
        (0, {"ldc": 10}, "only 40 apart"),
        (0, {"k": 8}, "b reads|a reads"),
        (0, {"k": 0}, "k is 0, expected > 0"),
        (0, {"block": 0}, "block is 0, expected > 0"),
        (0, {"n": x}, "n is Ref.*, expected a number"),
        (0, {"b": 0}, "b is 0, expected an address"),
        (0, {"m": -1}, "m is -1, expected 0"),
        (last, {"outer": 2}, "output .*some of which nobody has written"),
        (last, {"inner": 2}, "y writes bytes 0..480 of .*, which has 240"),
    ]
    for at, slots, says in cases:
        kept = list(steps)
        with pytest.raises(PlanError, match=says):
            verify(changed(layers, at, **slots))
        steps[:] = kept
    verify(layers)


def test_records_have_all_their_slots(layers: Compiled) -> None:
    dot = layers.program.steps[0]
    assert isinstance(dot, Step)
    for kernel, args, says in (
        (dot.kernel, dot.args[:-1], "ends before"),
        (dot.kernel, (*dot.args, 1), "1 slots too many"),
        (Kernel("team"), dot.args[: len(rows()["team"].args)], "runs other kernels"),
    ):
        layers.program.steps[0] = Step(kernel, args, dot.node)
        with pytest.raises(PlanError, match=says):
            verify(layers)


def test_a_constant_that_is_too_short(layers: Compiled) -> None:
    """As a scale of LayerNormalization that has fewer numbers than the axis it is for."""
    index = next(a.base for a in layers.program.steps[0].args[2:3] if isinstance(a, Ref))  # type: ignore[union-attr]
    layers.program.constants[index] = np.zeros(10, F32)  # type: ignore[index]
    with pytest.raises(PlanError, match="b reads bytes 0..[0-9]+ of constant [0-9]+, which has 40"):
        verify(layers)
