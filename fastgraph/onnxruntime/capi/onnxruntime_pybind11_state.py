"""onnxruntime.capi.onnxruntime_pybind11_state: its exceptions, enumerations, classes and functions."""

from __future__ import annotations

import sys

from ..errors import (
    DeviceReset,
    EngineError,
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    ModelLoadCanceled,
    ModelLoaded,
    ModelRequiresCompilation,
    NoModel,
    NoSuchFile,
    NotFound,
    NotImplemented,
    RuntimeException,
)
from ..session import Session
from ..values import OrtValueVector

_all = sys.modules[__name__.rsplit(".", 2)[0]]
globals().update({name: vars(_all)[name] for name in (*vars(_all)["__all__"], *_all.absent.ABSENT)})

__all__ = [
    "DeviceReset", "EPFail", "EngineError", "Fail", "InvalidArgument", "InvalidGraph", "InvalidProtobuf",
    "ModelLoadCanceled", "ModelLoaded", "ModelRequiresCompilation", "NoModel", "NoSuchFile", "NotFound",
    "NotImplemented", "OrtValueVector", "RuntimeException", "Session",
]  # fmt: skip
