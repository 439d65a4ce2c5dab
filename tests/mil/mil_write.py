"""Writes small Core ML programs for tests.

    p = Program()                                      # function "main"; p.function("other") begins another
    x = p.input("x", (1, 4))
    y = p.op("add", "y", x=x, y=np.float32([1, 2, 3, 4]))
    p.output(y)
    data = p.zip()                                     # or p.spec(), or p.save(folder)

Parameters are names of values, arrays and Python scalars (written as constants), and lists of them. The type of a
result is that of the first named operand, unless told.
"""

import io
import json
import zipfile
from pathlib import Path
from struct import pack
from typing import Any

import numpy as np

from fastgraph.frontends.mil.tensors import TYPES
from fastgraph.frontends.mil.wire import message

ELEMENTS = {
    name: name.upper()
    for name in "bool float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
} | {"object": "STRING"}
ARRAY_TYPES = {"FLOAT32": 65568, "FLOAT16": 65552, "INT32": 131104, "INT8": 131080, "FLOAT64": 65600}
FIELDS = {"FLOAT32": "floats", "FLOAT64": "doubles", "BOOL": "bools", "STRING": "strings"}
FIELDS |= dict.fromkeys(("INT32", "INT16", "UINT16", "UINT32"), "ints") | dict.fromkeys(("INT64", "UINT64"), "longInts")
BITS = {"INT4": 4, "UINT1": 1, "UINT2": 2, "UINT3": 3, "UINT4": 4, "UINT6": 6}
MANIFEST = {
    "fileFormatVersion": "1.0.0",
    "itemInfoEntries": {
        "A": {"author": "com.apple.CoreML", "name": "model.mlmodel", "path": "com.apple.CoreML/model.mlmodel"},
        "B": {"author": "com.apple.CoreML", "name": "weights", "path": "com.apple.CoreML/weights"},
    },
    "rootModelIdentifier": "A",
}
MODEL = "Data/com.apple.CoreML/model.mlmodel"
WEIGHTS = "Data/com.apple.CoreML/weights/weight.bin"


def element_of(array: Any) -> str:
    return ELEMENTS[str(np.asarray(array).dtype)]


def tensor_type(element: str, shape: Any, into: Any = None) -> Any:
    """A ValueType; `shape` None: of unknown rank, None in it: an unknown extent."""
    proto = message("MILSpec.ValueType")() if into is None else into
    tensor = proto.tensorType
    tensor.dataType = tensor.DESCRIPTOR.fields_by_name["dataType"].enum_type.values_by_name[element].number
    tensor.rank = -1 if shape is None else len(shape)
    for extent in shape or ():
        dim = tensor.dimensions.add()
        if extent is None:
            dim.unknown.variadic = False
        else:
            dim.constant.size = extent
    return proto


def packed(array: np.ndarray, element: str) -> bytes:
    """Elements as files hold them."""
    if element in BITS:
        bits = BITS[element]
        codes = (np.asarray(array).reshape(-1).astype(np.int64) & ((1 << bits) - 1)).astype(np.uint8)
        stream = np.unpackbits(codes[:, None], axis=1, count=bits, bitorder="little").reshape(-1)
        return np.packbits(stream, bitorder="little").tobytes()
    return np.ascontiguousarray(array).tobytes()


def value(array: Any, element: str = "", into: Any = None, shape: Any = None) -> Any:
    """A Value that holds a tensor itself."""
    array = np.asarray(array, object) if isinstance(array, str) else np.asarray(array)
    element = element or element_of(array)
    proto = message("MILSpec.Value")() if into is None else into
    tensor_type(element, array.shape if shape is None else shape, proto.type)
    tensor = proto.immediateValue.tensor
    field = FIELDS.get(element)
    if field is None:
        tensor.bytes.values = packed(array, element)
    else:
        held = getattr(tensor, field)
        held.SetInParent()
        held.values.extend(array.reshape(-1).tolist())
    return proto


def list_value(items: list[Any], into: Any = None) -> Any:
    proto = message("MILSpec.Value")() if into is None else into
    proto.type.listType.type.tensorType.CopyFrom(value(items[0]).type.tensorType)
    proto.type.listType.length.constant.size = len(items)
    for item in items:
        value(item, into=proto.immediateValue.list.values.add())
    return proto


class Program:
    """One model; `self.now` is the block that operations are written to."""

    def __init__(self, opset: str = "CoreML7", version: int = 8) -> None:
        self.opset = opset
        self.model = message("Model")()
        self.model.specificationVersion = version
        self.model.mlProgram.version = 1
        self.weights = bytearray(pack("<II56x", 0, 2))
        self.types: dict[str, Any] = {}
        self.count = 0
        self.several = False
        self.function("main")

    @property
    def description(self) -> Any:
        """Of the function at hand."""
        if not self.several:
            return self.model.description
        return next(f for f in self.model.description.functions if f.name == self.name)

    def describe_functions(self, default: str = "") -> None:
        """Describe functions one by one from here on."""
        self.several = True
        self.model.description.defaultFunctionName = default
        self.model.description.functions.add(name=self.name)

    def function(self, name: str) -> Any:
        self.name = name
        if self.several:
            self.model.description.functions.add(name=name)
        self.main = self.model.mlProgram.functions[name]
        self.main.opset = self.opset
        self.now = self.main.block_specializations[self.opset]
        return self.main

    def input(self, name: str, shape: Any, element: str = "FLOAT32", default: Any = None, image: str = "") -> str:
        """An input and its description; `default`: the shape that this gives for open extents."""
        declared = self.main.inputs.add(name=name)
        tensor_type(element, shape, declared.type)
        self.types[name] = declared.type
        feature = self.description.input.add(name=name)
        if image:
            kind = feature.type.imageType
            kind.height, kind.width = (default or shape)[-2:]
            kind.colorSpace = kind.DESCRIPTOR.enum_types_by_name["ColorSpace"].values_by_name[image].number
        else:
            feature.type.multiArrayType.dataType = ARRAY_TYPES[element]
            feature.type.multiArrayType.shape.extend(default or shape)
        return name

    def state(self, name: str, shape: Any, element: str = "FLOAT16") -> str:
        declared = self.main.inputs.add(name=name)
        tensor_type(element, shape, declared.type.stateType.wrappedType)
        self.types[name] = declared.type.stateType.wrappedType
        feature = self.description.state.add(name=name)
        feature.type.stateType.arrayType.dataType = ARRAY_TYPES[element]
        feature.type.stateType.arrayType.shape.extend(shape)
        return name

    def output(self, *names: str) -> None:
        """Outputs of the function, and their descriptions."""
        self.main.block_specializations[self.opset].outputs.extend(names)
        for name in names:
            feature, kind = self.description.output.add(name=name), self.types[name]
            if kind.WhichOneof("type") != "tensorType":
                feature.type.dictionaryType.stringKeyType.SetInParent()
                continue
            held = kind.tensorType.DESCRIPTOR.fields_by_name["dataType"].enum_type
            element = held.values_by_number[kind.tensorType.dataType].name
            if element == "STRING":
                feature.type.stringType.SetInParent()
            else:
                feature.type.multiArrayType.dataType = ARRAY_TYPES.get(element, 0)

    def blob(self, array: Any, element: str = "") -> Any:
        """A Value in the file of weights."""
        array = np.asarray(array)
        element = element or element_of(array)
        codes = {name: code for code, name in TYPES.items()}
        data = packed(array, element)
        offset = len(self.weights)
        padding = 8 * len(data) - array.size * BITS[element] if element in BITS else 0
        self.weights += pack("<IIQQQ32x", 0xDEADBEEF, codes[element], len(data), offset + 64, padding)
        self.weights += data + bytes(-len(data) % 64)
        self.weights[:4] = pack("<I", 1 + int.from_bytes(self.weights[:4], "little"))
        proto = message("MILSpec.Value")()
        proto.blobFileValue.fileName = "@model_path/weights/weight.bin"
        proto.blobFileValue.offset = offset
        tensor_type(element, array.shape, proto.type)
        return proto

    def const(self, array: Any, name: str = "", element: str = "") -> str:
        """A constant, of an array or a Value."""
        proto = array if hasattr(array, "immediateValue") else value(array, element)
        operation = self.now.operations.add(type="const")
        self.count += 1
        name = name or f"const_{self.count}"
        operation.attributes["val"].CopyFrom(proto)
        operation.outputs.add(name=name).type.CopyFrom(proto.type)
        self.types[name] = proto.type
        return name

    def op(self, kind: str, outputs: Any, types: Any = None, blocks: Any = (), direct: Any = (), **params: Any) -> Any:
        """An operation; its result's name, or their names when `outputs` is a list.

        `types`: (element, shape) or a ValueType, for each. Parameters in `direct` hold their values themselves.
        """
        operation = message("MILSpec.Operation")(type=kind)
        names = [outputs] if isinstance(outputs, str) else list(outputs)
        for key, given in params.items():
            for item in given if isinstance(given, list) else [given]:
                binding = operation.inputs[key].arguments.add()
                if isinstance(item, str) and (item in self.types or not direct):
                    binding.name = item
                elif key in direct:
                    binding.value.CopyFrom(item if hasattr(item, "immediateValue") else value(item))
                else:
                    binding.name = self.const(item)
        bound = [v for p in params.values() for v in (p if isinstance(p, list) else [p])]
        first = next((v for v in bound if isinstance(v, str) and v in self.types), None)
        given = [types] if isinstance(outputs, str) else list(types or [None] * len(names))
        for name, kind_ in zip(names, given, strict=True):
            out = operation.outputs.add(name=name)
            if isinstance(kind_, tuple):
                tensor_type(*kind_, into=out.type)
            else:
                out.type.CopyFrom(self.types[first] if kind_ is None else kind_)
            self.types[name] = out.type
        for block in blocks:
            operation.blocks.add().CopyFrom(block)
        self.now.operations.add().CopyFrom(operation)
        return outputs

    def block(self, build: Any, inputs: Any = ()) -> Any:
        """A nested block: `build` writes its operations and returns the names of its outputs."""
        before, self.now = self.now, message("MILSpec.Block")()
        for name, kind in inputs:
            tensor_type(*kind, into=self.now.inputs.add(name=name).type)
            self.types[name] = self.now.inputs[-1].type
        made = build()
        self.now.outputs.extend([made] if isinstance(made, str) else made)
        found, self.now = self.now, before
        return found

    def spec(self) -> bytes:
        return self.model.SerializeToString()

    def files(self) -> dict[str, bytes]:
        """The files of the package."""
        found = {"Manifest.json": json.dumps(MANIFEST).encode(), MODEL: self.spec()}
        return found | ({WEIGHTS: bytes(self.weights)} if len(self.weights) != 64 else {})

    def zip(self, folder: str = "") -> bytes:
        return zipped({folder + name: data for name, data in self.files().items()})

    def save(self, folder: Path) -> Path:
        for name, data in self.files().items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return folder


def zipped(files: dict[str, bytes]) -> bytes:
    """A zip archive of files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), data)
    return buffer.getvalue()
