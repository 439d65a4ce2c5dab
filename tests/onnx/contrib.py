"""What tests of onnxruntime's own operators share: operands, a net run by it and here, the steps that NumPy took."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import fastgraph as fg
from fastgraph.plan.program import HostStep
from tests.nets import Net, by_onnxruntime

MS = "com.microsoft"
U8, S8, F32 = np.dtype(np.uint8), np.dtype(np.int8), np.dtype(np.float32)


def numbers(rng: np.random.Generator, shape: Sequence[int], dtype: Any) -> np.ndarray:
    """All numbers of an integer type, or floats around 0."""
    if np.dtype(dtype).kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


Operand = Callable[[Net, dict[str, Any]], str]
"""Writes an operand of a net, and what it is fed with; its name."""


def fed(*shape: int, dtype: Any = F32, most: int = 0, opened: int = -1) -> Operand:
    """An input of random numbers; `most`: of whole numbers from 0 on and below. `opened`: an axis of unknown extent."""

    def write(net: Net, feeds: dict[str, Any]) -> str:
        drawn = net.rng.integers(0, most, shape).astype(dtype) if most else numbers(net.rng, shape, dtype)
        return given(drawn, opened)(net, feeds)

    return write


def given(array: Any, opened: int = -1) -> Operand:
    """An input with these numbers."""
    array = np.asarray(array)

    def write(net: Net, feeds: dict[str, Any]) -> str:
        name = f"x{len(feeds)}"
        feeds[name] = array
        shape = [f"{name}_{i}" if i == opened else extent for i, extent in enumerate(array.shape)]
        return net.input(name, shape, array.dtype)

    return write


def const(*shape: int, dtype: Any = F32) -> Operand:
    """A constant of random numbers, of which products with real ones keep the magnitude."""
    return lambda net, _: net.weight(*shape) if dtype == F32 else net.const(numbers(net.rng, shape, dtype))


def known(data: Any, dtype: Any = None) -> Operand:
    """A constant of these numbers."""
    return lambda net, _: net.const(data, dtype)


def absent(net: Net, feeds: dict[str, Any]) -> str:
    return ""


def net_of(
    op: str, operands: Sequence[Operand], outputs: str = "y", domain: str = MS, **attrs: Any
) -> tuple[Net, dict[str, Any]]:
    """A net of one operator, and its feeds. `outputs`: a letter for each, or _ where it is not asked for."""
    net, feeds = Net(21), dict[str, Any]()
    net(op, *(operand(net, feeds) for operand in operands), domain=domain, **attrs)
    net.nodes[-1].output[:] = [name.strip("_") for name in outputs]
    net.outputs += map(onnx.helper.make_empty_tensor_value_info, outputs.replace("_", ""))
    return net, feeds


def hosts(model: fg.Model) -> list[str]:
    """The operators that NumPy computes in a plan."""
    return [step.node.op for step in model.plan.program.steps if isinstance(step, HostStep)]


def agree(net: Net, feeds: Mapping[str, Any], quanta: int = 1, rtol: float = 1e-5, numpy: Any = ()) -> None:
    """The net gives what onnxruntime gives, and NumPy computes these operators of it (None: any).

    Integers of 8 bits may be `quanta` off, where one in fifty is: reals are rounded once here, and in f32 there.
    """
    expected = by_onnxruntime(net.bytes(), feeds)
    model = net.load()
    for want, have in zip(expected, model.run(dict(feeds)).values(), strict=True):
        compare(have, want, quanta, rtol)
    assert numpy is None or sorted(set(hosts(model))) == sorted(numpy)


def compare(have: np.ndarray, want: np.ndarray, quanta: int, rtol: float) -> None:
    assert (have.dtype, have.shape) == (want.dtype, want.shape)
    if want.dtype.kind == "f":
        np.testing.assert_allclose(have, want, rtol=0, atol=rtol * max(1, float(np.abs(want).max(initial=0))))
    elif want.dtype in (U8, S8):
        off = np.abs(have.astype(int) - want.astype(int))
        assert off.max(initial=0) <= quanta and (off > 0).sum() <= max(1, off.size // 50), off.max(initial=0)
    else:
        np.testing.assert_array_equal(have, want)


def statically_quantized(
    net: Net, shape: Sequence[int], folder: Path, activations: str, form: str = "QDQ", **options: Any
) -> bytes:
    """What onnxruntime's quantizer makes of a net, of four random inputs."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Samples(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = iter([{"x": numbers(np.random.default_rng(i), shape, F32)} for i in range(4)])

        def get_next(self) -> Any:
            return next(self.left, None)

    source, target = folder / "f32.onnx", folder / "q.onnx"
    source.write_bytes(net.bytes())
    kinds = {"activation_type": QuantType[activations], "weight_type": QuantType.QInt8}
    quantize_static(source, target, Samples(), quant_format=QuantFormat[form], **kinds, **options)
    return target.read_bytes()


def dynamically_quantized(net: Net, folder: Path, **options: Any) -> bytes:
    """What onnxruntime's quantizer makes of a net whose activations are rounded in the run."""
    from onnxruntime.quantization import quantize_dynamic

    source, target = folder / "f32.onnx", folder / "q.onnx"
    source.write_bytes(net.bytes())
    quantize_dynamic(source, target, **options)
    return target.read_bytes()
