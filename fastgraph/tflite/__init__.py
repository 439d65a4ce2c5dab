"""A drop-in for LiteRT's Python interpreter: `tflite_runtime.interpreter`, `ai_edge_litert.interpreter`, `tf.lite`.

    from fastgraph.tflite import Interpreter       # in place of: from ai_edge_litert.interpreter import Interpreter

Names, arguments, what calls give and which exceptions they raise are LiteRT's; networks are computed by fastgraph. For
packages that import one of these modules themselves, `install()` stands in for them in this process, until
`uninstall()`.
"""

from .install import install, uninstall
from .interpreter import Delegate, Interpreter, InterpreterWithCustomOps, OpResolverType, SignatureRunner, load_delegate

__all__ = [
    "Delegate", "Interpreter", "InterpreterWithCustomOps", "OpResolverType", "SignatureRunner", "install",
    "load_delegate", "uninstall",
]  # fmt: skip
