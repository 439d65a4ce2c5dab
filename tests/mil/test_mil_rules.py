"""Rules of main operators where coremltools' programs don't lead: open extents, what it can't write, bad parameters."""

from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.errors import ModelError, UnsupportedError
from fastgraph.frontends import read
from tests.mil.mil_models import by_references
from tests.mil.mil_write import Program
from tests.tables import entries

RNG = np.random.default_rng(6)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def model(kind: str, given: dict[str, Any], made: Any, opset: str = "CoreML7", **params: Any) -> bytes:
    """A program of one operator, whose inputs `given` have open extents where None stands; text is constant."""
    p = Program(opset)
    for name, shape in given.items():
        p.input(name, shape, default=[n or 4 for n in shape])
        ranges = p.description.input[-1].type.multiArrayType.shapeRange.sizeRanges if None in shape else None
        for n in shape if ranges is not None else ():
            ranges.add(lowerBound=n or 1, upperBound=n or -1)
    bound = {key: p.const(v) if isinstance(v, str) and v not in given else v for key, v in params.items()}
    p.output(p.op(kind, "y", ("FLOAT32", made), **bound))
    return p.zip()


def run(data: bytes, **arrays: np.ndarray) -> np.ndarray:
    """What references and kernels give, which must be alike."""
    found = by_references(read(data), arrays)["y"]
    np.testing.assert_allclose(fg.load(data, threads=1).run(arrays)["y"], found, rtol=1e-5, atol=1e-6)
    return found


def test_conv_quantized() -> None:
    x, w = normal(1, 2, 5, 5), RNG.integers(0, 255, (3, 2, 3, 3)).astype(np.uint8)
    scale, shift = np.float32([0.1, 0.2, 0.3]), np.float32([-1, -2, -3])
    told = {"quantization_type": "linear", "quant_scale": scale, "quant_bias": shift, "pad_type": "valid"}
    data = model("conv_quantized", {"x": x.shape}, (1, 3, 3, 3), x="x", weight=w, **told)
    reals = (w * scale[:, None, None, None] + shift[:, None, None, None]).astype(np.float32)
    plain = model("conv", {"x": x.shape}, (1, 3, 3, 3), x="x", weight=reals, pad_type="valid")
    np.testing.assert_allclose(run(data, x=x), run(plain, x=x), rtol=1e-5)


def test_conv_transpose_with_computed_weights() -> None:
    x, w = normal(1, 4, 3, 3), normal(4, 2, 2, 2)
    params: dict[str, Any] = {"x": "x", "pad_type": "valid", "groups": 2, "strides": np.int32([2, 2])}
    computed = model("conv_transpose", {"x": x.shape, "w": w.shape}, (1, 4, 6, 6), weight="w", **params)
    constant = model("conv_transpose", {"x": x.shape}, (1, 4, 6, 6), weight=w, **params)
    np.testing.assert_allclose(run(computed, x=x, w=w), run(constant, x=x), rtol=1e-5)


NORM = np.float32(0.1)
OPEN = """
reshape | (None, 3, 4) | (None, 12) | dict(shape=i([-1, 12])) | x.reshape(-1, 12)
reshape | (None, 3, 4) | (None, 3, 2, 2) | dict(shape=i([-1, 3, 2, 2])) | x.reshape(-1, 3, 2, 2)
reshape | (3, None) | (1, 3, None) | dict(shape=i([1, -1, 0])) | x[None]
layer_norm | (None, None, 4) | | dict(axes=i([-1]), epsilon=NORM) |
  (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + NORM)
squeeze | (None, 1, 4) | (None, 4) | dict(axes=i([1])) | x[:, 0]
flatten2d | (None, 3, 4) | (None, 12) | dict(axis=i(1)) | x.reshape(-1, 12)
reverse | (None, 3) | | dict(axes=i([0])) | x[::-1]
slice_by_index | (None, 3) | (None, 2) | dict(begin=i([0, 1]), end=i([-1, 3])) | x[:-1, 1:3]
slice_by_index | (None, 3) | (None,) |
  dict(begin=i([0, 2]), end=i([-1, 3]), begin_mask=np.array([False, True]), squeeze_mask=np.array([False, True])) |
  x[:-1, 0]
slice_by_size | (None, 3) | (None, 2) | dict(begin=i([1, 1]), size=i([-1, 2])) | x[1:, 1:]
pad | (None, 3) | (None, 6) | dict(pad=i([1, 2])) | np.pad(x, ((0, 0), (1, 2)))
tile | (None, 3) | (None, 6) | dict(reps=i([2, 2])) | np.tile(x, (2, 2))
reduce_mean | (None, None, 4) | (4,) | dict(axes=i([0, 1])) | x.mean((0, 1))
l2_norm | (None, 2, 3, 4) | | dict(epsilon=NORM) | x / np.sqrt((x * x).sum((1, 2, 3), keepdims=True) + NORM)
"""
NAMES = globals() | {"i": np.int32, "f": np.float32}


@pytest.mark.parametrize("kind, shape, made, params, wanted", entries(OPEN))
def test_open_extents(kind: str, shape: Any, made: str, params: str, wanted: str) -> None:
    shape = eval(shape)
    data = model(kind, {"x": shape}, eval(made or "shape"), x="x", **eval(params, NAMES))
    for n in (2, 5):
        x = normal(*(n if d is None else d for d in shape))
        np.testing.assert_allclose(run(data, x=x), eval(wanted, NAMES | {"x": x}), rtol=1e-5, atol=1e-6)


def test_interleaving_open_extents() -> None:
    given = {"x": (None, 3), "z": (None, 3)}
    data = model("concat", given, (None, 3), values=["x", "z"], axis=np.int32(0), interleave=True)
    for n in (1, 4):
        x, z = normal(n, 3), normal(n, 3)
        np.testing.assert_array_equal(run(data, x=x, z=z), np.stack((x, z), 1).reshape(-1, 3))


def test_a_slice_that_takes_more_than_is_fed() -> None:
    """Its shape is that of what there is, so fill_like is, too."""
    p = Program("CoreML8")
    x = p.input("x", (None, 3), default=[4, 3])
    for n in (None, 3):
        p.description.input[-1].type.multiArrayType.shapeRange.sizeRanges.add(lowerBound=n or 1, upperBound=n or -1)
    made = ("FLOAT32", (None, 3))
    cut = p.op("slice_by_index", "cut", made, x=x, begin=np.int32([0, 0]), end=np.int32([2, 3]))
    p.output(p.op("fill_like", "y", made, ref_tensor=cut, value=np.float32(1)))
    data = p.zip()
    for n in (3, 1, 2):
        np.testing.assert_array_equal(run(data, x=normal(n, 3)), np.ones((min(n, 2), 3), np.float32))


def test_a_reshape_that_counts_from_the_end_and_is_open() -> None:
    data = model("reshape", {"x": (None, None)}, (1, None, None), x="x", shape=np.int32([1, 0, 0]))
    x = normal(3, 5)
    np.testing.assert_array_equal(run(data, x=x), x[None])


def test_squeezed_axes_of_other_extents_stay() -> None:
    data = model("squeeze", {"x": (1, 3, 1)}, (3, 1), x="x", axes=np.int32([0, 1]))
    assert run(data, x=normal(1, 3, 1)).shape == (3, 1)


def test_slices_within_what_is_fed_are_updated() -> None:
    p = Program("CoreML8")
    x, u = p.input("x", (4, 3)), p.input("u", (1, 3))
    b, e = p.input("b", (2,), "INT32"), p.input("e", (2,), "INT32")
    p.output(p.op("slice_update", "y", x=x, update=u, begin=b, end=e))
    given, row = normal(4, 3), normal(1, 3)
    found = run(p.zip(), x=given, u=row, b=np.int32([2, 0]), e=np.int32([3, 3]))
    np.testing.assert_array_equal(found, np.concatenate((given[:2], row, given[3:])))


BAD = """
conv | dict(weight=normal(3, 2, 3, 3), pad_type="sane") | expected its parameter 'pad_type' as 'valid' or
conv | dict(weight=normal(3, 2, 3, 3), strides=i([1, 0])) | 'strides' as 2 numbers from 1 on
conv | dict(weight=normal(3, 2, 3)) | expected weights of rank 4
conv | dict(weight=normal(3, 5, 3, 3)) | needs 5 channels, found 2
conv_transpose | dict(weight=normal(2, 3, 2, 2), groups=0) | 'groups' to be a number from 1 on
max_pool | dict(kernel_sizes=i([9, 9]), pad_type="valid") | exceeds the padded input
reduce_sum | dict(axes=i([0, 4])) | expected an axis of a tensor of rank 4, found axis 4
reduce_sum | dict(axes=i([1, -3])) | expected distinct axes
reshape | dict(shape=i([7, 7])) | cannot reshape
split | dict(axis=i(1), num_splits=i(3)) | expected 3 outputs
cast | dict(dtype="int3") | expected its parameter 'dtype' as one of
pad | dict(pad=i([1, 2, 3])) | up to 4 pairs, found 3 numbers
slice_by_index | dict(begin=i([0]), end=i([1])) | 'begin' as 4 numbers
transpose | dict(perm=i([0, 1, 1, 2])) | expected distinct axes
batch_norm | dict(mean=normal(3), variance=normal(3)) | must have shape
softmax | dict(axis=i(4)) | axis 4 does not exist
space_to_batch | dict(block_shape=i([2]), paddings=i([[0, 0]])) | 2 and 2 x 2 numbers
"""


@pytest.mark.parametrize("kind, params, match", entries(BAD))
def test_bad_parameters_are_named(kind: str, params: str, match: str) -> None:
    with pytest.raises(ModelError, match=match):
        read(model(kind, {"x": (1, 2, 6, 6)}, None, x="x", **eval(params, NAMES)))


def test_tables_of_conv_quantized_are_unsupported() -> None:
    w = np.zeros((3, 2, 3, 3), np.uint8)
    told = {"quantization_type": "lut", "quant_scale": normal(1), "quant_bias": normal(1)}
    data = model("conv_quantized", {"x": (1, 2, 6, 6)}, (1, 3, 4, 4), x="x", weight=w, **told)
    with pytest.raises(UnsupportedError, match="conv_quantized with a look-up table"):
        read(data)


@pytest.mark.parametrize(
    "kind, params, mean, deviation",
    [
        ("random_uniform", {"low": np.float32(-1), "high": np.float32(3)}, 1, 4 / 12**0.5),
        ("random_normal", {"mean": np.float32(2), "stddev": np.float32(0.5)}, 2, 0.5),
        ("random_bernoulli", {"prob": np.float32(0.25)}, 0.25, (0.25 * 0.75) ** 0.5),
    ],
)
def test_random_numbers(kind: str, params: dict[str, Any], mean: float, deviation: float) -> None:
    def drawn(seed: int) -> np.ndarray:
        data = model(kind, {}, (50, 200), shape=np.int32([50, 200]), seed=np.int32(seed), **params)
        return fg.load(data, threads=1).run({})["y"]

    first = drawn(7)
    assert first.shape == (50, 200)
    np.testing.assert_allclose((first.mean(), first.std()), (mean, deviation), atol=0.06)
    np.testing.assert_array_equal(drawn(7), first)
    assert (drawn(8) != first).any() and (drawn(-1) != drawn(-1)).any()


@pytest.mark.parametrize("mode", ["logits", "probs"])
def test_random_classes(mode: str) -> None:
    shares = np.float32([[0.5, 0.25, 0.25], [0, 0, 1]])
    data = model(
        "random_categorical", {"x": (2, 3)}, (2, 1000), x="x", mode=mode, size=np.int32(1000), seed=np.int32(1)
    )
    with np.errstate(divide="ignore"):
        found = fg.load(data, threads=1).run({"x": np.log(shares) if mode == "logits" else shares})["y"]
    counts = [[np.count_nonzero(row == c) / 1000 for c in range(3)] for row in found]
    np.testing.assert_allclose(counts, shares, atol=0.06)
