"""Functions of onnxruntime's module that are about the process: logs, seeds, telemetry, devices, allocators."""

from __future__ import annotations

from typing import Any

from .enums import OrtHardwareDeviceType
from .errors import lacking, say_once
from .values import OrtMemoryInfo

VERSION = "1.32.0"
"""The release of onnxruntime whose behavior this has: tests make the same calls of both."""


def needless(*_: Any, **__: Any) -> None:
    """Nothing is to be done: nothing is sent or logged, memory is planned, sessions share one pool of threads, the CPU
    is the one provider, and needs no libraries.
    """


enable_telemetry_events = disable_telemetry_events = preload_dlls = needless
set_default_logger_verbosity = set_default_logger_callback = set_global_thread_pool_sizes = needless
create_and_register_allocator = create_and_register_allocator_v2 = needless


def get_version_string() -> str:
    return VERSION


def get_build_info() -> str:
    from .. import __version__

    return f"fastgraph {__version__}, with the interface of onnxruntime {VERSION}"


def get_device() -> str:
    return "CPU"


def has_collective_ops() -> bool:
    return False


def set_default_logger_severity(severity: int) -> None:
    """Nothing is logged: warnings are Python's, errors are raised. RuntimeError for a number that is no severity."""
    if not 0 <= severity <= 4:
        raise RuntimeError(f"Invalid logging severity {severity}. 0:Verbose, 1:Info, 2:Warning, 3:Error, 4:Fatal")


def set_seed(seed: int) -> None:
    say_once(
        f"set_seed({seed}): operators that draw numbers without a seed of their own draw fresh ones in each run: give "
        "them the attribute `seed` in the file"
    )


class OrtArenaCfg:
    """How an arena of onnxruntime's grows; fastgraph's are planned, and don't."""

    def __init__(
        self,
        max_mem: Any = 0,
        arena_extend_strategy: int = -1,
        initial_chunk_size_bytes: int = -1,
        max_dead_bytes_per_chunk: int = -1,
    ) -> None:
        self.max_mem, self.arena_extend_strategy = max_mem, arena_extend_strategy
        self.initial_chunk_size_bytes = initial_chunk_size_bytes
        self.max_dead_bytes_per_chunk = max_dead_bytes_per_chunk
        self.initial_growth_chunk_size_bytes = self.max_power_of_two_extend_bytes = -1
        if isinstance(max_mem, dict):
            self.max_mem = 0
            vars(self).update(max_mem)


class OrtHardwareDevice:
    type, vendor, vendor_id, device_id = OrtHardwareDeviceType.CPU, "", 0, 0
    metadata: dict[str, str] = {}


class OrtEpDevice:
    """The one execution provider."""

    ep_name, ep_vendor = "CPUExecutionProvider", "fastgraph"
    ep_metadata: dict[str, str] = {}
    ep_options: dict[str, str] = {}
    device = OrtHardwareDevice()

    def memory_info(self, kind: int) -> OrtMemoryInfo:
        return OrtMemoryInfo.cpu()


def get_ep_devices() -> list[OrtEpDevice]:
    return [OrtEpDevice()]


def register_execution_provider_library(name: str, path: str = "") -> None:
    lacking(f"execution provider libraries ({name})", "sessions run on the CPU without")


unregister_execution_provider_library = register_execution_provider_library


def print_debug_info() -> None:
    print(get_build_info())


def copy_tensors(sources: Any, targets: Any, stream: Any = None) -> None:
    """Copy arrays of OrtValues into others."""
    for source, target in zip(sources, targets, strict=True):
        target.update_inplace(source.numpy())
