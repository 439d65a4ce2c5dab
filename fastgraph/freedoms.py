"""Optimizations and thresholds of passes and plans that tests switch off or set, to compare the results.

Thresholds are numbers that plans go by, which tests set to reach with small networks what large ones reach:
"bands_worth", "bands_budget", "bands_extra", "bands_kept" and "bands_rows" (lower/depth_first.py), "reduced_large"
(lower/pointwise/along.py), "steps_large", "steps_part" and "recurrent_far" (lower/recurrent), "arena_pairs" and
"arena_many" (arena.py), "locality_worth" (locality.py), "coded_large" (passes/quantized/coded_layer.py), "direct_least"
(runtime/runnable.py), "edges_call" (lower/gemm/layer_f32.py), "lines_apart" (lower/gemm/calls.py; with 0 pixels are
copied wherever they can be), "planning_work" and "native_work" (passes/deciding.py), "waking_work" (runtime/bind.py)
and "tiles_least" (lower/gemm/blocks.py, layer_amx.py, layer_int8.py; with 1 tiles are taken wherever they can be).

Freedoms are the stages of `passes/stages.py` and the rules of `rules/catalog.py` by name, and "activations" (those that
chains spell out become one step, passes/activations.py); in `plan/`: "bands" (lower/), the candidates of choose.py by
name ("winograd", "depthwise", ...) while others suit, "edges" (of convolutions apart, lower/gemm/layer_f32.py), "views"
and "in_place" (storage.py), "reuse" (of the memory of dead values, lower/build.py), "later" (of products' chains,
lower/epilogue.py), "reals_of_bytes" (layers of bytes that end in reals, layer.py), "locality" (offsets by the threads
that write there, locality.py), "narrow" (values in bfloat16, lower/narrow.py), "residual" (sums at the ends of layers
of bytes, lower/build.py), "disjoint" and "phases" (transposed convolutions without overlap, and others as convolutions,
lower/gemm/conv_transpose.py), "byte_weights" (of few rows, lower/gemm/dynamic.py), "together" (products of words of
bytes summed in 16 bits, layer.py), "amx_blocks" (codes of few bits on tiles, lower/gemm/blocks.py), "words"
(activations of 16 bits as rounded reals, passes/words.py), and "direct" (feeds and results outside of the arena,
runtime/direct.py). Without "control", a stage, NumPy runs all control flow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

from .settings import setting

_gone: ContextVar[frozenset[str]] = ContextVar("gone", default=frozenset())
_thresholds: ContextVar[Mapping[str, int]] = ContextVar("thresholds", default=MappingProxyType({}))


def free(name: str) -> bool:
    """Whether plans made now have this freedom."""
    return name not in _gone.get()


def gone() -> frozenset[str]:
    """The freedoms that plans made now don't have."""
    return _gone.get()


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Plans made inside don't have these freedoms."""
    token = _gone.set(_gone.get() | set(names))
    try:
        yield
    finally:
        _gone.reset(token)


def unusual() -> bool:
    """Whether plans made now are special: checked, without some freedoms, or with other thresholds."""
    return bool(_gone.get() or _thresholds.get() or checked())


def threshold(name: str, usual: int) -> int:
    """A threshold of plans made now: the usual one where a test set no other."""
    return _thresholds.get().get(name, usual)


@contextmanager
def thresholds(**numbers: int) -> Iterator[None]:
    """Plans made inside go by these."""
    token = _thresholds.set({**_thresholds.get(), **numbers})
    try:
        yield
    finally:
        _thresholds.reset(token)


def checked() -> str:
    """How the environment asks to be checked, by FASTGRAPH_CHECK: "" not at all, "1", "guard" by guard pages too."""
    found = setting("FASTGRAPH_CHECK", "0", "1", "guard")
    return "" if found == "0" else found
