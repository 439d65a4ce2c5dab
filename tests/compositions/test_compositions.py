"""Random compositions: other engines, other formats, other tiers, threads and plans all agree.

2,500, the same in every run. All take the numbers of two palettes, so that a kernel is compiled once for many; what is
still too much is run by references (afford.py). Others are drawn by `python -m tests.compositions --new`.
"""

from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pytest

from fastgraph.freedoms import thresholds
from fastgraph.kernels.isa.tiers import multiplies_pairs, usable
from fastgraph.plan.lower.gemm import layer_bf16
from tests.compositions.afford import Purse, paying
from tests.compositions.campaign import smallest
from tests.compositions.check import Differs, check
from tests.compositions.composition import Composition, Const, Input, Op
from tests.compositions.coverage import Coverage, watching
from tests.compositions.draw import draw
from tests.compositions.forms import FORMS, WINDOWS, Declined
from tests.compositions.grow import Grow, Palette
from tests.compositions.job import Job, attempt, job, kind
from tests.compositions.nodes import Piece, undecided
from tests.compositions.rare_kinds import RULES as RARE
from tests.compositions.script import script
from tests.compositions.shrink import shrink

CHUNK = 125
PALETTES = 2
KERNELS = 0.2
"""Kernels compiled for a network: at a third of a second or more, most of what a cold cache costs."""

SEEDS = range(0, 2500, CHUNK)


def campaign(first: int, count: int) -> None:
    """Fails at the first composition with which something is wrong: with it, made smaller, as a script."""
    purse = Purse(KERNELS, 6.0)
    with paying(purse):
        for seed in range(first, first + count):
            chosen = job(seed, seed // CHUNK % PALETTES, count=1)
            purse.next()
            try:
                attempt(chosen.net(), chosen.form, chosen.variants)
            except Declined:
                continue
            except Exception as error:
                pytest.fail(report(chosen, error))


def report(chosen: Job, error: Exception) -> str:
    how = f"python -m tests.compositions --seed {chosen.seed} --count 1 --palette {chosen.palette}"
    return f"{kind(error)}\n{error}\n{how} --form {chosen.form!r}\n{smallest(chosen, kind(error), 60)}"


@pytest.mark.slow
@pytest.mark.parametrize("first", SEEDS)
def test_compositions(first: int) -> None:
    campaign(first, CHUNK)


def test_what_onnxruntime_cannot_run_is_held_against_references() -> None:
    """It refuses the mean of one quantized number: "QLinearGlobalAveragePool parameter out of computation range"."""
    ops = [
        Op("log_softmax", ["x"], ["a"], {"axis": 3}),
        Op("tanh", ["a"], ["b"]),
        Op("reduce", ["b"], ["y"], {"how": "mean", "axes": (2, 3), "keep": True}),
    ]
    subject = FORMS["onnx operators u8"](Composition({"x": Input((1, 1, 1, 1))}, {}, ops, ["y"]))
    assert not subject.expected
    check(subject, ("steps",))


UNREACHED = {
    "lowering custom.custom(custom)": "model/test_custom_ops.py",  # operators that users register
    "lowering exact.exact(ceil)": "plan/test_element_types.py",
    "lowering exact.exact(erf)": "extras/test_doubles.py",
    "lowering exact.exact(floor)": "plan/test_element_types.py",
    "lowering exact.exact(prelu)": "plan/test_element_types.py",
    "lowering recurrent.of_bytes(lstm)": "onnx/test_contrib_recurrent.py",
    "lowering sample.region_means(region_means)": "extras/test_regions.py",
    "rule attention.product_of_turned_weights": "plan/test_attention.py",
    "rule branches.parallel_convolutions": "passes/test_branches.py",
    "rule lists.*": "plan/test_row_loops.py",
    "rule row_loops.by_rows": "plan/test_row_loops.py",
    "rule formulas.swiglu": "extras/test_doubles.py",
    "rule element_types.scattered_bools": "plan/test_element_types.py",
    "rule to_integers.never_nan": "passes/test_to_integers.py",
    "rule lstm_sequence.lstm_sequence": "extras/test_lstm_sequence.py",
    "rule tf_idf.*": "passes/test_rare_operators.py",
    "rule open_weights.stored_weights": "plan/test_formulas.py",
    "rule random.bernoulli": "extras/test_random.py",
    "rule random.distribution": "extras/test_random.py",
    "rule random.*multinomial": "extras/test_random.py",
    "rule random.philox": "extras/test_random.py",
    "rule random.random_bits": "extras/test_random.py",
    "rule image_warp.warp": "circle/test_custom.py",
    "rule linear_attention.*": "passes/test_rare_operators.py",
    "rule regions.roi_align": "extras/test_regions.py",
    "rule audio.audio_spectrogram": "extras/test_spectra.py",
    "rule audio.hadamard_rotation": "extras/test_spectra.py",
    "rule audio.mfcc": "extras/test_spectra.py",
    "rule unpool.max_unpool": "passes/test_windows.py",
    "rule window_reduce.*": "extras/test_window_reduce.py",
    "rule windows.word_pool": "circle/test_average_pool.py",
}
"""What no composition reaches, by patterns of names, and the tests that do."""


def unreached(found: Coverage) -> set[str]:
    """What neither these networks nor the tests that are named for it reach."""
    return {name for name in found.missing() if not any(fnmatchcase(name, pattern) for pattern in UNREACHED)}


@pytest.mark.slow
def test_all_rules_lowerings_and_kernels_are_reached() -> None:
    """A rule, lowering or kernel that none of these networks uses is a gap in the families of blocks."""
    coverage = Coverage()
    with watching(coverage), paying(Purse(0.0)):
        for seed in range(10000, 14000):
            if seed % 100 == 0 and not unreached(coverage):
                break
            chosen = job(seed, seed % 4)
            variants = tuple(v for v in chosen.variants if v.startswith("bfloat16") and seed % 5 == 0)
            # Where there are tiles of bf16 they take all layers that they may.
            with suppress(Declined), thresholds(tiles_least=1 + 64 * (seed % 2)):
                attempt(chosen.net(), chosen.form, variants, coverage)
    assert not unreached(coverage)


def test_what_is_left_to_other_tests_is_there() -> None:
    everything, tests = Coverage().missing(), Path(__file__).parents[1]
    for pattern, file in UNREACHED.items():
        assert any(fnmatchcase(name, pattern) for name in everything), f"nothing is called {pattern}"
        assert (tests / file).is_file(), f"{pattern}: no file {file}"


def test_a_seed_always_gives_the_same() -> None:
    assert str(draw(7)) == str(draw(7)) and job(7) == job(7)
    assert len({str(draw(seed)) for seed in range(50)}) == 50


def test_volumes_are_drawn() -> None:
    """With every operator of three axes, under most other operators."""
    kinds = set()
    for net in map(draw, range(2000)):
        shapes = net.shapes()
        kinds |= {op.kind for op in net.ops if op.inputs and len(shapes[op.inputs[0]]) == 5}
    assert kinds >= WINDOWS | {"group_norm", "layer_norm", "concat", "pad", "dense", "reduce", "nodes", "inside"}


@pytest.mark.parametrize("form", FORMS)
def test_some_of_each_form(form: str) -> None:
    """Without kernels, so that these are quick."""
    done = 0
    with paying(Purse(0.0)):
        for seed in range(8):
            try:
                attempt(draw(seed, 0), form, ("without views", "without layout"))
                done += 1
            except Declined:
                pass
    assert done >= 2


def test_what_differs_is_found_and_made_small() -> None:
    """A network of which one operator is wrong: what is left of it is that operator, on few numbers."""
    net = next(n for n in map(draw, range(99)) if len(n.ops) > 12 and any(op.kind == "concat" for op in n.ops))
    small = shrink(net, lambda n: any(op.kind == "concat" for op in n.ops), 20)
    assert len(small.ops) == 1 and all(np.prod(given.shape) <= 2 for given in small.inputs.values())
    namespace: dict = {}
    exec("from tests.compositions.composition import *\nnet = " + str(small), namespace)
    assert namespace["net"] == small


def test_a_wrong_plan_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory of a value that is still read, given to another."""
    from fastgraph.plan.lower import build

    honest = build.lifetimes

    def short(program, graph):
        found = honest(program, graph)
        return {owner: build.Buffer(b.name, b.first, b.first, b.size, b.align) for owner, b in found.items()}

    monkeypatch.setattr(build, "lifetimes", short)
    net = Composition(
        {"x": Input((1, 4, 6, 6))}, {},
        [Op("relu", ["x"], ["a"]), Op("softmax", ["a"], ["b"], {"axis": 1}), Op("softmax", ["b"], ["c"], {"axis": 2}),
         Op("softmax", ["c"], ["d"], {"axis": 3}), Op("concat", ["a", "b", "c", "d"], ["y"], {"axis": 2})], ["y", "a"],
    )  # fmt: skip
    with paying(Purse(0.0)), pytest.raises(Differs):
        attempt(net, "onnx f32", ())


@pytest.mark.skipif(not multiplies_pairs(usable()[-1]), reason="ISA tier avx512 with avx512bf16")
def test_weights_that_are_not_rounded_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """But cut off, by another part of 2**-9."""

    def cut(weights: np.ndarray) -> np.ndarray:
        return (weights.view(np.uint32) & 0xFFFF0000).view(np.float32)

    weights, dense = Const((8, 16), "matrix"), Op("dense", ["x", "w"], ["y"], {"gemm": False})
    net = Composition({"x": Input((4, 8))}, {"w": weights}, [dense], ["y"])
    attempt(net, "onnx f32", ("bfloat16 steps", "bfloat16 threads 2", "bfloat16 without narrow"))
    monkeypatch.setattr(layer_bf16, "balanced", cut)
    with pytest.raises(Differs):
        attempt(net, "onnx f32", ("bfloat16 steps",))


def test_scripts_of_rare_operators_make_them_again() -> None:
    kinds = set()
    for net in map(draw, range(300)):
        rare = {op.kind for op in net.ops} & {"nodes", "inside", *RARE}
        if not rare <= kinds:
            kinds |= rare
            namespace: dict = {}
            exec(script(net, "onnx u8", ()).partition("attempt(net")[0], namespace)
            assert namespace["net"] == net
    assert {"nodes", "inside", "update"} <= kinds


def test_numbers_between_two_whole_ones_are_not_compared() -> None:
    """What engines round to either."""
    g = Grow(0, Palette.of(0))
    x = g.op("mul", g.input(1, 4), g.const(1, kind="half"))
    p = Piece(g, x)
    g.output(p.end(p.whole(x, np.float32)))
    values = {x: np.float32([[0.1, 2, 3, 0.49]])}
    assert not undecided(g.net, values, 1e-3) and undecided(g.net, values, 1e-1)
    assert undecided(g.net, {x: np.float32([[1.5, 0, 0, 0]])}, 1e-6)
    assert not undecided(g.net, {x: np.float32([[100.5, 0, 0, 0]])}, 1e-6)


def test_scripts_name_the_variants() -> None:
    net = draw(3, 0)
    assert "'steps'" in script(net, "onnx u8", ("steps",))
