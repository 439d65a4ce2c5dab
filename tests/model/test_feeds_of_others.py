"""Feeds that are no NumPy arrays, pixels that are fed as they are, and results in other libraries."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from tests.circle.write import Model

F32 = np.float32


def negative(shape: tuple[int, ...], dtype: Any = F32, quant: Any = None) -> fg.Model:
    m = Model()
    x = m.input(shape, dtype, quant, name="x")
    return fg.load(m.bytes(m.op("RELU", [x], [(shape, dtype, quant)])))


class Exporting:
    """An array that speaks DLPack only."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


class Arrayed:
    """What NumPy reads by `__array__`, as tensors of other libraries."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self._array


@pytest.mark.parametrize("kind", [Exporting, Arrayed])
def test_tensors_of_other_libraries_are_fed(kind: Any) -> None:
    model, x = negative((2, 3)), np.linspace(-1, 1, 6, dtype=F32).reshape(2, 3)
    np.testing.assert_array_equal(model.run({"x": kind(x)})["t0_1"], np.maximum(x, 0))
    np.testing.assert_array_equal(model(kind(x.astype(np.float16))), np.maximum(x.astype(np.float16), 0))


def test_results_and_views_are_taken_by_dlpack() -> None:
    model = negative((2, 3))
    result = np.from_dlpack(model(np.ones((2, 3), F32)))
    assert result.tolist() == [[1] * 3] * 2
    view = np.from_dlpack(model.input("x"))
    model.input("x")[...] = 5
    assert view.tolist() == [[5] * 3] * 2
    model.execute()
    assert np.from_dlpack(model.output("t0_1")).tolist() == view.tolist()


def test_torch_takes_them() -> None:
    torch = pytest.importorskip("torch")
    model = negative((2, 3))
    fed = torch.ones(2, 3)
    assert torch.equal(torch.from_dlpack(model(fed)), fed)
    model.input("x")[...] = 2
    model.execute()
    assert torch.equal(torch.from_dlpack(model.output("t0_1")), 2 * fed)
    with pytest.raises(fg.InputError, match="requires grad"):
        model(torch.ones(2, 3, requires_grad=True))


class Tensor:
    """What NumPy can't read, as torch's tensors of bfloat16, or with gradients."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise TypeError("Got unsupported ScalarType BFloat16")

    def detach(self) -> Tensor:
        return self


def test_a_tensor_that_numpy_cannot_read_is_refused_with_its_conversion() -> None:
    with pytest.raises(fg.InputError, match=r"BFloat16\): feed x.detach\(\).cpu\(\).float\(\).numpy\(\)"):
        negative((2, 3))(Tensor())


def test_pixels_for_floats_are_fed_with_a_word_to_the_caller() -> None:
    """Once for each input; other integers, and arrays that are no images, are taken in silence."""
    model, x = negative((1, 4, 4, 3)), np.full((1, 4, 4, 3), 200, np.uint8)
    with pytest.warns(RuntimeWarning, match=r"floats from 0 to 255: scale .* feed x.astype\(np.float32\)") as caught:
        assert model(x).max() == 200
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model(x).max() == 200
        negative((1, 4, 4, 3))(x.astype(np.int32))
        negative((4, 3))(x[0, 0])


def test_floats_for_a_quantized_input_are_refused_with_the_conversion() -> None:
    model = negative((1, 4, 4, 3), np.int8, (0.5, 3))
    with pytest.raises(
        fg.InputError, match=r"feed what real numbers x are stored as: np.clip\(np.rint\(x / 0.5\) \+ 3"
    ):
        model.run({"x": np.ones((1, 4, 4, 3), F32)})
    with pytest.raises(TypeError, match="safe"):
        np.copyto(model.input("x"), np.ones((1, 4, 4, 3), F32), casting="safe")


ONES = np.ones((2, 3), F32)


@pytest.mark.parametrize(
    ("fed", "said"),
    [
        (ONES.astype(object), r"its elements are Python's \(float\): feed x.astype\(np.float32\)"),
        (np.full((2, 3), None), r"its elements are Python's \(NoneType\): feed numbers"),
        ([[None, 1.0, 2], [3, 4, 5]], r"\(NoneType, float, int\): feed numbers that np.float32 holds"),
        (np.array([[1, 2], [3]], object), r"its elements are arrays: .* np.stack\(x\)"),
        (np.full((2, 3), "1"), r"<U1 \(ndarray\), .*: feed x.astype\(np.float32\)"),
        (np.zeros((2, 3), [("a", F32)]), r"feed one of its fields, as x\['a'\]"),
        (ONES.tobytes(), r"of bytes x, feed np.frombuffer\(x, np.float32\)"),
        (None, r"object \(NoneType\), .*: feed such an array"),
    ],
)
def test_what_holds_no_numbers_is_refused_with_the_next_step(fed: Any, said: str) -> None:
    with pytest.raises(fg.InputError, match=f"^input 'x' has dtype .*{said}"):
        negative((2, 3)).run({"x": fed})


@pytest.mark.parametrize("dtype", [F32, np.float64])
def test_masked_elements_are_no_numbers(dtype: Any) -> None:
    """An array without any is fed as others."""
    model, x = negative((2, 3)), np.ma.masked_array(ONES.astype(dtype), mask=False)
    np.testing.assert_array_equal(model(x), ONES)
    x[0, 1] = np.ma.masked
    with pytest.raises(fg.InputError, match=r"'x': 1 of its elements are masked: .* x.filled\(0\)"):
        model(x)
    np.testing.assert_array_equal(model(x.filled(0)), np.where([[1, 0, 1], [1, 1, 1]], ONES, 0))
