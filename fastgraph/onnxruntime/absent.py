"""Classes of onnxruntime that there are only by name, so that imports work: using one is an error that says so."""

from __future__ import annotations

from typing import Any

from .errors import lacking

_ADVICE = {
    "SparseTensor": "feed dense arrays",
    "AdapterFormat": "merge the adapter's weights into the file",
    "LoraAdapter": "merge the adapter's weights into the file",
    "ModelCompiler": "fastgraph.load(path).save('net.fgm') keeps what is compiled, and a session loads it",
    "ModelPackage": "give a session one .onnx file",
    "ModelPackageComponentContext": "give a session one .onnx file",
    "ModelPackageContext": "give a session one .onnx file",
    "ModelPackageOptions": "give a session one .onnx file",
    "OrtExternalInitializerInfo": "load the file from its path, with its data beside it",
    "OrtSyncStream": "runs are complete when they return",
    "OrtEpAssignedNode": "all nodes are the CPU's",
    "OrtEpAssignedSubgraph": "all nodes are the CPU's",
    "OrtEpContextData": "load the file from its path, with its data beside it",
    "OrtEpContextDataBuffer": "load the file from its path, with its data beside it",
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


ABSENT = {name: _absent(name, advice) for name, advice in _ADVICE.items()}
"""The classes, by name."""
