"""Programs with inputs and outputs that tests read where they lie, and how results are compared."""

import tarfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fastgraph.ir import Graph
from fastgraph.ops.evaluate import evaluate

SHARED = Path(__file__).resolve().parents[3] / "shared" / "models"
FOLDER = SHARED / "mil"
ARCHIVE = Path(__file__).with_name("cases.tar.xz")

Arrays = Mapping[str, np.ndarray]


def archived() -> list[str]:
    """The names of the cases of make_cases.py."""
    with tarfile.open(ARCHIVE) as opened:
        return list(dict.fromkeys(name.split("/")[0] for name in opened.getnames()))


def archived_files() -> list[dict[str, bytes]]:
    """The files of their packages."""
    found: dict[str, dict[str, bytes]] = {}
    with tarfile.open(ARCHIVE) as opened:
        for entry in opened:
            case, _, name = entry.name.partition("/model.mlpackage/")
            file = opened.extractfile(entry)
            if name and file is not None:
                found.setdefault(case, {})[name] = file.read()
    return list(found.values())


def unpack(folder: Path) -> None:
    with tarfile.open(ARCHIVE) as opened:
        opened.extractall(folder, filter="data")


def arrays(folder: Path) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """What a case is fed, and what it must give."""
    with np.load(folder / "io.npz") as io:
        given, wanted = ({k[len(p) :]: io[k] for k in io.files if k.startswith(p)} for p in ("in:", "out:"))
    return given, wanted


def feeds(graph: Graph, given: Arrays) -> dict[str, np.ndarray]:
    """Arrays of any type for a graph's inputs, in the type that each declares; a number where it declares [1]."""
    found = {}
    for value in graph.inputs:
        array = np.asarray(given[value.name]).astype(value.type.dtype)
        found[value.name] = array.reshape(1) if array.shape == () and value.type.shape == (1,) else array
    return found


def by_references(graph: Graph, given: Arrays) -> dict[str, np.ndarray]:
    """The outputs by name, by the operators' NumPy references."""
    outputs = evaluate(graph, feeds(graph, given))
    return {value.name: np.asarray(array) for value, array in zip(graph.outputs, outputs, strict=True)}


def compare(found: Arrays, wanted: Arrays, relative: float) -> None:
    """All that is wanted is there, of the same shape, within `relative` of each number or of the largest."""
    for name, expected in wanted.items():
        y = found[name]
        assert y.shape == expected.shape, f"{name}: shape {y.shape}, expected {expected.shape}"
        if expected.dtype.kind not in "fiub":
            np.testing.assert_array_equal(y, expected, err_msg=name)
            continue
        numbers = expected.astype(np.float64)
        largest = float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0))
        exact = expected.dtype.kind != "f" and y.dtype.kind != "f"
        close = {"rtol": 0 if exact else relative, "atol": 0 if exact else relative * largest}
        np.testing.assert_allclose(y.astype(np.float64), numbers, err_msg=name, **close)
