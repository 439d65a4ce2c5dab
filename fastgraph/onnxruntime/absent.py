"""Classes of onnxruntime that there are only by name, so that imports work: using one is an error that says so."""

from __future__ import annotations

from typing import Any

from .errors import lacking

_ADVICE = {
    "feed dense arrays": "SparseTensor",
    "merge the adapter's weights into the file": "AdapterFormat LoraAdapter",
    "fastgraph.load(path).save('net.fgm') keeps what is compiled, and a session loads it": "ModelCompiler",
    "give a session one .onnx file": "ModelPackage ModelPackageContext ModelPackageOptions "
    "ModelPackageComponentContext",
    "load the file from its path, with its data beside it": "OrtEpContextData OrtEpContextDataBuffer "
    "OrtExternalInitializerInfo",
    "runs are complete when they return": "OrtSyncStream",
    "all nodes are the CPU's": "OrtEpAssignedNode OrtEpAssignedSubgraph",
}


def _absent(name: str, advice: str) -> type:
    def use(*_: Any, **__: Any) -> None:
        lacking(name, advice)

    class Absent(type):
        def __getattr__(cls, attribute: str) -> Any:
            if attribute.startswith("__"):
                raise AttributeError(attribute)
            return use

    return Absent(name, (), {"__init__": use, "__doc__": f"Not there: {advice}."})


ABSENT = {name: _absent(name, advice) for advice, names in _ADVICE.items() for name in names.split()}
"""The classes, by name."""
