"""onnxruntime's interface over fastgraph, for code that was written for it.

    import fastgraph.onnxruntime as ort

    session = ort.InferenceSession("net.onnx", providers=["CPUExecutionProvider"])
    outputs = session.run(None, {"input": array})

Names, arguments, results and exceptions are those of onnxruntime; `docs/porting.md` says what differs. `install()`
gives packages that one does not edit this module when they import onnxruntime, `uninstall()` ends that.
"""

from __future__ import annotations

from importlib import import_module

from . import absent
from .binding import IOBinding
from .described import ModelMetadata, NodeArg
from .enums import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    OrtAllocatorType,
    OrtCompileApiFlags,
    OrtDeviceMemoryType,
    OrtDeviceVendorId,
    OrtExecutionProviderDevicePolicy,
    OrtHardwareDeviceType,
    OrtMemoryInfoDeviceType,
    OrtMemType,
    OrtSparseFormat,
)
from .install import install, uninstall
from .options import RunOptions, SessionOptions
from .providers import get_all_providers, get_available_providers
from .session import InferenceSession
from .state import (
    VERSION,
    OrtArenaCfg,
    OrtEpDevice,
    OrtHardwareDevice,
    copy_tensors,
    create_and_register_allocator,
    create_and_register_allocator_v2,
    disable_telemetry_events,
    enable_telemetry_events,
    get_build_info,
    get_device,
    get_ep_devices,
    get_version_string,
    has_collective_ops,
    preload_dlls,
    print_debug_info,
    register_execution_provider_library,
    set_default_logger_callback,
    set_default_logger_severity,
    set_default_logger_verbosity,
    set_global_thread_pool_sizes,
    set_seed,
    unregister_execution_provider_library,
)
from .values import OrtDevice, OrtMemoryInfo, OrtValue

SessionIOBinding = IOBinding
__version__ = version = VERSION
package_name, cuda_version = "onnxruntime", ""
globals().update(absent.ABSENT)

__all__ = [
    "ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel", "IOBinding", "InferenceSession", "ModelMetadata",
    "NodeArg", "OrtAllocatorType", "OrtArenaCfg", "OrtCompileApiFlags", "OrtDevice", "OrtDeviceMemoryType",
    "OrtDeviceVendorId", "OrtEpDevice", "OrtExecutionProviderDevicePolicy", "OrtHardwareDevice",
    "OrtHardwareDeviceType", "OrtMemType", "OrtMemoryInfo", "OrtMemoryInfoDeviceType", "OrtSparseFormat", "OrtValue",
    "RunOptions", "SessionIOBinding", "SessionOptions", "copy_tensors", "create_and_register_allocator",
    "create_and_register_allocator_v2", "disable_telemetry_events", "enable_telemetry_events", "get_all_providers",
    "get_available_providers", "get_build_info", "get_device", "get_ep_devices", "get_version_string",
    "has_collective_ops", "install", "preload_dlls", "print_debug_info", "register_execution_provider_library",
    "set_default_logger_callback", "set_default_logger_severity", "set_default_logger_verbosity",
    "set_global_thread_pool_sizes", "set_seed", "uninstall", "unregister_execution_provider_library",
]  # fmt: skip

capi = import_module(".capi", __name__)  # behind the names: its modules take them from here
