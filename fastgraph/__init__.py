"""fastgraph runs neural-network files in one native call, on the CPU.

    import fastgraph as fg

    model = fg.load("net.onnx")
    outputs = model.run({"input": array})
    print(model)

`load` gives a `Model`. It reads ONNX, TensorFlow Lite and Circle files and Core ML packages. `verify` says whether a
model is computed right on this machine. All errors are `FastgraphError`s.
"""

from __future__ import annotations

import os
from importlib import import_module
from sys import modules
from typing import TYPE_CHECKING

from .errors import (
    CompilerError,
    FastgraphError,
    GraphError,
    InputError,
    ModelError,
    PlanError,
    RunTimeout,
    UnsupportedError,
)
from .locks import undisturbed

if TYPE_CHECKING:
    from .ir.types import TensorType
    from .limits import Limits
    from .loading import load
    from .ops.custom import register_custom_op
    from .runtime.model import Model, TensorSpec
    from .runtime.plans import Plans
    from .tools.compare import compare
    from .tools.verify import verify

if not os.path.isdir(os.path.join(__path__[0], "kernels")):
    # In a checkout `kernels` and `schemas` lie beside this folder; a wheel has them inside.
    __path__.append(os.path.dirname(__path__[0]))

__version__ = "0.1.0"
__all__ = [
    "CompilerError", "FastgraphError", "GraphError", "InputError", "Limits", "Model", "ModelError", "PlanError",
    "Plans", "RunTimeout", "TensorSpec", "TensorType", "UnsupportedError", "compare", "load", "register_custom_op",
    "verify",
]  # fmt: skip

_LAZY = {
    "load": ".loading", "Limits": ".limits", "Model": ".runtime.model", "Plans": ".runtime.plans",
    "TensorSpec": ".runtime.model", "TensorType": ".ir",
    "register_custom_op": ".ops.custom", "compare": ".tools.compare", "verify": ".tools.verify",
}  # fmt: skip

_INSTEAD = {
    "InferenceSession": "it is in fastgraph.onnxruntime; or call fastgraph.load(file)",
    "Interpreter": "it is in fastgraph.tflite; or call fastgraph.load(file)",
    **dict.fromkeys(("Core", "read_model", "compile_model"), "call fastgraph.load(file)"),
}
"""Where names of other engines are, or what takes their place."""


if not TYPE_CHECKING:  # else a type checker would take any name

    def __getattr__(name):
        if name not in _LAZY:
            instead = f"; {_INSTEAD[name]}" if name in _INSTEAD else ""
            said = f"module 'fastgraph' has no attribute {name!r}{instead}"
            raise AttributeError(said, name=name, obj=modules[__name__])
        with undisturbed():
            found = getattr(import_module(_LAZY[name], __name__), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    """The names for users; modules that are imported here are not among them."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
