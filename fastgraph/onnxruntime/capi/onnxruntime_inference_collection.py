"""onnxruntime.capi.onnxruntime_inference_collection: sessions, bindings and values."""

from __future__ import annotations

from .. import absent
from ..binding import IOBinding
from ..enums import OrtDeviceVendorId
from ..session import InferenceSession, Session
from ..state import copy_tensors
from ..values import OrtDevice, OrtValue

AdapterFormat, ModelCompiler, SparseTensor = (
    absent.ABSENT[name] for name in ("AdapterFormat", "ModelCompiler", "SparseTensor")
)

__all__ = [
    "AdapterFormat", "IOBinding", "InferenceSession", "ModelCompiler", "OrtDevice", "OrtDeviceVendorId", "OrtValue",
    "Session", "SparseTensor", "copy_tensors",
]  # fmt: skip
