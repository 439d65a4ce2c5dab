"""What int8 kernels must store, to the bit, and random layers for them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fastgraph.kernels.gemm.pack_int8 import Head, Words, pack_int8
from fastgraph.kernels.gemm.pick_conv import Geometry
from fastgraph.kernels.gemm.pick_dot import DotPiece
from fastgraph.kernels.isa.tiers import TOGETHER, Tier
from tests.kernels.geometries import reference
from tests.kernels.harness import f32_bits

DTYPES = {"u8": np.uint8, "s8": np.int8, "f32": np.float32, "i32": np.int32}


def stores(out: str) -> str:
    """Which of rows.STORES a kind of result is."""
    return "bytes" if out in ("u8", "s8") else "words"


def stored(out: str, zero_point: int, low: int, high: int) -> dict[str, int]:
    """The slots of rows.STORED; low and high: of the result's type, or f32 bits."""
    form = {"s8": 128, "i32": 1}.get(out, 0)
    shift = 128 if out == "s8" else 0
    return {"zero_point": zero_point + shift, "low": low + shift, "high": high + shift, "form": form}


@dataclass
class Layer:
    """weights s8 [batch, n, k], the rest [batch, n]; `minus` are the weights' zero points, negated."""

    weights: np.ndarray
    start: np.ndarray
    multipliers: np.ndarray
    minus: np.ndarray | None
    out: str
    limits: tuple[Any, Any, Any]

    @property
    def stored(self) -> dict[str, int]:
        """The slots of rows.STORED."""
        zero, low, high = self.limits
        if self.out == "f32":
            low, high = f32_bits(low), f32_bits(high)
        return stored(self.out, zero, low, high)

    def packed(self, tier: Tier, piece: DotPiece | Any, run: int, chains: int = 1, together: int = TOGETHER) -> Any:
        """The panels of a piece's columns; together: of Words, where weights are small."""
        part = slice(piece.start, piece.start + piece.columns)
        minus = None if self.minus is None else self.minus[:, part]
        head = Head(self.start[:, part], self.multipliers[:, part], minus)
        words = Words(run, chains, together=piece.params["small"] * together)
        half = piece.params.get("half", False)
        return pack_int8(tier, self.weights[:, part], head, words, piece.nv, stores(self.out), half)

    def results(self, products: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """What is stored for sums of products [batch, ..., n] and of x alone [batch, ..., 1], int64."""
        shape = (products.shape[0], *[1] * (products.ndim - 2), products.shape[-1])
        total = products + self.start.reshape(shape)
        if self.minus is not None:
            total = total + sums * self.minus.reshape(shape)
        acc = total.astype(np.int32)
        if self.out == "i32":
            return acc
        scaled = acc.astype(np.float32) * self.multipliers.reshape(shape)
        zero, low, high = self.limits
        if self.out == "f32":
            return np.clip(scaled, np.float32(low), np.float32(high))
        return np.clip(np.rint(scaled).astype(np.int64) + zero, low, high).astype(DTYPES[self.out])

    def convolved(self, x: np.ndarray, zero: int, g: Geometry) -> np.ndarray:
        """What is stored for windows of x, bytes [images, d, h, w, channels]; padding is its zero point."""
        seen, outputs = x[..., : g.groups * g.c].astype(np.int64) - zero, g.groups * g.n
        weights = self.weights.reshape(outputs, *g.kernel, g.c)

        def sums(w: np.ndarray) -> np.ndarray:
            whole = w.reshape(outputs, -1).sum(axis=1, dtype=np.int64)
            return np.rint(reference(seen, w, g)).astype(np.int64)[None] + zero * whole

        flat = [None if a is None else a.reshape(1, -1) for a in (self.start, self.multipliers, self.minus)]
        wide = replace(self, start=flat[0], multipliers=flat[1], minus=flat[2])
        return wide.results(sums(weights), sums(np.ones_like(weights)))[0]


@dataclass
class Addend:
    """u8 [images, ..., columns] that stored ones are added to, in rows longer than dense; factors and offset are exact.

    factors: of the stored numbers, and of these. limits: zero point, least and greatest, of the sum in `out`.
    """

    numbers: np.ndarray
    turned: bool
    factors: tuple[float, float]
    offset: float
    limits: tuple[int, int, int]
    out: str

    @property
    def slots(self) -> dict[str, Any]:
        """The slots of rows.SUMMED."""
        images, *rows, columns = self.numbers.shape
        long = np.full((images, *rows, columns + 3), 99, np.uint8)
        long[..., :columns] = self.numbers
        first, second = map(f32_bits, self.factors[::-1] if self.turned else self.factors)
        ends = {f"sum_{name}": number for name, number in stored(self.out, *self.limits).items()}
        ends["sum_zero"] = ends.pop("sum_zero_point")
        own = {"addend_first": int(self.turned), "first_factor": first, "second_factor": second}
        places = {"addend": long, "addend_row": columns + 3, "addend_image": long[0, ..., 0].size * (columns + 3)}
        return {**ends, **own, **places, "offset": f32_bits(self.offset)}

    def added(self, own: np.ndarray) -> np.ndarray:
        """What is stored where these were."""
        zero, low, high = self.limits
        sums = own * self.factors[0] + self.numbers.reshape(own.shape) * self.factors[1] + self.offset
        return np.clip(np.rint(sums).astype(np.int64) + zero, low, high).astype(DTYPES[self.out])


def draw_addend(seed: int, *shape: int) -> Addend:
    """Sums fill the range of their type and go beyond it; many of them are halves."""
    rng, out = np.random.default_rng(seed), ("u8", "s8")[seed % 2]
    shift = 128 * (out == "s8")
    limits = int(rng.integers(0, 256)) - shift, int(rng.integers(0, 60)) - shift, int(rng.integers(200, 256)) - shift
    factors = (float(rng.choice([0.5, 1.25, -0.75])), float(rng.choice([0.5, 0.875])))
    numbers = rng.integers(0, 256, shape).astype(np.uint8)
    return Addend(numbers, bool(seed % 3 % 2), factors, float(rng.integers(-80, 80)) / 4, limits, out)


def draw_layer(seed: int, batch: int, n: int, k: int, out: str, rowsum: bool, small: bool = False) -> Layer:
    """A layer whose results fill the range of their type and go beyond it at both ends. small: of weights that are
    small, or not, or wider than bytes.
    """
    rng = np.random.default_rng(seed)
    zero, low, high = int(rng.integers(0, 256)), int(rng.integers(0, 60)), int(rng.integers(200, 256))
    shift = 128 if out == "s8" else 0
    limits = (0, -3.5, np.inf) if out == "f32" else (zero - shift, low - shift, high - shift)
    return Layer(
        _weights(rng, small, batch, n, k),
        rng.integers(-20000, 20000, (batch, n)).astype(np.int32),
        (rng.uniform(0.002, 0.03, (batch, n)) / k**0.5).astype(np.float32),
        rng.integers(-9, 10, (batch, n)).astype(np.int32) if rowsum else None,
        out,
        limits,
    )


def _weights(rng: np.random.Generator, small: bool, *shape: int) -> np.ndarray:
    if not small:
        return rng.integers(-128, 128, shape).astype(np.int8)
    most = int(rng.choice([40, 128, 256]))
    few = rng.integers(-most, most, shape) // np.where(rng.uniform(size=shape) < 0.1, 1, 8)
    return few.astype(np.int16) if rng.integers(2) else rng.integers(-most, most, shape).astype(np.int16)


def draw_bytes(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)
