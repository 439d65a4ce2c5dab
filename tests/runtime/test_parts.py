"""Names, rows, linking, memory and progress: the small parts under the runtime."""

import io
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastgraph.kernels.core.build import build
from fastgraph.kernels.core.kernel import Kernel
from fastgraph.kernels.core.record import Record
from fastgraph.kernels.core.table import Row, kernels_of, row, rows
from fastgraph.kernels.isa.tiers import BY_NAME, Tier
from fastgraph.objects import link as linker
from fastgraph.objects.progress import terminal
from fastgraph.room import SLACK
from fastgraph.runtime.allocate import allocate

ELF = pytest.mark.skipif(sys.platform != "linux", reason="objects are ELF on Linux")


# -- names

PARAMETERS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.floats(allow_nan=False, width=16)
    | st.text("01.,()' ", max_size=3),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)


def kinds(value: object) -> object:
    """A value with its types spelled out, so that 1, 1.0 and True differ, and 0.0 and -0.0."""
    if isinstance(value, tuple):
        return tuple(kinds(v) for v in value)
    return type(value).__name__, repr(value)


@given(PARAMETERS, PARAMETERS)
def test_kernels_are_equal_when_their_parameters_are_the_same_in_type_and_value(a: object, b: object) -> None:
    one, other = Kernel.of("dot", p=a), Kernel.of("dot", p=b)
    assert (one == other) == (kinds(a) == kinds(b)) == (one.symbol == other.symbol)
    assert one.symbol.isidentifier() and one.symbol.isascii()


def test_a_chain_constant_is_not_a_value_number() -> None:
    assert Kernel.of("map", chain=(("add", 0, 1),)) != Kernel.of("map", chain=(("add", 0, 1.0),))
    assert len({Kernel.of("map", flag=True), Kernel.of("map", flag=1)}) == 2


def test_the_order_of_parameters_does_not_matter() -> None:
    assert Kernel("dot", (("b", 1), ("a", 2))) == Kernel.of("dot", a=2, b=1)


@pytest.mark.parametrize("value", [np.float32(1), np.int64(1), [1], {}, (1, [2]), b"x"])
def test_other_parameters_are_refused(value: object) -> None:
    with pytest.raises(TypeError, match="kernel parameter"):
        Kernel.of("dot", p=value)


# -- rows


def test_rows_are_found_by_name() -> None:
    assert row("execute").make().__name__ == "execute"
    assert all(name == found.name for name, found in rows().items())
    with pytest.raises(KeyError, match="no kernel is called 'nothing'.*execute"):
        row("nothing")


def _some() -> Row:
    params = {"nv": (1, 2), "last": (False, True)}
    return Row("some", "gemm.some", "make", Record(), params, lambda tier, p: tier.lanes == 16 or p["nv"] == 1)


def test_a_row_lists_the_kernels_that_a_tier_has() -> None:
    assert set(_some().kernels(BY_NAME["avx512"])) == {
        Kernel.of("some", nv=nv, last=last) for nv in (1, 2) for last in (False, True)
    }
    assert set(_some().kernels(BY_NAME["avx2"])) == {Kernel.of("some", nv=1, last=last) for last in (False, True)}


@pytest.mark.parametrize(
    "params, message",
    [
        ({"nv": 3, "last": True}, "some: nv=3 is none of 1, 2"),
        ({"nv": 1, "last": 1}, "last=1 is none of False, True"),
        ({"nv": True, "last": True}, "nv=True is none of 1, 2"),
        ({"nv": 2, "last": True}, "tier avx2 has no kernel with .*'nv': 2"),
        ({"nv": 1}, "some has the parameters .*last.*, found .*nv"),
        ({"nv": 1, "last": True, "m": 7}, "found .*'m'"),
    ],
)
def test_a_row_refuses_what_it_does_not_list(params: dict[str, object], message: str) -> None:
    assert _some().kernel(BY_NAME["avx512"], {"nv": 2, "last": True}) == Kernel.of("some", last=True, nv=2)
    with pytest.raises(TypeError, match=message):
        _some().kernel(BY_NAME["avx2"], params)


@pytest.mark.parametrize("tier", list(BY_NAME.values()), ids=list(BY_NAME))
def test_each_kernel_is_listed_once(tier: Tier) -> None:
    listed = kernels_of(tier)
    assert len(set(listed)) == len(listed) == sum(len(found.kernels(tier)) for found in rows().values())
    assert (Kernel("execute") in listed) == (tier.name == "generic")


# -- linking


def _empty(args, thread, threads):
    pass


def test_symbols_of_different_objects_keep_apart() -> None:
    """The same kernel for two tiers has one symbol: each object has its own address all the same."""
    one, other = (build(_empty, "twice", BY_NAME[tier]) for tier in ("generic", "avx2"))
    other += b"\0" * (one == other)
    first = linker.link({"twice": one})
    second = linker.link({"twice": other})
    assert first != second
    assert linker.link({"twice": one}) == first


@ELF
def test_the_runtime_kernels_need_nothing() -> None:
    from fastgraph.objects.cache import objects
    from fastgraph.runtime.pool import KERNELS, TIER

    assert [linker.undefined(obj) for obj in objects(KERNELS, TIER)] == [frozenset()] * len(KERNELS)


@ELF
@pytest.mark.parametrize("symbol", ["sinf", "nothing_has_this"])
def test_undefined_symbols_are_seen_and_held_against_the_list(symbol: str) -> None:
    import llvmlite.binding as llvm

    source = f"declare void @{symbol}()\ndefine void @user() {{ call void @{symbol}()\n ret void }}"
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic")
    obj = machine.emit_object(llvm.parse_assembly(source))
    assert linker.undefined(obj) - {"_GLOBAL_OFFSET_TABLE_"} == {symbol}
    if symbol in linker.ALLOWED:
        linker.check(obj, "user")
        assert linker.link({"user": obj})["user"]
    else:
        with pytest.raises(RuntimeError, match=f"user needs {symbol}"):
            linker.link({"user": obj})


@ELF
def test_what_is_no_object_is_refused() -> None:
    obj = build(_empty, "whole", BY_NAME["generic"])
    for bad in (b"", b"not an object", obj[:60], obj[: len(obj) // 2], obj[:-30]):
        with pytest.raises(RuntimeError, match="object"):
            linker.link({"whole": bad})
    with pytest.raises(RuntimeError, match="should define other"):
        linker.link({"other": obj})


# -- memory


@given(st.integers(0, 10_000), st.sampled_from([1, 64, 4096, 1 << 16]))
def test_memory_is_aligned_zeroed_and_has_slack(nbytes: int, align: int) -> None:
    block, address = allocate(nbytes, align)
    assert block.dtype == np.uint8 and block.shape == (nbytes,) and not block.any()
    assert address % align == 0
    assert nbytes == 0 or block.ctypes.data == address
    base = block.base
    assert isinstance(base, np.ndarray)
    assert base.ctypes.data + base.size >= address + nbytes + SLACK


def test_large_memory_and_views() -> None:
    block, address = allocate(9 << 20)
    assert address % (2 << 20) == 0
    view = block[4096 : 4096 + 40].view(np.float32)
    view[:] = 1
    assert view.ctypes.data == address + 4096 and block[:4096].max() == 0
    with pytest.raises(ValueError, match="power of two"):
        allocate(10, 48)


# -- progress


class Screen(io.StringIO):
    def __init__(self, tty: bool) -> None:
        super().__init__()
        self.tty = tty

    def isatty(self) -> bool:
        return self.tty


def test_progress_is_shown_in_place_and_erased(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(tty=True)
    monkeypatch.setattr(sys, "stderr", screen)
    terminal(11, 40, "dot(rows=14)" + "x" * 200)
    shown = screen.getvalue()
    assert shown.startswith("\rcompiling kernels 12/40 dot(rows=14)")
    assert len(shown) < 80 and "\n" not in shown
    terminal(40, 40, "")
    erased = screen.getvalue()[len(shown) :]
    assert erased.strip() == "" and len(erased) >= len(shown) and erased.endswith("\r")


@pytest.mark.parametrize("screen", [Screen(tty=False), None])
def test_progress_says_nothing_to_a_file(monkeypatch: pytest.MonkeyPatch, screen: Screen | None) -> None:
    monkeypatch.setattr(sys, "stderr", screen)
    terminal(0, 2, "dot")
    terminal(2, 2, "")
    assert screen is None or screen.getvalue() == ""
