"""onnxruntime.capi._pybind_state: the same names as onnxruntime_pybind11_state."""

from __future__ import annotations

from . import onnxruntime_pybind11_state as _all

globals().update({name: value for name, value in vars(_all).items() if not name.startswith("_")})
