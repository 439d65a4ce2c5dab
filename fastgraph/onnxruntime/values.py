"""OrtValue and what it is made of: element types by ONNX's names and numbers, devices, arrays at an address."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..frontends.onnx.elements import NUMBERS
from ..locks import undisturbed
from .enums import OrtAllocatorType, OrtDeviceVendorId, OrtMemType

NAMES = {number: name.lower() for name, number in NUMBERS.items()}
"""onnxruntime's names of element types, by ONNX's numbers."""
DTYPES: dict[int, np.dtype] = {
    number: np.dtype(code)
    for number, code in zip(range(1, 17), "f4 u1 i1 u2 i2 i4 i8 O ? f2 f8 u4 u8 c8 c16 u2".split(), strict=True)
} | dict.fromkeys(range(17, 21), np.dtype("u1"))
"""The NumPy type of each element type, by ONNX's numbers; bfloat16 and floats of 8 bits are held as their bits."""

_KNOWN = {dtype: NAMES[number] for number, dtype in DTYPES.items() if number not in (16, 17, 18, 19, 20)}
NUMBER_OF = {name: number for number, name in NAMES.items()}
_DEVICES = {"cpu": 0, "cuda": 1, "gpu": 1, "dml": 1, "webgpu": 1, "cann": 3, "npu": 3}


def element_of(dtype: np.dtype) -> str:
    """onnxruntime's name of the elements of an array: "float", "int64", "string"."""
    if dtype.kind in "OUS":
        return "string"
    return _KNOWN.get(dtype.newbyteorder("=")) or dtype.name.replace("_", "")


class OrtDevice:
    """Where a value lies: always on the CPU."""

    def __init__(self, kind: int = 0, memory: int = 0, number: int = 0, vendor: int = 0) -> None:
        self._parts = kind, memory, number, vendor

    @staticmethod
    def make(ort_device_name: str, device_id: int = 0, vendor_id: int = -1) -> OrtDevice:
        name = ort_device_name.lower()
        if name not in _DEVICES:
            raise Exception("Unsupported device type: " + name)
        if vendor_id == -1:
            vendors = {"cuda": OrtDeviceVendorId.NVIDIA, "dml": OrtDeviceVendorId.MICROSOFT}
            vendor_id = vendors.get(name, OrtDeviceVendorId.NONE)
        return OrtDevice(_DEVICES[name], 0, device_id, int(vendor_id))

    cpu = staticmethod(lambda: 0)
    cuda = gpu = dml = webgpu = staticmethod(lambda: 1)
    cann = npu = staticmethod(lambda: 3)
    default_memory = staticmethod(lambda: 0)

    def _get_c_device(self) -> OrtDevice:
        return self

    def device_type(self) -> int:
        return self._parts[0]

    def device_mem_type(self) -> int:
        return self._parts[1]

    def device_id(self) -> int:
        return self._parts[2]

    def device_vendor_id(self) -> int:
        return self._parts[3]


class OrtMemoryInfo:
    """A description of the memory that a value lies in."""

    def __init__(self, name: str, allocator_type: Any, device_id: int, mem_type: Any) -> None:
        self.name, self.allocator_type, self.device_id, self.mem_type = name, allocator_type, device_id, mem_type
        self.device_mem_type, self.device_vendor_id = 0, 0

    @staticmethod
    def cpu() -> OrtMemoryInfo:
        return OrtMemoryInfo("Cpu", OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, OrtMemType.DEFAULT)


def on_cpu(device: str, what: str) -> None:
    """RuntimeError for a value that is to lie elsewhere."""
    if OrtDevice.make(device).device_type():
        raise RuntimeError(f"{what}: there is no memory on device {device!r}, fastgraph runs on the CPU: use 'cpu'")


def at_address(address: int, element_type: Any, shape: Sequence[int]) -> np.ndarray:
    """The array in the memory at an address, which the caller keeps."""
    dtype = dtype_of(element_type)
    bytes_ = math.prod(shape) * dtype.itemsize
    memory: Any = (ctypes.c_char * bytes_).from_address(address) if bytes_ else b""
    return readable(np.frombuffer(memory, dtype).reshape(shape), _number_of(element_type))


def dtype_of(element_type: Any) -> np.dtype:
    """The NumPy type for an element type that a caller gives: NumPy's, or ONNX's number."""
    return DTYPES[element_type] if isinstance(element_type, int) else np.dtype(element_type)


def _number_of(element_type: Any) -> int:
    return element_type if isinstance(element_type, int) else NUMBER_OF.get(element_of(np.dtype(element_type)), 0)


def readable(array: np.ndarray, number: int) -> np.ndarray:
    """The bits of elements that NumPy lacks as an array of the package ml_dtypes, where it is installed."""
    if 16 <= number <= 20 and array.dtype.kind == "u":
        try:
            with undisturbed():
                import ml_dtypes
        except ImportError:
            if number != 16:
                raise RuntimeError(f"{NAMES[number]}: not installed: pip install ml_dtypes") from None
            return (array.astype(np.uint32) << 16).view(np.float32)
        names = ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
        return array.view(getattr(ml_dtypes, names[number - 16]))
    return array


class OrtValue:
    """An array, or a list of arrays, that runs take and give. Arrays are not copied where they lie in one piece."""

    def __init__(self, value: Any, element: str = "") -> None:
        self._value = value
        self._element = element or (element_of(value.dtype) if isinstance(value, np.ndarray) else "")

    _ortvalue = property(lambda self: self)

    def _get_c_value(self) -> OrtValue:
        return self

    @classmethod
    def ortvalue_from_numpy(
        cls, numpy_obj: np.ndarray, /, device_type: Any = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        if isinstance(device_type, str):
            on_cpu(device_type, "OrtValue")
        if not isinstance(numpy_obj, np.ndarray) or numpy_obj.dtype.kind in "OUS":
            raise RuntimeError("Creation of OrtValues is currently only supported from non-string numpy arrays")
        return cls(numpy_obj if numpy_obj.ndim == 0 else np.ascontiguousarray(numpy_obj))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: np.ndarray, /, onnx_element_type: int) -> OrtValue:
        if data.dtype.itemsize != DTYPES[onnx_element_type].itemsize:
            raise RuntimeError(
                f"elements of {data.dtype.itemsize} bytes ({data.dtype}) can't be read as {NAMES[onnx_element_type]}"
            )
        array = np.ascontiguousarray(data).view(DTYPES[onnx_element_type])
        return cls(readable(array, onnx_element_type), NAMES[onnx_element_type])

    @classmethod
    def ortvalue_from_shape_and_type(
        cls, shape: Sequence[int], element_type: Any, device_type: Any = "cpu", device_id: int = 0,
        vendor_id: int = -1, memory_info: OrtMemoryInfo | None = None,
    ) -> OrtValue:  # fmt: skip
        if isinstance(device_type, str):
            on_cpu(device_type, "OrtValue")
        number = _number_of(element_type)
        return cls(readable(np.zeros(tuple(shape), dtype_of(element_type)), number), NAMES.get(number, ""))

    ortvalue_from_shape_and_onnx_type = ortvalue_from_shape_and_type

    @classmethod
    def from_dlpack(cls, data: Any, is_bool_tensor: bool = False) -> OrtValue:
        array = np.from_dlpack(data)
        return cls(array.view(np.bool_) if is_bool_tensor else array)

    def to_dlpack(self) -> Any:
        return self.numpy().__dlpack__()

    def __dlpack__(self, **options: Any) -> Any:
        return self.numpy().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.numpy().__dlpack_device__()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.numpy(), dtype, copy=copy)

    def numpy(self) -> np.ndarray:
        """The array itself. RuntimeError when it holds none."""
        if not isinstance(self._value, np.ndarray):
            raise RuntimeError("Only OrtValues that are Tensors are currently supported")
        return self._value

    def update_inplace(self, data: np.ndarray) -> None:
        """Write into the array. RuntimeError unless it has the same type and number of elements."""
        mine = self.numpy()
        if data.size != mine.size:
            raise RuntimeError("The input size of numpy arrays does not match the size of the OrtValue.")
        if data.dtype != mine.dtype:
            raise RuntimeError(f"the OrtValue holds {mine.dtype}, found {data.dtype}: feed .astype('{mine.dtype}')")
        mine[...] = data.reshape(mine.shape)

    def data_ptr(self) -> int:
        return self.numpy().ctypes.data

    def device_name(self) -> str:
        return "cpu"

    def shape(self) -> list[int]:
        return list(self.numpy().shape)

    def data_type(self) -> str:
        """As "tensor(float)", "seq(tensor(float))"."""
        if isinstance(self._value, list):
            return f"seq({OrtValue(self._value[0]).data_type()})" if self._value else f"seq(tensor({self._element}))"
        return f"tensor({self._element})"

    def element_type(self) -> int:
        return NUMBER_OF[self._element]

    def tensor_size_in_bytes(self) -> int:
        return self.numpy().nbytes

    def has_value(self) -> bool:
        return self._value is not None

    def is_tensor(self) -> bool:
        return isinstance(self._value, np.ndarray)

    def is_sparse_tensor(self) -> bool:
        return False

    def is_tensor_sequence(self) -> bool:
        return isinstance(self._value, list)


class OrtValueVector(list):
    """A list of OrtValues."""

    push_back = list.append
