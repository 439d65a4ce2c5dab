"""Adds programs that coremltools writes to cases.tar.xz, and lists the operators that it defines.

    python -m tests.mil.make_cases [FILE.py]        needs coremltools; writes beside this file

FILE.py has a list CASES of Case, for example

    CASES = [Case("clip", {"x": X}, lambda mb, x: mb.clip(x=x, alpha=-0.5, beta=0.75), lambda x: x.clip(-0.5, 0.75))]

The archive holds, for each program, NAME/model.mlpackage and NAME/io.npz with in:INPUT and out:OUTPUT; names begin with
the operator's. What its programs give was computed by NumPy and PyTorch. operators.csv lists the operators that
coremltools defines, the operator sets in which it (re)defines each, and whether fastgraph has them: "done", or why not.
"""

import csv
import io
import re
import runpy
import sys
import tarfile
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
SETS = ("iOS15", "iOS16", "iOS17", "iOS18")
KINDS = {"f4": "fp32", "f2": "fp16", "i4": "int32", "i2": "int16", "u2": "uint16", "i1": "int8", "u1": "uint8"}
REASONS = {
    "_const_symbolic": "coremltools' own while it converts: never in a file",
    "complex": "coremltools' own while it converts: it writes pairs of real tensors",
}
"""Operators that fastgraph has no rule for, by how their names begin."""


@dataclass(frozen=True)
class Case:
    """`build(mb, *inputs)` gives the outputs; `expect(*arrays)` their values."""

    name: str
    inputs: dict[str, np.ndarray]
    build: Callable[..., Any]
    expect: Callable[..., Any]
    opset: str = "iOS15"


def listed(made: Any) -> list[Any]:
    return list(made) if isinstance(made, tuple | list) else [made]


def package(case: Case, folder: Path) -> None:
    """The case's program as a package in `folder`, converted without any of coremltools' passes."""
    import coremltools as ct
    from coremltools.converters.mil import Builder as mb
    from coremltools.converters.mil.mil import Function, Program, types

    def placeholder(array: np.ndarray) -> Any:
        return mb.placeholder(shape=array.shape, dtype=getattr(types, KINDS.get(array.dtype.str[1:], "bool")))

    target = getattr(ct.target, case.opset)
    with Function({name: placeholder(array) for name, array in case.inputs.items()}, opset_version=target) as function:
        made = listed(case.build(mb, *function.inputs.values()))
        function.set_outputs([mb.identity(x=v, name=f"y{i}") for i, v in enumerate(made)])
    program = Program()
    program.add_function("main", function)
    told = {"minimum_deployment_target": target, "compute_precision": ct.precision.FLOAT32, "skip_model_load": True}
    model = ct.convert(program, convert_to="mlprogram", pass_pipeline=ct.PassPipeline.EMPTY, **told)
    model.save(str(folder / "model.mlpackage"))
    manifest = folder / "model.mlpackage" / "Manifest.json"
    for i, name in enumerate(dict.fromkeys(re.findall(r"[0-9A-F-]{36}", manifest.read_text()))):
        manifest.write_text(manifest.read_text().replace(name, f"{i:08}-0000-0000-0000-000000000000"))


def files(case: Case) -> dict[str, bytes]:
    """The package's, and io.npz: inputs, and what the program must give."""
    given = {f"in:{name}": array for name, array in case.inputs.items()}
    wanted = {f"out:y{i}": np.asarray(y) for i, y in enumerate(listed(case.expect(*case.inputs.values())))}
    with tempfile.TemporaryDirectory() as folder:
        package(case, Path(folder))
        np.savez(Path(folder, "io.npz"), **given, **wanted)
        paths = sorted(path for path in Path(folder).rglob("*") if path.is_file())
        return {f"{case.name.replace('/', '.')}/{path.relative_to(folder)}": path.read_bytes() for path in paths}


def add_cases(archive: Path, cases: list[Case]) -> None:
    """Add cases to an archive; one that is called the same is replaced."""
    made = [files(case) for case in cases]
    names = {name.partition("/")[0] for found in made for name in found}
    with tarfile.open(archive) as before:
        members = {entry.name: before.extractfile(entry).read() for entry in before}  # type: ignore[union-attr]
    kept = {name: data for name, data in members.items() if name.partition("/")[0] not in names}
    with tarfile.open(archive, "w:xz", preset=9) as after:
        for name, data in [*kept.items(), *(item for found in made for item in found.items())]:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            after.addfile(info, io.BytesIO(data))


def write_operators(path: Path) -> None:
    from coremltools.converters.mil.mil.ops.registry import SSAOpRegistry

    forms = {name: {form.__module__ for form in found.values()} for name, found in SSAOpRegistry.core_ops.items()}
    forms |= {name: {form.__module__} for name, form in SSAOpRegistry.dialect_ops.items() if "torch" not in name}
    rows = []
    for name, found in sorted(forms.items()):
        reason = next((reason for start, reason in REASONS.items() if name.startswith(start)), "done")
        rows.append((name, " ".join(s for s in SETS if any(s in module for module in found)), reason))
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("operator", "defined in", "state"), *rows])


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    if sys.argv[1:]:
        add_cases(HERE / "cases.tar.xz", runpy.run_path(sys.argv[1])["CASES"])
    write_operators(HERE / "operators.csv")
