"""Powers that are products give what onnxruntime gives, at infinities, zeros and NaN, too."""

from typing import Any

import numpy as np
import onnxruntime
import pytest

import fastgraph as fg
from fastgraph.passes.decompositions.rare_functions import POWERS
from tests.nets import Net

X = np.array([-np.inf, -0.0, 0.0, np.inf, np.nan, -2, 3.3, 1e-30, 1e30, -1e25, -1e-25, -1e9, 1e-9, 1], np.float32)


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)], ids=str)
@pytest.mark.parametrize("isa", [None, "numpy"])
@pytest.mark.parametrize("exponent", [*POWERS, 2, 1, -1])
def test_small_whole_exponents(exponent: int, isa: str | None, shape: Any, dtype: Any) -> None:
    net = Net()
    net.output(net("Pow", net.input("x", X.shape), net.const(np.full(shape, exponent), dtype)))
    (want,) = onnxruntime.InferenceSession(net.bytes()).run(None, {"x": X})
    (got,) = fg.load(net.bytes(), isa=isa).run({"x": X}).values()
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-6)
    known = ~np.isnan(want)
    assert (np.signbit(got) == np.signbit(want))[known].all()
