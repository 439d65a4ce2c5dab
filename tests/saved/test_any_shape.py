"""Saved programs with all kernels of their tiers: shapes that they have no plan for need no compiler."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.cli import main
from fastgraph.kernels.core.kernel import Kernel
from fastgraph.kernels.core.table import rows
from fastgraph.kernels.isa.tiers import BY_NAME, Tier, usable
from fastgraph.objects import store
from fastgraph.runtime import save
from tests.nets import Net
from tests.saved.common import bits, is_stored, same

SIZES = 1, 2, 3, 9, 40


def net() -> Net:
    found = Net()
    x = found("Relu", found("MatMul", found.input("x", ("n", 16)), found.weight(16, 24)))
    found.output(found("Softmax", found("MatMul", x, found.weight(24, 5))))
    return found


def fed(n: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(n).standard_normal((n, 16)).astype(np.float32)}


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a tier's kernels those that the net wants of any size: all would take minutes to compile."""

    def wanted(tier: Tier) -> list[Kernel]:
        model, found = net().load(isa=tier.name), []
        for n in SIZES:
            model.resize({"x": (n, 16)})
            found += model.plan.kernels()
        return list(dict.fromkeys(found))

    monkeypatch.setattr(save, "kernels_of", wanted)


@contextmanager
def no_compiler() -> Iterator[None]:
    """No kernel comes from the cache, or is compiled."""

    def missing(*_: Any) -> Any:
        raise fg.CompilerError("no compiler")

    none = patch.object(store, "find", lambda kernels, tier: [None] * len(kernels))
    with none, patch.object(store, "made", lambda *_: None), patch.object(store, "compiled", missing):
        yield


@pytest.mark.parametrize("tier", [tier.name for tier in usable()])
@pytest.mark.parametrize("shapes", [[{"x": (3, 16)}], None])
def test_other_shapes_need_no_compiler(tier: str, shapes: Any, tmp_path: Path) -> None:
    """With a plan for one shape, and with none."""
    path = tmp_path / "net.fgm"
    net().load(isa=tier).save(path, shapes=shapes, any_shape=True)
    with no_compiler():
        made = fg.load(path, threads=1)
        assert made.tier.name == tier and made.planned == (shapes is not None)
        found = [bits(made.run(fed(n))) for n in SIZES]
    model = net().load(isa=tier)
    assert found == [bits(model.run(fed(n))) for n in SIZES]


def test_a_shape_that_was_named_has_its_plan_in_the_file(tmp_path: Path) -> None:
    model = net().load()
    model.save(tmp_path / "net.fgm", shapes=[{"x": (3, 16)}], any_shape=True)
    made = fg.load(tmp_path / "net.fgm", threads=1)
    same(model, made, [fed(3)])
    assert is_stored(made)
    same(model, made, [fed(4), fed(3)])


def test_a_program_is_saved_again_with_all_kernels(tmp_path: Path) -> None:
    net().load().save(tmp_path / "one.fgm", any_shape=True)
    one = fg.load(tmp_path / "one.fgm", threads=1)
    one.save(tmp_path / "two.fgm", shapes=[{"x": (9, 16)}], any_shape=True)
    with no_compiler():
        same(one, fg.load(tmp_path / "two.fgm", threads=1), [fed(n) for n in SIZES])


def test_kernels_that_no_plan_wants_ask_for_no_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the others, a machine's plans want those alone whose instructions it has."""
    tier = BY_NAME["avx512"]
    more = next(k for row in rows().values() for k in row.kernels(tier) if row.needs(dict(k.params)))
    monkeypatch.setattr(save, "kernels_of", lambda tier: [more])
    path = tmp_path / "net.fgm"
    net().load().save(path, shapes=[{"x": (3, 16)}], isa=tier.name, any_shape=True)
    image = fg.load(path, isa="generic", trusted=True)._stored.image(tier.name)  # type: ignore[union-attr]
    assert image["needs"] == [] and image["complete"] and more.name in [name for name, _ in image["kernels"]]


def test_tiers_that_a_file_without_plans_is_for(tmp_path: Path) -> None:
    """Another is planned where its kernels can be compiled, else the error says what there is."""
    net().load(isa="generic").save(tmp_path / "net.fgm", any_shape=True)
    wide = usable()[-1].name
    same(net().load(), fg.load(tmp_path / "net.fgm", isa=wide, threads=1), [fed(2)])
    with no_compiler(), pytest.raises(fg.InputError, match=f"runs on generic, not on {wide}; other shapes need a"):
        fg.load(tmp_path / "net.fgm", isa=wide, threads=1).run(fed(2))


def test_shapes_are_planned_from_the_graph(tmp_path: Path) -> None:
    with pytest.raises(fg.InputError, match="any_shape=True plans shapes from the graph"):
        net().load().save(tmp_path / "net.fgm", graph=False, any_shape=True)


def test_without_it_the_error_names_it(tmp_path: Path) -> None:
    """Where another shape takes another kernel: of a panel of one vector, and of more."""
    own = Net()
    own.output(own("MatMul", own.weight(24, 16), own.input("x", (16, "n"))))
    model = own.load()
    with pytest.raises(fg.InputError, match=r"or keep what plans any, save\(path, any_shape=True\)"):
        model.save(tmp_path / "net.fgm")
    model.save(tmp_path / "net.fgm", shapes=[{"x": (16, 1)}])
    with no_compiler(), pytest.raises(fg.InputError, match=r"with any_shape=True \(fastgraph compile --any-shape\)"):
        fg.load(tmp_path / "net.fgm", threads=1).run({"x": np.zeros((16, 200), np.float32)})


def test_the_command(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "net.onnx").write_bytes(net().bytes())
    place = str(tmp_path / "net.fgm")
    for flags, said in (["--any-shape"], "with all kernels of generic, or where"), ([], "planned where there is a"):
        assert main(["compile", str(tmp_path / "net.onnx"), "-o", place, "--isa", "generic", *flags]) == 0
        assert said in capsys.readouterr().out
