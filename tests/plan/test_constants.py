"""Constants are put one after the other: whole, apart, aligned, with zeros between them and behind the last."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastgraph.plan.constants import SLACK, Constants
from tests.nets import Net, assert_close, by_onnxruntime, feeds_for

DTYPES = (np.uint8, np.int16, np.float32, np.int64)
ARRAYS = st.lists(
    st.tuples(st.lists(st.integers(0, 9), max_size=4), st.sampled_from(DTYPES), st.sampled_from("abc")), max_size=20
)


@given(ARRAYS, st.sampled_from([0, 100, 5_000, 1 << 20]))
def test_arrays_stay_as_they_were_put(wanted: list[tuple[list[int], type, str]], expected: int) -> None:
    constants, rng = Constants(expected), np.random.default_rng(0)
    before, after = [], []
    for shape, dtype, way in wanted:
        array = rng.integers(1, 100, shape).astype(dtype)
        before.append(array)
        if way == "a":
            after.append(constants.put(array))
        elif way == "b":
            after.append(constants.put(array.T).T)
        else:
            made = constants.empty(array.shape, dtype)
            made[...] = array
            after.append(constants.put(made))
            assert after[-1] is made
    filled = sum(np.count_nonzero(np.frombuffer(array.tobytes(), np.uint8)) for array in before)
    assert sum(map(np.count_nonzero, constants.blocks)) == filled
    for array, copy in zip(before, after, strict=True):
        assert copy.dtype == array.dtype and copy.ctypes.data % 64 == 0
        np.testing.assert_array_equal(copy, array)
    for block in constants.blocks:
        root = block.base
        assert isinstance(root, np.ndarray)
        end = block.ctypes.data + block.nbytes - root.ctypes.data
        assert root.nbytes >= end + SLACK and not root[end : end + SLACK].any()


def test_memory_expected_is_taken_once() -> None:
    constants = Constants(1000)
    for _ in range(10):
        constants.put(np.ones(16, np.float32))
    assert len(constants.blocks) == 1 and constants.blocks[0].nbytes == 640


@pytest.mark.parametrize("channels", [4, 64])
def test_what_is_packed_wider_than_it_was_finds_room(channels: int) -> None:
    """A 3x3 convolution's weights take up to four times their bytes as its Winograd kernel reads them."""
    net = Net()
    x = net.input("x", (1, channels, 32, 32))
    net.output(net("Conv", x, net.weight(channels, channels, 3, 3), pads=[1, 1, 1, 1]))
    model = net.load(threads=1)
    memory = model._planned().memory
    blocks = [(block.ctypes.data, block.ctypes.data + block.nbytes) for block in (memory.constants, *memory.common)]
    for array in model._planned().program.constants:
        start = array.ctypes.data
        assert any(first <= start and start + array.nbytes <= end for first, end in blocks)
    feeds = feeds_for(model)
    assert_close(list(model.run(feeds).values()), by_onnxruntime(net.bytes(), feeds))
