"""Small programs, a few for each operator, made with coremltools; what they must give comes from NumPy and PyTorch.

    python -m tests.mil.make_cases        needs coremltools and torch; writes beside this file

cases.tar.xz holds, for each program, NAME/model.mlpackage and NAME/io.npz with in:INPUT and out:OUTPUT. operators.csv
lists the operators that coremltools defines, the operator sets in which it (re)defines each, and whether fastgraph has
them: "done", or why not.
"""

from __future__ import annotations

import csv
import io
import re
import tarfile
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.mil.case_tables import FOUND, Case, activations, binary, unary
from tests.mil.case_tables_layers import convolutions, normalizations, pools, reductions
from tests.mil.case_tables_shapes import fills, joins, narrow, shapes, slices

HERE = Path(__file__).parent
SETS = ("iOS15", "iOS16", "iOS17", "iOS18")
TABLES = (unary, binary, activations, convolutions, pools, normalizations, reductions, shapes, joins, slices, fills,
          narrow)  # fmt: skip
REASONS = {
    "_const_symbolic": "coremltools' own while it converts: never in a file",
    "complex": "coremltools' own while it converts: it writes pairs of real tensors",
}
"""Operators that fastgraph has no rule for, by how their names begin."""


def package(case: Case, folder: Path) -> Path:
    """The case's program as a package in `folder`, converted without any of coremltools' passes."""
    import coremltools as ct
    from coremltools.converters.mil import Builder as mb
    from coremltools.converters.mil.mil import Function, Program, types

    kinds = {"f4": types.fp32, "f2": types.fp16, "i4": types.int32, "i2": types.int16, "u2": types.uint16,
             "i1": types.int8, "u1": types.uint8, "b1": types.bool}  # fmt: skip
    specs = {name: mb.placeholder(shape=array.shape, dtype=kinds[array.dtype.str[1:]])
             for name, array in case.inputs.items()}  # fmt: skip
    target = getattr(ct.target, case.opset)
    program = Program()
    with Function(specs, opset_version=target) as function:
        made = case.build(mb, *function.inputs.values())
        made = list(made) if isinstance(made, tuple | list) else [made]
        function.set_outputs([mb.identity(x=v, name=f"y{i}") for i, v in enumerate(made)])
    program.add_function("main", function)
    model = ct.convert(
        program, convert_to="mlprogram", skip_model_load=True, pass_pipeline=ct.PassPipeline.EMPTY,
        minimum_deployment_target=target, compute_precision=ct.precision.FLOAT32,
    )  # fmt: skip
    path = folder / "model.mlpackage"
    model.save(str(path))
    manifest = path / "Manifest.json"
    names = dict.fromkeys(re.findall(r"[0-9A-F-]{36}", manifest.read_text()))
    for i, name in enumerate(names):
        manifest.write_text(manifest.read_text().replace(name, f"{i:08}-0000-0000-0000-000000000000"))
    return path


def arrays(case: Case) -> bytes:
    """io.npz: inputs, and what the program must give."""
    expected = case.expect(*case.inputs.values())
    outputs = expected if isinstance(expected, tuple | list) else [expected]
    buffer = io.BytesIO()
    given = {f"in:{name}": array for name, array in case.inputs.items()}
    np.savez(buffer, **given, **{f"out:y{i}": np.asarray(array) for i, array in enumerate(outputs)})
    return buffer.getvalue()


def files(case: Case) -> Iterator[tuple[str, bytes]]:
    with tempfile.TemporaryDirectory() as folder:
        path = package(case, Path(folder))
        for file in sorted(p for p in path.rglob("*") if p.is_file()):
            yield str(file.relative_to(folder)), file.read_bytes()
    yield "io.npz", arrays(case)


def write_cases(path: Path) -> None:
    for table in TABLES:
        table()
    failures = []
    with tarfile.open(path, "w:xz") as archive:
        for case in FOUND:
            try:
                found = list(files(case))
            except Exception as error:
                failures.append(f"{case.name}: {type(error).__name__}: {error}")
                continue
            for name, data in found:
                info = tarfile.TarInfo(f"{case.name.replace('/', '.')}/{name}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    if failures:
        path.unlink()
        raise SystemExit("\n".join(failures))


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
    write_cases(HERE / "cases.tar.xz")
    write_operators(HERE / "operators.csv")
