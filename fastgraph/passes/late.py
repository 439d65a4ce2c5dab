"""Rules of operators that few networks have: which file of this folder has them, imported when a graph does."""

from __future__ import annotations

from importlib import import_module

from ..ir import Node
from .rewrite import Sweep, sees

FILES = {
    "spectra": "dft stft rfft2d audio_spectrogram mfcc hadamard_rotation real imag complex_abs",
}
"""Each has rules that are called like the operators that they are for."""
_FILE = {op: file for file, ops in FILES.items() for op in ops.split()}


@sees(*_FILE)
def late(state: Sweep, node: Node) -> bool:
    """The rule that is called like the node's operator."""
    module = import_module(f".{_FILE[node.op]}", __package__)
    return bool(getattr(module, node.op)(state, node))
