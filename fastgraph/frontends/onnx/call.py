"""One node on its way into the graph: what it says, and the means to write canonical nodes in its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir import Graph, Node, Quantization, TensorType, Value
from ...ops.evaluate import MISFIT, op_of
from ...ops.registry import REQUIRED
from ..core import call
from .elements import ELEMENTS
from .reader import Reader
from .signatures import Signature

_KINDS: dict[str, type] = {
    "int": int, "float": float, "str": str, "dtype": int, "tensor": np.ndarray, "graph": Graph, "type": TensorType,
}  # fmt: skip


def _is(value: Any, kind: str) -> bool:
    """Whether an attribute's value is what signatures call that kind; `ints` are a tuple of `int`."""
    if kind[-1] == "s":
        return isinstance(value, tuple) and all(_is(item, kind[:-1]) for item in value)
    return isinstance(value, _KINDS[kind])


class Call(call.Call):
    """A node being translated. Rules change `inputs`, `attrs` and `outputs` (names), and add nodes.

    `formats`: of attributes that name an element type, or hold a tensor of one, that numpy lacks. `made`: values that
    the nodes give.
    """

    def __init__(
        self, op: str, version: int, inputs: list[Value | None], outputs: list[str], where: str, reader: Reader,
        nodes: list[Node], name: str,
    ) -> None:  # fmt: skip
        super().__init__(op, name, where, nodes, self._numbered)
        self.version, self.inputs, self.outputs, self.reader = version, inputs, outputs, reader
        self.attrs: dict[str, Any] = {}
        self.formats: dict[str, str] = {}
        self.made: list[Value] = []

    def _numbered(self, name: str) -> str:
        """A name after the first output's."""
        return f"{next(filter(None, self.outputs), name)}:{len(self.made)}"

    def input(self, index: int) -> Value | None:
        return self.inputs[index] if index < len(self.inputs) else None

    def x(self, index: int = 0) -> Value:
        """Input `index`, which the signature requires."""
        value = self.input(index)
        if value is None:
            self.fail(f"input {index} is missing; the file was not written correctly")
        return value

    def set_input(self, index: int, value: Value | None) -> None:
        self.inputs += [None] * (index + 1 - len(self.inputs))
        self.inputs[index] = value

    def const(self, array: Any, quant: Quantization | None = None, dtype: Any = None) -> Value:
        """A new constant: arrays as they are, other numbers int64, unless told."""
        if dtype is None and not isinstance(array, np.ndarray):
            dtype = np.int64
        value = super().const(np.asarray(array, dtype), quant)
        self.reader.ranks[value] = value.data.ndim  # type: ignore[union-attr]
        return value

    def number(self, number: Any, like: Value | None = None) -> Value:
        """A constant: whole numbers and lists of them are int64; others have the element type of the value beside them,
        which may not be known yet.
        """
        if isinstance(number, float) and like is not None and like.type.dtype is None:
            return self("cast_like", np.array(number, np.float32), like)
        whole = isinstance(number, int | list | tuple | range)
        return self.const(np.array(number, np.int64)) if whole else super().number(number, like)

    def fresh(self, type: TensorType | None = None) -> Value:
        value = super().fresh(type)
        self.made.append(value)
        return value

    def result(self, op: str, type: TensorType) -> Value:
        return self.fresh(type)

    def infer(self, node: Node) -> None:
        """The outputs' ranks, where they follow from the inputs': files rely on no more, types are the passes' work."""
        if node.graphs:
            return
        ranks = self.reader.ranks
        types = [v and TensorType(None, (None,) * ranks[v] if v in ranks else None) for v in node.inputs]
        try:
            results = op_of(node).infer(node, types)
        except MISFIT:  # whoever infers the types says so, with all that is known then
            return
        for value, result in zip(node.outputs, results, strict=True):
            if result.shape is not None:
                self.reader.ranks[value] = len(result.shape)

    def known_rank(self, value: Value | None) -> int | None:
        """The number of dimensions, when it is certain."""
        return None if value is None else self.reader.ranks.get(value)

    def format_of(self, value: Value | None) -> str:
        """The name of a value's element type where NumPy lacks it, else ""."""
        return self.reader.formats.get(value, "") if value is not None else ""

    def in_format(self, value: Value, name: str) -> Value:
        """The value, noted as one of that element type."""
        if name:
            self.reader.formats[value] = name
        return value

    # shapes, which are not known yet: vectors of int64

    def extents(self, x: Value, start: int = 0, end: int | None = None) -> Value:
        """The extents of axes start, start + 1, ... below `end`."""
        return self("shape", x, start=start, end=end)

    def extent(self, x: Value, axis: int) -> Value:
        """The extent of an axis, as a vector of one."""
        return self.extents(x, axis, axis + 1)

    def rank_of(self, x: Value) -> Value:
        """The number of axes, as a vector of one."""
        rank = self.known_rank(x)
        return self.extents(self.extents(x)) if rank is None else self.vector(rank)

    def reshape(self, x: Value, *parts: int | Value, allowzero: int = 0) -> Value:
        """x with other extents: numbers, of which 0 keeps an extent and -1 takes what is left, and vectors of them."""
        computed = any(isinstance(part, Value) for part in parts)
        vectors = [part if isinstance(part, Value) else [part] for part in parts]
        return self("reshape", x, self("concat", *vectors, axis=0) if computed else parts, allowzero=allowzero)

    def places(self, count: Value) -> Value:
        """0, 1, ... below a count, which is a vector of one."""
        return self("range", 0, self("squeeze", count, [0]), 1)

    def complete(self, known: Signature) -> dict[str, Any]:
        """Check inputs, outputs and attributes by the newest signature; the attributes with all defaults.

        Raises ModelError naming what is missing, too much or of the wrong type.
        """
        while self.inputs and self.inputs[-1] is None:
            self.inputs.pop()
        while self.outputs and not self.outputs[-1] and known.arity("outputs")[1] < float("inf"):
            self.outputs.pop()
        for kind, found in (("inputs", self.inputs), ("outputs", self.outputs)):
            least, most = known.arity(kind)
            if not least <= len(found) <= most:
                self.fail(f"expected {kind} ({' '.join(getattr(known, kind))}), found {len(found)} of them")
        for value, name in zip(self.inputs, known.inputs, strict=False):
            if value is None and name[-1] not in "?*":
                self.fail(f"its input {name!r} is required and absent; the file was not written correctly")
        extra = sorted(self.attrs.keys() - known.attrs.keys())
        if extra:
            self.fail(f"expected attributes {sorted(known.attrs)}, found {extra[0]!r} (operator set {self.version})")
        return {name: self._attr(name, *spec) for name, spec in known.attrs.items()}

    def _attr(self, name: str, kind: str, default: Any) -> Any:
        value = self.attrs.get(name, default)
        if value is REQUIRED:
            self.fail(f"its attribute {name!r} ({kind}) is required and absent")
        if value is None and default is None:
            return None
        if not _is(value, kind):
            self.fail(f"expected its attribute {name!r} as {kind}, found {str(value)[:80]}")
        return self._dtype(name, value, default) if kind == "dtype" else value

    def _dtype(self, name: str, code: int, default: Any) -> np.dtype | None:
        if code == 0 and default == 0:
            return None
        if code not in ELEMENTS:
            self.fail(f"expected its attribute {name!r} to be an element type (1 to {max(ELEMENTS)}), found {code}")
        self.formats[name] = ELEMENTS[code].format
        return ELEMENTS[code].dtype


Rule = Callable[..., Value | Sequence[Value]]
"""Writes a node's canonical nodes: (call, *inputs, **attributes), as its signature has them, to its results."""

_RENAMED = {"transA": "trans_a", "transB": "trans_b"}


def as_is(op: str, **fixed: Any) -> Callable[..., list[Value]]:
    """The rule for operators that have a canonical one with the same inputs and attributes, and these."""

    def rule(c: Call, *_: Value | None, **attrs: Any) -> list[Value]:
        named = {_RENAMED.get(name, name): value for name, value in attrs.items()}
        return c.several(op, len(c.outputs), *c.inputs, **named, **fixed)

    return rule
