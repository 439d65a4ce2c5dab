"""Execution providers: there is the CPU, and asking for another gives a warning and the CPU, as with onnxruntime."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

CPU = "CPUExecutionProvider"
_ALL = """
Tensorrt CUDA MIGraphX OpenVINO Dnnl VitisAI QNN Nnapi VSINPU Js CoreML Dml Rknpu WebNN WebGpu Xnnpack CANN Azure CPU
"""


def get_all_providers() -> list[str]:
    """The names that onnxruntime knows, in its order of preference."""
    return [f"{name}ExecutionProvider" for name in _ALL.split()]


def get_available_providers() -> list[str]:
    return [CPU]


def check(providers: Any, options: Any) -> None:
    """Warns of providers that there are not, and of arguments that mean nothing."""
    if providers is None:
        return
    named = [providers] if isinstance(providers, str) else list(providers)
    names = [each[0] if isinstance(each, tuple) and each else each for each in named]
    if not all(isinstance(name, str) for name in names):
        _warn(f"'providers' values must be either strings or (string, dict) tuples, found {providers!r}: {CPU} is used")
    if options is not None and not (isinstance(options, Sequence) and len(options) == len(named)):
        _warn(f"'providers' and 'provider_options' should be the same length if both are given: {CPU} is used")
    for name in dict.fromkeys(name for name in names if isinstance(name, str)):
        if name != CPU:
            _warn(f"Specified provider '{name}' is not in available provider names.Available providers: '{CPU}'")
        elif names.count(name) > 1:
            _warn(f"Duplicate provider '{name}' encountered, ignoring.")


def _warn(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=5)


def used() -> dict[str, Mapping[str, str]]:
    """The options of the providers in use, by name."""
    return {CPU: {}}
