"""A saved program gives the bits of the model that it was saved from."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given

import fastgraph as fg
from fastgraph.demo import MODEL
from fastgraph.ir import Graph, Node, State, TensorType, Value
from fastgraph.kernels.isa.tiers import TIERS, usable
from fastgraph.objects import store
from fastgraph.runtime import executable
from fastgraph.runtime.model import Model
from fastgraph.runtime.stored import Saved
from tests.blocks import BLOCKS, RARE
from tests.nets import I64, Net, feeds_for
from tests.plan.control_nets import branches, drawn, scanned, until
from tests.quantized_blocks import QDQ
from tests.random_nets import Case, examples, networks
from tests.saved.common import again, backwards, bits, found_rows, is_stored, same

F32 = np.dtype(np.float32)


def never(*_: Any, **__: Any) -> Any:
    raise AssertionError("planned again")


@pytest.mark.parametrize("name", [*BLOCKS, *RARE, *QDQ])
def test_blocks(name: str, tmp_path: Path) -> None:
    net = Net()
    {**BLOCKS, **RARE, **QDQ}[name](net)
    model = net.load(threads=2)
    feeds = [feeds_for(model, seed) for seed in (1, 2)]
    assert is_stored(again(model, tmp_path, feeds)) or executable_parts(model)


def executable_parts(model: fg.Model) -> bool:
    """Whether NumPy computes a part, so that the plan is made again."""
    from fastgraph.runtime.save import is_flat

    return not is_flat(model.plan.compiled)


@examples(30)
@given(networks())
def test_random_networks(tmp_path_factory: pytest.TempPathFactory, case: Case) -> None:
    model = fg.load(case.source, threads=1)
    again(model, tmp_path_factory.mktemp("saved"), [case.feeds, case.feeds])


@pytest.mark.parametrize("seed", range(12))
def test_drawn_control_flow(seed: int, tmp_path: Path) -> None:
    again(drawn(seed).load(threads=1 + seed % 2), tmp_path)


@pytest.mark.parametrize("build", [branches, until, scanned])
def test_control_flow(build: Any, tmp_path: Path) -> None:
    assert is_stored(again(build().load(threads=2), tmp_path))


@pytest.mark.parametrize("saved", [[1], [2], [1, 4]])
@pytest.mark.parametrize("asked", [1, 2, 3, 8])
def test_threads(saved: list[int], asked: int, tmp_path: Path) -> None:
    net = Net()
    BLOCKS["residual"](net)
    model = net.load(threads=1)
    model.save(tmp_path / "net.fgm", threads=saved)
    with patch.object(executable, "make_plan", never):
        found = fg.load(tmp_path / "net.fgm", threads=asked)
        same(model, found, [feeds_for(model)])
    assert found.threads == min(asked, max(saved))


@pytest.mark.parametrize("tier", [tier.name for tier in TIERS])
def test_every_tier_is_saved_here(tier: str, tmp_path: Path) -> None:
    """Also those that this CPU lacks, which another one takes."""
    net = Net()
    BLOCKS["residual"](net)
    model = net.load(threads=1, isa="generic")
    model.save(tmp_path / "net.fgm", isa=f"generic,{tier}")
    here = [each.name for each in usable()]
    found = fg.load(tmp_path / "net.fgm", threads=1)
    assert found.tier.name == (tier if tier in here else "generic") and is_stored(found)
    expected = net.load(threads=1, isa=found.tier.name)
    same(expected, found, [feeds_for(model)])
    with patch.object(executable, "make_plan", never):
        same(model, fg.load(tmp_path / "net.fgm", threads=1, isa="generic"), [feeds_for(model)])


def test_a_tier_that_is_not_stored_is_planned(tmp_path: Path) -> None:
    model = fg.load(MODEL, threads=1, isa="generic")
    model.save(tmp_path / "net.fgm")
    found = fg.load(tmp_path / "net.fgm", threads=1, isa=usable()[-1].name)
    same(fg.load(MODEL, threads=1), found, [feeds_for(model)])


def open_net() -> Net:
    net = Net()
    x = net.input("x", ("n", 16))
    net.output(net("Softmax", net("MatMul", x, net.weight(16, 24))))
    return net


def rows(n: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(n).standard_normal((n, 16)).astype(np.float32)}


@pytest.mark.parametrize("graph", [True, False])
def test_several_shapes(graph: bool, tmp_path: Path) -> None:
    model = open_net().load()
    model.save(tmp_path / "net.fgm", shapes=[{"x": (n, 16)} for n in (3, 7)], graph=graph)
    model.prepare([{"x": (n, 16)} for n in (3, 7)])
    with patch.object(executable, "make_plan", never):
        found = fg.load(tmp_path / "net.fgm", threads=1)
        same(model, found, [rows(7), rows(3), rows(7)])
        fixed = fg.load(tmp_path / "net.fgm", threads=1, shapes={"x": (7, 16)})
        same(model, fixed, [rows(7)])
        assert [spec.shape for spec in fixed.inputs] == [(7, 16)]
    assert (found.inputs, found.outputs) == (model.inputs, model.outputs)
    if graph:
        same(model, found, [rows(5), rows(3)])
    else:
        with pytest.raises(
            fg.InputError, match=r"without its graph, and runs \{'x': \(3, 16\)\} or \{'x': \(7, 16\)\}"
        ):
            found.run(rows(5))
        same(model, found, [rows(3)])


def test_plans_that_a_model_has_are_saved(tmp_path: Path) -> None:
    model = open_net().load()
    with pytest.raises(fg.InputError, match="shapes are not fixed"):
        model.save(tmp_path / "net.fgm")
    for n in (2, 4):
        model.run(rows(n))
    model.save(tmp_path / "net.fgm")
    with patch.object(executable, "make_plan", never):
        same(model, fg.load(tmp_path / "net.fgm", threads=1), [rows(4), rows(2)])


def test_without_a_compiler(tmp_path: Path) -> None:
    """Other shapes are planned where the kernels that they want are in the file, else refused."""
    model = open_net().load()
    model.save(tmp_path / "net.fgm", shapes=[{"x": (3, 16)}])
    model.prepare([{"x": (n, 16)} for n in (3, 4)])

    def missing(*_: Any) -> Any:
        raise fg.CompilerError("no compiler")

    none = patch.object(store, "find", lambda kernels, tier: [None] * len(kernels))
    with none, patch.object(store, "made", lambda *_: None), patch.object(store, "compiled", missing):
        same(model, fg.load(tmp_path / "net.fgm", threads=1), [rows(3), rows(4), rows(3)])
        with patch.object(Saved, "kernels", lambda self: {}):
            found = fg.load(tmp_path / "net.fgm", threads=1)
            with pytest.raises(fg.InputError, match=r"runs \{'x': \(3, 16\)\}; other shapes need a compiler"):
                found.run(rows(4))
            same(model, found, [rows(3)])


def test_states(tmp_path: Path) -> None:
    x, s, y = (Value(name, TensorType(F32, (3,))) for name in "xsy")
    graph = Graph("sum", [x], [y], [Node("add", [x, s], [y])], states=[State(s, y, np.arange(3, dtype=np.float32))])
    model = Model(graph, usable()[-1], 1)
    found = again(model, tmp_path, [{"x": np.ones(3, np.float32)}] * 3)
    assert is_stored(found)
    found.reset_states()
    assert found(np.ones(3, np.float32)).tolist() == [1, 2, 3]


def test_a_lookup_out_of_range(tmp_path: Path) -> None:
    net = Net()
    net.output(net("Gather", net.input("x", (5, 4)), net.input("i", (2,), I64)))
    model = net.load()
    x = np.arange(20, dtype=np.float32).reshape(5, 4)
    found = again(model, tmp_path, [{"x": x, "i": np.array([4, -5])}])
    for each in (model, found):
        with pytest.raises(fg.InputError, match="takes -5 to 4"):
            each.run({"x": x, "i": np.array([5, 0])})
    same(model, found, [{"x": x, "i": np.array([0, 1])}])


def test_values_that_decide_shapes(tmp_path: Path) -> None:
    net = Net()
    net.output(net("Reshape", net("Relu", net.input("x", (2, 6))), net.input("shape", (2,), I64)))
    model = net.load()
    x = np.random.default_rng(0).standard_normal((2, 6)).astype(np.float32)
    feeds = [{"x": x, "shape": np.array(dims)} for dims in ((3, 4), (12, 1), (3, 4))]
    for each in feeds:
        model.run(each)
    model.save(tmp_path / "net.fgm")
    with patch.object(executable, "make_plan", never):
        found = fg.load(tmp_path / "net.fgm", threads=1)
        same(model, found, feeds)
    same(model, found, [{"x": x, "shape": np.array((2, 6))}])


def some_rows(count: int, share: float) -> dict[str, np.ndarray]:
    x = np.random.default_rng(count).standard_normal((count, 4)).astype(np.float32)
    x[:, 0] = np.arange(count) < share * count
    return {"x": x}


@pytest.mark.parametrize("tier", ["generic", usable()[-1].name])
@pytest.mark.parametrize("graph", [True, False])
def test_extents_that_a_run_finds(tier: str, graph: bool, tmp_path: Path) -> None:
    model = found_rows().load(threads=2, isa=tier)
    shapes = [{"x": (40, 4)}, {"x": (9, 4)}]
    model.prepare(shapes)
    model.save(tmp_path / "net.fgm", shapes=shapes, threads=[1, 2], graph=graph)
    feeds = [some_rows(count, share) for count, share in ((40, 0.3), (40, 1), (40, 0), (9, 0.5), (40, 0.1))]
    for threads in (1, 2):
        with patch.object(executable, "make_plan", never):
            found = fg.load(tmp_path / "net.fgm", threads=threads, isa=tier)
            same(model, found, feeds)
            same(model, found.clone(), feeds)
        assert is_stored(found) and (found.inputs, found.outputs) == (model.inputs, model.outputs)
        with pytest.raises(fg.FastgraphError, match="depend on data"):
            found.output(found.outputs[0].name)
    if graph:
        same(model, found, [some_rows(12, 0.5)])


def test_arrays_for_results_whose_extents_a_run_finds(tmp_path: Path) -> None:
    model = found_rows().load(shapes={"x": (40, 4)})
    found = again(model, tmp_path, [])
    name, fed = model.outputs[0].name, some_rows(40, 0.5)
    fits, wide = np.empty((20, 4), np.float32), np.empty((40, 4), np.float32)
    expected = model.run(fed)[name]
    found.run(fed, out={name: fits})
    assert np.array_equal(fits, expected)
    for each in (model, found):
        with pytest.raises(fg.InputError):
            each.run(fed, out={name: wide})


def test_what_numpy_computes_a_part_of(tmp_path: Path) -> None:
    net = Net()
    net.output(backwards(net, net("Relu", net.input("x", (40, 50)))), dtype=I64)
    model = net.load()
    again(model, tmp_path)
    with pytest.raises(fg.UnsupportedError, match="graph=False: NumPy computes a part"):
        model.save(tmp_path / "net.fgm", graph=False)


def test_outputs_that_are_constants_or_inputs(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", (2, 3))
    unread = net.input("unread", (4,))
    net.output(net("Identity", np.arange(6.0)), net("Identity", x), net("Relu", x), net("Identity", unread))
    again(net.load(), tmp_path)


def test_empty_tensors(tmp_path: Path) -> None:
    net = Net()
    net.output(net("Relu", net.input("x", (0, 3))), net("ReduceSum", net.input("y", (0, 4)), [0]))
    again(net.load(), tmp_path)


def test_an_odd_element_type(tmp_path: Path) -> None:
    import onnx

    net = Net()
    net.inputs.append(onnx.helper.make_tensor_value_info("x", onnx.TensorProto.BFLOAT16, (3, 4)))
    net.outputs.append(onnx.helper.make_tensor_value_info("y", onnx.TensorProto.BFLOAT16, (3, 4)))
    net.nodes.append(onnx.helper.make_node("Relu", ["x"], ["y"]))
    model = net.load()
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    found = again(model, tmp_path, [{"x": x}])
    assert found.graph.interface.elements == model.graph.interface.elements


def test_a_saved_program_is_saved_again(tmp_path: Path) -> None:
    """Over itself, while it is in use."""
    path = tmp_path / "net.fgm"
    model = fg.load(MODEL, threads=1)
    model.save(path)
    found = fg.load(path, threads=1)
    found.save(path, threads=[1, 2])
    path.rename(tmp_path / "other.fgm")
    same(model, found, [feeds_for(model)])
    same(model, fg.load(tmp_path / "other.fgm", threads=2), [feeds_for(model)])


def test_saving_is_repeatable(tmp_path: Path) -> None:
    for name in ("a", "b"):
        fg.load(MODEL, threads=1).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_it_shows_what_it_is(tmp_path: Path) -> None:
    model = fg.load(MODEL, threads=1)
    found = again(model, tmp_path)
    assert repr(found) == repr(model) and str(found.graph) == str(model.graph)
    assert str(found).splitlines()[1:] == str(model).splitlines()[1:]
    assert found.arena_bytes == model.arena_bytes
    found.input("image")[...] = 0.5
    found.execute()
    model.input("image")[...] = 0.5
    model.execute()
    assert found.output("probabilities").tobytes() == model.output("probabilities").tobytes()
    assert bits(found.run({"image": np.ones((1, 1, 8, 8), np.float32)}))


@pytest.mark.parametrize("arguments, said", [
    ({"shapes": {"x": (1, 16)}}, "list of dicts"), ({"shapes": [{"y": (1, 16)}]}, "no input is called 'y'"),
    ({"isa": "numpy"}, "no machine code"), ({"isa": "sse"}, "the tiers are generic"), ({"threads": 0}, "whole numbers"),
    ({"threads": [1.5]}, "whole numbers"), ({"threads": []}, "whole numbers"),
])  # fmt: skip
def test_nonsense(arguments: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(fg.FastgraphError, match=said):
        open_net().load(shapes={"x": (1, 16)}).save(tmp_path / "net.fgm", **arguments)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(fg.FastgraphError, match=r"nowhere.*can't be written") as caught:
        fg.load(MODEL).save(tmp_path / "nowhere" / "net.fgm")
    assert isinstance(caught.value, OSError)


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "net.fgm"
    model = fg.load(MODEL, threads=1)
    model.save(path)
    before = path.read_bytes()
    with patch("os.replace", side_effect=OSError(28, "No space left on device")):
        with pytest.raises(fg.FastgraphError, match="No space left"):
            model.save(path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_operators_of_users_are_this_processes(tmp_path: Path) -> None:
    from fastgraph.ops import custom, registry

    def double(x: np.ndarray, y: np.ndarray) -> None:
        y[...] = 2 * x

    with patch.dict(registry.USERS), patch.dict(vars(custom)):
        fg.register_custom_op("my", "Double", infer=lambda types, attrs: [types[0]], kernel=double)
        net = Net()
        net.output(net("Double", net.input("x", (3,)), domain="my"))
        with pytest.raises(fg.UnsupportedError, match="operator of yours"):
            net.load().save(tmp_path / "net.fgm")
    assert not list(tmp_path.iterdir())
