"""Tiers and thread counts: those that a file has code and plans for, and those that are asked for."""

from collections.abc import Callable
from pathlib import Path

import pytest

import fastgraph as fg
from fastgraph.cpus import default_threads
from fastgraph.kernels.isa import tiers
from fastgraph.kernels.isa.tiers import BY_NAME, TIERS, usable
from fastgraph.plan.lower.pointwise import requantize
from tests.nets import Net
from tests.plan.control_nets import branches
from tests.quantized_blocks import TFLITE
from tests.saved.common import backwards
from tests.saved.round_trip import drawn, is_stored, same
from tests.saved.test_networks import SOURCES, tflite
from tests.saved.test_save import layer

NARROW, WIDE = usable()[0].name, usable()[-1].name
NETS: dict[str, Callable[[], bytes]] = {
    "dense": lambda: layer().bytes(),
    "branches": lambda: branches().bytes(),
    "int8": lambda: tflite(TFLITE["int8_residual"]),
    "recurrent": SOURCES["projected_lstm"],
}


@pytest.mark.parametrize("name", NETS)
def test_threads_in_all_combinations(name: str, tmp_path: Path) -> None:
    source = NETS[name]()
    one = fg.load(source, threads=1)
    feeds = [drawn(one, seed) for seed in range(2)]
    for saved in ([1], [2], [4], [1, 2, 4], [4, 1]):
        one.save(tmp_path / "m.fgm", threads=saved)
        for asked in (1, 2, 3, 4, None):
            made = fg.load(tmp_path / "m.fgm", threads=asked)
            assert is_stored(made)
            assert made.threads == min(asked or default_threads(), max(saved))
            same(one, made, feeds, (saved, asked))


@pytest.mark.parametrize("name", NETS)
def test_each_tier_computes_what_it_computed(name: str, tmp_path: Path) -> None:
    source, path = NETS[name](), tmp_path / "m.fgm"
    models = {tier.name: fg.load(source, isa=tier.name, threads=2) for tier in usable()}
    models[WIDE].save(path, isa=list(models))
    for tier, model in models.items():
        made = fg.load(path, isa=tier, threads=2)
        assert is_stored(made) and made.tier.name == tier
        same(model, made, [drawn(model, seed) for seed in range(2)], tier)
    assert fg.load(path).tier.name == WIDE


def test_code_for_other_cpus(tmp_path: Path) -> None:
    """All tiers can be compiled anywhere; a load takes the widest that runs here, and the file goes elsewhere."""
    model, path = layer().load(), tmp_path / "m.fgm"
    model.save(path, isa=[tier.name for tier in reversed(TIERS)], threads=[1, 2])
    made = fg.load(path, threads=2)
    assert made.tier.name == WIDE and is_stored(made)
    same(model, made, [drawn(model, 0)])
    model.save(path, isa=NARROW)
    assert fg.load(path).tier.name == NARROW


@pytest.mark.parametrize("tier", [tier.name for tier in usable()])
def test_a_cpu_that_has_less(tier: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without the wider ones."""
    path = tmp_path / "m.fgm"
    layer().load().save(path, isa=[each.name for each in TIERS])
    names = [each.name for each in TIERS]
    flags = {flag for each in TIERS[: names.index(tier) + 1] for flag in each.needs}
    monkeypatch.setattr(tiers, "cpu_flags", lambda: flags)
    model = fg.load(path)
    assert model.tier.name == tier and is_stored(model)


def test_code_that_needs_more_than_its_tier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of bytes is looked up by instructions that not all CPUs with AVX-512 have: there the code is not run."""
    more = frozenset({*BY_NAME["avx512"].needs, "avx512vbmi"})
    monkeypatch.setattr(tiers, "cpu_flags", lambda: more)
    monkeypatch.setattr(requantize, "cpu_flags", tiers.cpu_flags)
    source, path, alone = tflite(TFLITE["int8_functions"]), tmp_path / "m.fgm", tmp_path / "alone.fgm"
    model = fg.load(source, isa="generic", threads=1)
    model.save(path, isa=["generic", "avx512"])
    model.save(alone, isa=["avx512"], graph=False)
    assert fg.load(path).tier.name == "avx512"
    monkeypatch.setattr(tiers, "cpu_flags", lambda: more - {"avx512vbmi"})
    made = fg.load(path, threads=1)
    assert made.tier.name == "generic" and is_stored(made)
    same(model, made, [drawn(model, 0)])
    with pytest.raises(fg.InputError, match="runs on avx512 with avx512vbmi, not on avx512"):
        fg.load(alone)


def test_a_tier_that_is_not_stored_is_planned(tmp_path: Path) -> None:
    source, path = layer().bytes(), tmp_path / "m.fgm"
    fg.load(source, isa=WIDE).save(path, isa=WIDE)
    for isa in (NARROW, "numpy"):
        model, made = fg.load(source, isa=isa), fg.load(path, isa=isa)
        assert made.tier.name == isa and not is_stored(made)
        same(model, made, [drawn(model, 0)], isa)
    fg.load(source).save(path, isa=WIDE, graph=False)
    for isa in (NARROW, "numpy"):
        with pytest.raises(fg.InputError, match=f"without its graph, and runs on {WIDE}, not on {isa}"):
            fg.load(path, isa=isa)


def test_a_file_of_tiers_that_this_cpu_lacks(tmp_path: Path) -> None:
    others = [tier.name for tier in TIERS if tier not in usable()]
    if not others:
        pytest.skip("this CPU has all tiers")
    model, path = layer().load(), tmp_path / "m.fgm"
    model.save(path, isa=others)
    made = fg.load(path)
    assert made.tier.name == WIDE and not is_stored(made)
    same(model, made, [drawn(model, 0)])
    with pytest.raises(fg.InputError, match="can't run on this CPU"):
        fg.load(path, isa=others[0])
    model.save(path, isa=others, graph=False)
    with pytest.raises(fg.InputError, match=f"runs on {', '.join(others)}, not on {WIDE}"):
        fg.load(path)


def test_a_part_that_numpy_computes_is_planned_for_the_threads_that_are_asked(tmp_path: Path) -> None:
    net = Net()
    x = net("Relu", net.input("x", (3, 3)))
    net.output(net("Softmax", net("Cast", backwards(net, x), to=1), axis=0), dtype=None)
    model = net.load(threads=2)
    model.save(tmp_path / "m.fgm", threads=[1, 2])
    made = fg.load(tmp_path / "m.fgm", threads=4)
    same(model, made, [drawn(model, seed) for seed in range(3)])
