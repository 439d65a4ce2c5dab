"""Writes small .tflite and .circle files for tests, by the schemas' tables.

m = Model()                                        # or Model("circle")
x = m.input((1, 4), name="x")                      # of the sub-graph at hand: 0, until m.graph() begins another
w = m.const(np.ones((2, 4), np.int8), quant=(0.1, 0))
(y,) = m.op("FULLY_CONNECTED", [x, w, None], [(1, 2)], keep_num_dims=False)
data = m.bytes([y])
"""

from importlib import import_module
from typing import Any

import flatbuffers
import numpy as np

NUMBERS = "float32 float16 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool complex64 complex128".split()
TYPES = {name: name.upper() for name in NUMBERS} | {"object": "STRING", "resource": "RESOURCE"}
PREPEND = "Bool Int8 Uint8 Int16 Uint16 Int32 Uint32 Int64 Uint64 Float32 Float64".split()
SCALARS = dict(zip("?bBhHiIqQfd", PREPEND, strict=True))


class Writer:
    """Tables as dicts to bytes, by a schema module's TABLES, ENUMS and UNIONS. A union is (table name, dict)."""

    def __init__(self, schema: str) -> None:
        self.schema = import_module(f"fastgraph.schemas.{schema}")
        self.builder = flatbuffers.Builder(1024)

    def file(self, root: str, fields: dict[str, Any], identifier: bytes) -> bytes:
        self.builder.Finish(self.table(root, fields), identifier)
        return bytes(self.builder.Output())

    def number(self, code: str, value: Any) -> tuple[str, Any]:
        """The scalar code and number of a field's value; enums are given by name or number."""
        if code.startswith("="):
            code, names = self.schema.ENUMS[code[1:]]
            if isinstance(value, str):
                value = {name: number for number, name in names.items()}[value]
        return code, value

    def table(self, kind: str, fields: dict[str, Any]) -> int:
        known = self.schema.TABLES[kind]
        unknown = set(fields) - set(known)
        assert not unknown, f"{kind} has no {unknown}"
        made = {name: self.reference(known[name][1], value) for name, value in fields.items() if value is not None}
        slots = max((at for at, _, _ in known.values()), default=2)
        self.builder.StartObject((slots - 4) // 2 + 1 if known else 0)
        for name, value in made.items():
            at, code, _ = known[name]
            slot = (at - 4) // 2
            if code[0] in ":[s":
                self.builder.PrependUOffsetTRelativeSlot(slot, value, 0)
            elif code[0] == "|":
                tag, offset = value
                self.builder.PrependUint8Slot(slot - 1, tag, 0)
                self.builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
            else:
                scalar, number = self.number(code, value)
                getattr(self.builder, f"Prepend{SCALARS[scalar]}")(number)
                self.builder.Slot(slot)
        return self.builder.EndObject()

    def reference(self, code: str, value: Any) -> Any:
        """What lies outside its table is written before it: the offset; for a union the tag too."""
        if code[0] == ":":
            return self.table(code[1:], value)
        if code[0] == "|":
            kind, fields = value
            tag = {name: number for number, name in self.schema.UNIONS[code[1:]].items()}[kind]
            return tag, self.table(kind, fields)
        if code == "s":
            return self.builder.CreateString(value)
        if code[0] != "[":
            return value
        inner = code[1:]
        if inner[0] in ":s":
            offsets = [self.reference(inner, item) for item in value]
            self.builder.StartVector(4, len(offsets), 4)
            for offset in reversed(offsets):
                self.builder.PrependUOffsetTRelative(offset)
            return self.builder.EndVector()
        numbers = [self.number(inner, item)[1] for item in value] if inner[0] == "=" else value
        scalar = self.number(inner, 0)[0]
        if isinstance(numbers, bytes | bytearray):
            numbers = np.frombuffer(numbers, np.uint8)
        return self.builder.CreateNumpyVector(np.ascontiguousarray(numbers, scalar).reshape(-1))


def packed_strings(texts: Any) -> np.ndarray:
    """Text tensors' bytes: count, offsets, end, then the text."""
    parts = [str(t).encode() for t in np.asarray(texts, object).reshape(-1)]
    ends = np.cumsum([0, *map(len, parts)]) + 4 * (len(parts) + 2)
    return np.frombuffer(np.array([len(parts), *ends], np.int32).tobytes() + b"".join(parts), np.uint8)


class Model:
    """A model under construction. Values are tensor indices of the sub-graph at hand."""

    def __init__(self, schema: str = "tflite") -> None:
        self.schema = schema
        self.buffers: list[dict[str, Any]] = [{}]
        self.fields: dict[str, Any] = {}
        self.codes: list[dict[str, Any]] = []
        self.graphs: list[dict[str, Any]] = []
        self.graph()

    def graph(self) -> int:
        """Begin another sub-graph; its index."""
        lists: dict[str, Any] = {"tensors": [], "inputs": [], "outputs": [], "operators": []}
        self.graphs.append({**lists, "name": f"g{len(self.graphs)}"})
        return len(self.graphs) - 1

    @property
    def now(self) -> dict[str, Any]:
        return self.graphs[-1]

    def tensor(self, shape: Any, dtype: Any = np.float32, quant: Any = None, name: str = "", **fields: Any) -> int:
        """quant: (scale, zero point) or (scales, zero points, axis)."""
        tensors = self.now["tensors"]
        kind = "resource" if isinstance(dtype, str) and dtype == "resource" else np.dtype(dtype).name
        entry = {"shape": list(shape), "type": TYPES[kind], "name": name or f"t{len(self.graphs) - 1}_{len(tensors)}"}
        if quant is not None:
            scale, zero, *axis = quant
            entry["quantization"] = {"scale": np.atleast_1d(scale), "zero_point": np.atleast_1d(zero)}
            if axis:
                entry["quantization"]["quantized_dimension"] = axis[0]
        tensors.append({**entry, **fields})
        return len(tensors) - 1

    def input(self, shape: Any, dtype: Any = np.float32, quant: Any = None, name: str = "") -> int:
        index = self.tensor(shape, dtype, quant, name)
        self.now["inputs"].append(index)
        return index

    def const(self, array: Any, quant: Any = None, **fields: Any) -> int:
        array = np.asarray(array)
        data = packed_strings(array) if array.dtype == object else np.frombuffer(array.tobytes(), np.uint8)
        self.buffers.append({"data": data})
        return self.tensor(array.shape, array.dtype, quant, buffer=len(self.buffers) - 1, **fields)

    def variable(self, shape: Any, dtype: Any = np.float32, quant: Any = None) -> int:
        return self.tensor(shape, dtype, quant, is_variable=True)

    def op(self, name: str, inputs: list[int | None], outputs: list[Any], /, **options: Any) -> list[int]:
        """The outputs: each entry is a tensor index, a shape, or (shape, dtype[, quant]).

        `custom`: options as bytes; `table`: that of the options; `intermediates`: tensors; `version`.
        """
        from fastgraph.frontends.circle.options import table_of
        from fastgraph.frontends.circle.wire import Wire

        custom, table = options.pop("custom", None), options.pop("table", None)
        writer = Writer(self.schema)
        number = {n: k for k, n in writer.schema.ENUMS["BuiltinOperator"][1].items()}
        if custom is None and name in number:
            code: dict[str, Any] = {"deprecated_builtin_code": min(number[name], 127), "builtin_code": number[name]}
        else:
            code = {"deprecated_builtin_code": 32, "builtin_code": 32, "custom_code": name}
        code["version"] = options.pop("version", 1)
        if code not in self.codes:
            self.codes.append(code)
        made = [
            o if isinstance(o, int) else self.tensor(*o) if o and isinstance(o[0], tuple | list) else self.tensor(o)
            for o in outputs
        ]
        entry: dict[str, Any] = {"opcode_index": self.codes.index(code), "outputs": list(made)}
        entry["inputs"] = [-1 if i is None else i for i in inputs]
        entry["intermediates"] = options.pop("intermediates", None)
        if custom is not None:
            entry["custom_options"] = np.frombuffer(custom, np.uint8)
        else:
            kind = table or table_of(name, Wire(b"\0" * 8, "", writer.schema))
            if kind is not None:
                first = kind in writer.schema.UNIONS["BuiltinOptions"].values()
                entry["builtin_options" if first else "builtin_options_2"] = (kind, options)
        self.now["operators"].append(entry)
        return made

    def bytes(self, outputs: list[int] | None = None) -> bytes:
        """The file, after noting the outputs of the sub-graph at hand."""
        if outputs is not None:
            self.now["outputs"] = outputs
        version, name = (3, b"TFL3") if self.schema == "tflite" else (0, b"CIR0")
        fields = {"version": version, "operator_codes": self.codes, "subgraphs": self.graphs, "buffers": self.buffers}
        return Writer(self.schema).file("Model", fields | {"description": "test"} | self.fields, name)


class Const:
    """An input that the file holds, with its quantization and what else its tensor says."""

    def __init__(self, array: Any, quant: Any = None, **fields: Any) -> None:
        self.array, self.quant, self.fields = np.asarray(array), quant, fields


class Fed(Const):
    """An input that is fed."""


def vec(*numbers: int, dtype: Any = np.int32) -> Const:
    return Const(np.array(numbers, dtype))


def at(number: float, dtype: Any = np.int32) -> Const:
    return Const(np.array(number, dtype))


def build(op: str, inputs: list[Const | None], outputs: list[Any], version: int, options: Any) -> tuple[bytes, list]:
    """A model of one operator, and what it is fed."""
    m, indices, feeds = Model(), [], []
    for x in inputs:
        if x is None:
            indices.append(None)
        elif isinstance(x, Fed):
            indices.append(m.input(x.array.shape, x.array.dtype, x.quant))
            feeds.append(x.array)
        else:
            indices.append(m.const(x.array, x.quant))
            m.now["tensors"][-1].update(x.fields)
    return m.bytes(m.op(op, indices, outputs, version=version, **options)), feeds


def litert(data: bytes, runs: list[list[Any]], reference: bool = True) -> list[list[np.ndarray]]:
    """The outputs of each run in LiteRT; variables live from one run to the next."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kind = OpResolverType.BUILTIN_REF if reference else OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(model_content=data, experimental_op_resolver_type=kind, num_threads=1)
    interpreter.allocate_tensors()
    found = []
    for feeds in runs:
        for detail, array in zip(interpreter.get_input_details(), feeds, strict=True):
            interpreter.set_tensor(detail["index"], np.asarray(array))
        interpreter.invoke()
        found.append([interpreter.get_tensor(d["index"]).copy() for d in interpreter.get_output_details()])
    return found


def ours(data: bytes, runs: list[list[Any]]) -> list[list[np.ndarray]]:
    """The same by the operators' references: states are handed from run to run."""
    from fastgraph.frontends.circle.load import load
    from fastgraph.ops.evaluate import evaluate, infer_graph

    graph = load(data, "test")
    infer_graph(graph)
    names = [v.name for v in graph.inputs]
    count = len(graph.outputs)
    states = [s.initial for s in graph.states]
    keys = [s.input.name for s in graph.states]
    graph.unfold_states()
    found = []
    for feeds in runs:
        fed = dict(zip(names, map(np.asarray, feeds), strict=True)) | dict(zip(keys, states, strict=True))
        results = evaluate(graph, fed)
        found.append(results[:count])
        states = results[count:]
    return found
