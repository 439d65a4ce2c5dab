"""onnxruntime's enumerations, with its numbers."""

from __future__ import annotations

from enum import IntEnum


class _Enum(IntEnum):
    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


class GraphOptimizationLevel(_Enum):
    ORT_DISABLE_ALL, ORT_ENABLE_BASIC, ORT_ENABLE_EXTENDED, ORT_ENABLE_LAYOUT = range(4)
    ORT_ENABLE_ALL = 99


class ExecutionMode(_Enum):
    ORT_SEQUENTIAL, ORT_PARALLEL = range(2)


class ExecutionOrder(_Enum):
    DEFAULT, PRIORITY_BASED, MEMORY_EFFICIENT = range(3)


class OrtAllocatorType(_Enum):
    INVALID, ORT_DEVICE_ALLOCATOR, ORT_ARENA_ALLOCATOR = range(-1, 2)


class OrtMemType(_Enum):
    CPU_INPUT, CPU_OUTPUT, DEFAULT = range(-2, 1)
    CPU = CPU_OUTPUT


class OrtDeviceMemoryType(_Enum):
    DEFAULT = 0
    HOST_ACCESSIBLE = 5


class OrtSparseFormat(_Enum):
    ORT_SPARSE_UNDEFINED, ORT_SPARSE_COO, ORT_SPARSE_CSRC = range(3)
    ORT_SPARSE_BLOCK_SPARSE = 4


class OrtDeviceVendorId(IntEnum):
    NONE = 0
    AMD = 0x1002
    NVIDIA = 0x10DE
    ARM = 0x13B5
    MICROSOFT = 0x1414
    HUAWEI = 0x19E5
    QUALCOMM = 0x5143
    INTEL = 0x8086


class OrtHardwareDeviceType(_Enum):
    CPU, GPU, NPU = range(3)


class OrtExecutionProviderDevicePolicy(_Enum):
    DEFAULT, PREFER_CPU, PREFER_NPU, PREFER_GPU, MAX_PERFORMANCE, MAX_EFFICIENCY, MIN_OVERALL_POWER = range(7)


class OrtMemoryInfoDeviceType(_Enum):
    CPU, GPU, FPGA, NPU = range(4)


class OrtCompileApiFlags(_Enum):
    NONE, ERROR_IF_NO_NODES_COMPILED, ERROR_IF_OUTPUT_FILE_EXISTS = range(3)
