"""`fastgraph inspect`: a file's content, its graph at each stage, its plan and memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..frontends import kind_of
from ..frontends.circle import MAGIC
from ..frontends.circle.load import root
from ..frontends.mil.package import open_package
from ..frontends.mil.wire import parse as parse_core_ml
from ..frontends.onnx.wire import parse
from ..ir import Graph, TensorType, check, copy
from ..passes.bounds import bounded
from ..passes.dynamic import cut_dynamic, is_dynamic
from ..passes.specialize import missing_dims, specialize
from ..passes.stages import stages
from ..plan.arena import draw
from ..plan.describe import kernel_counts, steps
from ..plan.lower import Matches
from ..plan.lower.build import lifetimes
from ..rules.rule import watching
from ..runtime.model import Model, TensorSpec
from ..text import bytes_text, counted, table
from .feeds import Shapes


def file_facts(path: str) -> dict[str, Any]:
    """Path, bytes, format, schema version and number of nodes; ONNX files say who wrote them (producer) and in which
    operator sets, others have a description. Core ML packages list their functions, and the bytes of all files.
    """
    kind, found = kind_of(path), {"path": path}
    if kind == "mil":
        return found | _core_ml(path)
    with open(path, "rb") as file:
        data = file.read()
    return found | {"bytes": len(data)} | (_flatbuffer(data, path) if kind == "circle" else _onnx(data, path))


def _core_ml(path: str) -> dict[str, Any]:
    model = parse_core_ml(open_package(path).spec, path)
    files = [p for p in Path(path).rglob("*") if p.is_file()] or [Path(path)]
    opsets = {name: function.opset for name, function in sorted(model.mlProgram.functions.items())}
    return {
        "bytes": sum(p.stat().st_size for p in files),
        "format": "coreml",
        "version": model.specificationVersion,
        "description": model.description.metadata.shortDescription.strip(),
        "nodes": sum(
            _operations(b) for f in model.mlProgram.functions.values() for b in f.block_specializations.values()
        ),
        "functions": opsets,
    }


def _operations(block: Any) -> int:
    """Operations of a block and its nested blocks, without constants."""
    return sum((op.type != "const") + sum(map(_operations, op.blocks)) for op in block.operations)


def _onnx(data: bytes, path: str) -> dict[str, Any]:
    proto = parse(data, path)
    return {
        "format": "onnx",
        "version": proto.ir_version,
        "producer": f"{proto.producer_name} {proto.producer_version}".strip(),
        "nodes": len(proto.graph.node),
        "opsets": {entry.domain or "ai.onnx": entry.version for entry in proto.opset_import},
    }


def _flatbuffer(data: bytes, path: str) -> dict[str, Any]:
    model = root(data, path)
    return {
        "format": MAGIC[data[4:8]],
        "version": model.version,
        "description": model.description.strip(),
        "nodes": sum(len(each.operators) for each in model.subgraphs),
        "signatures": [each.signature_key for each in model.signature_defs],
    }


FORMATS = {"onnx": "ONNX", "coreml": "Core ML", "tflite": "TensorFlow Lite", "circle": "Circle"}


def facts_text(facts: Mapping[str, Any]) -> str:
    kind, size = FORMATS[facts["format"]], bytes_text(facts["bytes"])
    by = f" by {facts['producer']}" if facts.get("producer") else ""
    said = f' ("{facts["description"]}")' if facts.get("description") else ""
    opsets = ", ".join(f"{domain} {version}" for domain, version in facts.get("opsets", {}).items())
    sets = f", operator set {opsets}" if opsets else ""
    functions = ", ".join(f"{name} ({opset})" for name, opset in facts.get("functions", {}).items())
    sets += f", functions {functions}" if functions else ""
    signatures = ", ".join(facts.get("signatures", []))
    sets += f", signatures {signatures}" if signatures else ""
    return f"{facts['path']}: {kind}{by}{said}, {size}{sets}, {counted(facts['nodes'], 'node')}"


def stages_text(graph: Graph, shapes: Shapes) -> str:
    """The graph of a file, and after each stage with the rules applied in it and how often; only the first when input
    shapes stay open. `shapes`: for open inputs.
    """
    parts = [("read", str(graph))]
    if set(missing_dims(graph)) <= set(shapes):
        graph = copy(graph)
        specialize(graph, {name: shapes[name] for name in missing_dims(graph)})
        check(graph, "specialize")
        parts.append(("specialize", str(graph)))
        cut_dynamic(graph, bounded(graph) if is_dynamic(graph) else None)
        graph.prune()
        applied = Counter[str]()
        with watching(lambda rule, node: applied.update([rule.__name__])):
            for name, after in stages(graph, Matches()):
                rules = ", ".join(f"{count} {rule}" for rule, count in applied.items())
                parts.append((f"{name}: {rules}" if rules else name, str(after)))
                applied.clear()
    return "\n\n".join(f"-- {name}\n{text}" for name, text in parts)


def memory_text(model: Model) -> str:
    """A picture of the arena: a row per step, a column per slice of memory."""
    plan = model.plan
    buffers = lifetimes(plan.program, plan.graph)
    return draw(list(buffers.values()), plan.program.arena)


def model_json(model: Model, facts: Mapping[str, Any]) -> dict[str, Any]:
    """All that `inspect` prints, for JSON; without a plan when input shapes are open."""
    found: dict[str, Any] = {"file": dict(facts), "isa": model.tier.name, "precision": model.precision}
    found |= {"threads": model.threads}
    if about := _about(model):
        found["about"] = about
    for kind, specs in (("inputs", model.inputs), ("outputs", model.outputs)):
        found[kind] = [_spec(s) for s in specs]
    if unplanned(model):
        return found | {"plan": None}
    plan = model.plan
    arena = plan.program.arena
    buffers = lifetimes(plan.program, plan.graph).values()
    return found | {
        "plan": {
            "arena": {"bytes": arena.size, "bound": arena.bound, "method": arena.heuristic},
            "buffers": [
                {"name": b.name, "bytes": b.size, "offset": at, "first": b.first, "last": b.last}
                for b, at in zip(buffers, arena.offsets, strict=True)
            ],
            "constant_bytes": sum(array.nbytes for array in plan.program.constants),
            "kernels": [str(kernel) for kernel in plan.kernels()],
            "steps": steps(plan.program),
        }
    }


def _about(model: Model) -> dict[str, str]:
    """What the file says of its model, by title: descriptions, and entries of its author's own."""
    metadata = model.metadata
    said = (metadata.description or metadata.graph_description) if metadata.opsets else ""  # others: file_facts
    own = {"description": said, **metadata.custom}
    return dict(model.signature.interface.about) or {title: text for title, text in own.items() if text}


def summary_text(model: Model, facts: Mapping[str, Any], width: int | None) -> str:
    """File, inputs and outputs, kernels and the table of steps."""
    rows = [("input", s.name, str(TensorType(s.dtype, s.shape, s.quantization))) for s in model.inputs]
    rows += [("output", s.name, str(TensorType(s.dtype, s.shape, s.quantization))) for s in model.outputs]
    about = [(title, " ".join(text.split())) for title, text in _about(model).items()]
    lines = [facts_text(facts), *table(about), *table(rows)]
    if why := unplanned(model):
        return "\n".join([*lines, why])
    counts = kernel_counts(model.plan.program)
    lines.append("kernels  " + ", ".join(f"{count} {name}" for name, count in counts.items()))
    if "numpy" in counts:
        lines.append("(numpy: steps that NumPy computes between native calls, because no kernel does them)")
    return "\n".join([*lines, "", model.plan.text(width)])


def unplanned(model: Model) -> str:
    """Why the model has no plan, and a remedy; "" when it has one."""
    if model.planned:
        return ""
    names = [name for name in missing_dims(model.signature) if model.unplanned or name not in model.signature.usual]
    flags = " ".join(f"--shape {name}=..." for name in names)
    why = f"those that the file names don't work ({model.unplanned})" if model.unplanned else "input shapes are open"
    return f"No plan yet: {why}. Give them with {flags}"


def _spec(spec: TensorSpec) -> dict[str, Any]:
    """An input or output for JSON; a quantization as scales, zero points and their axis."""
    found = {"name": spec.name, "shape": spec.shape, "dtype": str(spec.dtype)}
    return found | ({} if spec.quantization is None else {"quantization": spec.quantization._asdict()})
