"""Steps of optimizers, ai.onnx.preview.training, written as what they are composed of. Semantics: their definitions in
the onnx package.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import Value
from .call import Call
from .contrib import Attrs, contrib
from .linear import CAST


@contrib("ai.onnx.preview.training.Adagrad: R T inputs* -> outputs* | decay_factor=0.0 epsilon=1e-06 "
         "norm_coefficient=0.0")  # fmt: skip
def adagrad(call: Call, attrs: Attrs) -> list[Value]:
    made = []
    for x, g, h in _groups(call, 3):
        f = _Arithmetic(call, x)
        rate = f.div(call.x(0), f.add(1.0, f.mul(f.like(call.x(1)), attrs["decay_factor"])))
        g = f.add(f.mul(attrs["norm_coefficient"], x), g)
        h = f.add(h, f.mul(g, g))
        step = f.div(f.mul(rate, g), f.add(f.sqrt(h), attrs["epsilon"]))
        made.append((f.sub(x, step), h))
    return _ordered(made)


@contrib("ai.onnx.preview.training.Adam: R T inputs* -> outputs* | alpha=0.9 beta=0.999 epsilon=1e-06 "
         "norm_coefficient=0.0 norm_coefficient_post=0.0")  # fmt: skip
def adam(call: Call, attrs: Attrs) -> list[Value]:
    alpha, beta = attrs["alpha"], attrs["beta"]
    made = []
    for x, g, v, h in _groups(call, 4):
        f = _Arithmetic(call, x)
        t = f.like(call.x(1))
        g = f.add(f.mul(attrs["norm_coefficient"], x), g)
        v = f.add(f.mul(alpha, v), f.mul(f.sub(1.0, alpha), g))
        h = f.add(f.mul(beta, h), f.mul(f.sub(1.0, beta), f.mul(g, g)))
        late = f.mul(call.x(0), f.div(f.sqrt(f.sub(1.0, f.pow(beta, t))), f.sub(1.0, f.pow(alpha, t))))
        rate = f.where(f.positive(t), late, call.x(0))
        x = f.sub(x, f.div(f.mul(rate, v), f.add(f.sqrt(h), attrs["epsilon"])))
        made.append((f.mul(f.sub(1.0, attrs["norm_coefficient_post"]), x), v, h))
    return _ordered(made)


@contrib("ai.onnx.preview.training.Momentum: R T inputs* -> outputs* | alpha:float! beta:float! mode:str! "
         "norm_coefficient:float!")  # fmt: skip
def momentum(call: Call, attrs: Attrs) -> list[Value]:
    if attrs["mode"] not in ("standard", "nesterov"):
        call.fail(f"expected mode as 'standard' or 'nesterov', found {attrs['mode']!r}")
    made = []
    for x, g, v in _groups(call, 3):
        f = _Arithmetic(call, x)
        g = f.add(f.mul(attrs["norm_coefficient"], x), g)
        beta = f.where(f.positive(f.like(call.x(1))), attrs["beta"], 1.0)
        v = f.add(f.mul(attrs["alpha"], v), f.mul(beta, g))
        step = v if attrs["mode"] == "standard" else f.add(g, f.mul(attrs["alpha"], v))
        made.append((f.sub(x, f.mul(call.x(0), step)), v))
    return _ordered(made)


class _Arithmetic:
    """Writes arithmetic in the element type of `x`; floats stand for constants."""

    def __init__(self, call: Call, x: Value) -> None:
        self.call, self.x = call, x

    def like(self, value: Value | float) -> Value:
        """A value in the element type."""
        given = value if isinstance(value, Value) else self.call.const(value, dtype="f4")
        return self.call.add("cast_like", [given, self.x], **CAST)

    def _of(self, op: str, *operands: Value | float) -> Value:
        return self.call.add(op, [v if isinstance(v, Value) else self.like(v) for v in operands])

    def add(self, a: Value | float, b: Value | float) -> Value:
        return self._of("add", a, b)

    def sub(self, a: Value | float, b: Value | float) -> Value:
        return self._of("sub", a, b)

    def mul(self, a: Value | float, b: Value | float) -> Value:
        return self._of("mul", a, b)

    def div(self, a: Value | float, b: Value | float) -> Value:
        return self._of("div", a, b)

    def pow(self, a: Value | float, b: Value | float) -> Value:
        return self._of("pow", a, b)

    def sqrt(self, a: Value) -> Value:
        return self._of("sqrt", a)

    def positive(self, a: Value) -> Value:
        return self._of("greater", a, 0.0)

    def where(self, condition: Value, a: Value | float, b: Value | float) -> Value:
        return self._of("where", condition, a, b)


def _groups(call: Call, parts: int) -> list[list[Value]]:
    """For each tensor that is optimized, itself and what belongs to it."""
    count, odd = divmod(len(call.inputs) - 2, parts)
    if odd or len(call.outputs) > count * (parts - 1):
        call.fail(f"expected R, T and {parts} inputs for each tensor, and {parts - 1} outputs, "
                  f"found {len(call.inputs)} and {len(call.outputs)}")  # fmt: skip
    return [[call.x(2 + part * count + i) for part in range(parts)] for i in range(count)]


def _ordered(made: Sequence[Sequence[Value]]) -> list[Value]:
    """The results' first parts, then the second ones."""
    return [value for part in zip(*made, strict=True) for value in part]
