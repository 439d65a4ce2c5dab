"""Arrays from TensorProto files (.pb), and expected results: ONNX's test data, .npy, .npz."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, ModelError
from ..frontends.onnx.tensors import to_array
from ..frontends.onnx.wire import message

RELATIVE, ABSOLUTE = 1e-3, 1e-5
"""Of ONNX's own test runner, for floats: |found - expected| <= ABSOLUTE + RELATIVE * |expected|."""


def read_pb(path: str | Path) -> np.ndarray:
    """The array of a file that holds a TensorProto. InputError when it holds none."""
    tensor: Any = message("TensorProto")()
    try:
        tensor.ParseFromString(Path(path).read_bytes())
        return to_array(tensor, str(Path(path).parent), str(path))
    except (ModelError, ValueError) as error:
        raise InputError(f"{path}: expected a TensorProto, as ONNX's test data has them: {error}") from None
    except Exception as error:  # protobuf's own, which has no public name
        if type(error).__name__ != "DecodeError":
            raise
        raise InputError(f"{path}: expected a TensorProto, as ONNX's test data has them") from None


def numbered(folder: str | Path, kind: str, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The arrays of input_0.pb, ... (`kind`: "input" or "output") in a folder, by the names of these in order.

    InputError when there are none, or more than names.
    """
    pattern = re.compile(rf"{kind}_(\d+)\.pb")
    files = {int(found[1]): path for path in Path(folder).iterdir() if (found := pattern.fullmatch(path.name))}
    if not files or max(files) >= len(names):
        there = f"numbers up to {max(files)}" if files else "none"
        raise InputError(f"{folder}: expected {kind}_0.pb to {kind}_{len(names) - 1}.pb at most, found {there}")
    return {names[number]: read_pb(path) for number, path in sorted(files.items())}


def expected(path: str, names: Sequence[str]) -> dict[str, np.ndarray]:
    """What outputs of these names are expected to be: a folder of output_0.pb, ..., an .npz by name, or the .npy or .pb
    of the only one. InputError for anything else.
    """
    kind = Path(path).suffix.lower()
    if Path(path).is_dir():
        return numbered(path, "output", names)
    try:
        found = read_pb(path) if kind == ".pb" else np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(f"--expect {path}: it holds no arrays ({error})") from None
    if not isinstance(found, np.ndarray):
        with found:
            arrays = {name: found[name] for name in found.files}
        if wrong := [name for name in arrays if name not in names]:
            raise InputError(f"--expect {path}: no output is called {wrong[0]!r}, the outputs are {', '.join(names)}")
        return arrays
    if len(names) != 1:
        raise InputError(f"--expect {path}: it is one array, the outputs are {', '.join(names)}: give an .npz by name")
    return {names[0]: found}


def differences(outputs: Mapping[str, Any], wanted: Mapping[str, np.ndarray]) -> list[str]:
    """A line for each output that is not what was expected."""
    lines = []
    for name, right in wanted.items():
        found = outputs[name]
        if not isinstance(found, np.ndarray) or (found.dtype.kind, found.shape) != (right.dtype.kind, right.shape):
            said = f"{found.dtype}{list(found.shape)}" if isinstance(found, np.ndarray) else type(found).__name__
            lines.append(f"{name}: expected {right.dtype}{list(right.shape)}, found {said}")
        elif right.dtype.kind in "fc":
            with np.errstate(all="ignore"):
                near = np.isclose(found, right, RELATIVE, ABSOLUTE, equal_nan=True)
            if not near.all():
                at = tuple(int(i) for i in np.argwhere(~near)[0])
                said = f"at {list(at)} expected {right[at]:.7g}, found {found[at]:.7g}"
                lines.append(f"{name}: {np.sum(~near)} of {near.size} numbers differ: {said}")
        elif not np.array_equal(found, right):
            lines.append(f"{name}: {np.sum(found != right)} of {right.size} elements differ")
    return lines
