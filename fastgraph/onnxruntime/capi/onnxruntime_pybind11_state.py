"""onnxruntime.capi.onnxruntime_pybind11_state: its exceptions, enumerations, classes and functions."""

from __future__ import annotations

import sys

from ..errors import OrtError
from ..session import Session
from ..values import OrtValueVector

_all = sys.modules[__name__.rsplit(".", 2)[0]]
globals().update({name: vars(_all)[name] for name in (*vars(_all)["__all__"], *_all.absent.ABSENT)})

globals().update({kind.__name__: kind for kind in OrtError.__subclasses__()})

__all__ = ["OrtValueVector", "Session", *(kind.__name__ for kind in OrtError.__subclasses__())]
