"""Schemas against the tables made of them and against LiteRT's own; FlatBuffers and FlexBuffers, sound and damaged."""

import random
import re
from struct import pack_into, unpack_from

import numpy as np
import pytest
from flatbuffers import flexbuffers

from fastgraph.errors import ModelError
from fastgraph.frontends.circle.flex import decode
from fastgraph.frontends.circle.wire import Wire
from fastgraph.schemas import circle, fbs, tflite
from tests.circle.write import Writer

SCHEMAS = {"circle": circle, "tflite": tflite}


@pytest.mark.parametrize("name", fbs.SCHEMAS)
def test_tables_are_those_of_the_schema_file(name):
    written: dict = {"__package__": fbs.__package__}
    exec(fbs.generated(name), written)
    for title in ("TABLES", "ENUMS", "UNIONS"):
        assert written[title] == getattr(SCHEMAS[name], title), f"run python -m fastgraph.schemas.fbs ({title})"


def test_schema_language():
    tables, enums, unions = fbs.parse("""
        enum E : ubyte { A, B = 4, C }   // a remark
        union U { T, V = 7 }
        table T { x:int = -3; gone:string (deprecated); u:U; e:[E]; one:E = C; f:float = 0.5; b:bool = true; v:[T]; }
        table V {}
    """)
    assert enums == {"E": ("B", {0: "A", 4: "B", 5: "C"})}
    assert unions == {"U": {1: "T", 7: "V"}}
    assert tables["V"] == {}
    assert tables["T"] == {
        "x": (4, "i", -3), "u": (10, "|U", None), "e": (12, "[=E", None), "one": (14, "=E", "C"), "f": (16, "f", 0.5),
        "b": (18, "?", True), "v": (20, "[:T", None),
    }  # fmt: skip


def test_tflite_schema_is_litert_s():
    """Every enum, and every field's place in its table, as in the code that the installed LiteRT was generated to."""
    twin = pytest.importorskip("ai_edge_litert.schema_py_generated", reason="ai-edge-litert is not installed")
    for name, (_, members) in tflite.ENUMS.items():
        assert {n: k for k, n in members.items()} == {
            k: v for k, v in vars(getattr(twin, name)).items() if not k.startswith("_")
        }, name
    for name, tags in tflite.UNIONS.items():
        assert {0: "NONE", **tags} == {v: k for k, v in vars(getattr(twin, name)).items() if not k.startswith("_")}
    for name, fields in tflite.TABLES.items():
        adders = {key.removeprefix(f"{name}Add").lower() for key in vars(twin) if re.match(f"{name}Add[A-Z]", key)}
        assert {f.replace("_", "") for f in fields} == {a for a in adders if not _is_tag(a, fields)}, name
        for field, (place, _, _) in fields.items():
            add = next(v for k, v in vars(twin).items() if k.lower() == f"{name}add{field.replace('_', '')}".lower())
            recorder = _Recorder()
            add(recorder, 1)
            assert recorder.slot == (place - 4) // 2, (name, field)


def _is_tag(adder: str, fields: dict) -> bool:
    base = {f.replace("_", ""): kind for f, (_, kind, _) in fields.items()}.get(adder.removesuffix("type"), "")
    return adder.endswith("type") and base.startswith("|")


class _Recorder:
    """Stands for a builder, and notes which slot was written."""

    def __getattr__(self, name: str):
        return lambda slot, *_: self.__dict__.update(slot=slot)


def test_circle_is_tflite_with_more():
    for name, fields in tflite.TABLES.items():
        for field, spec in circle.TABLES.get(name, {}).items():
            if field in fields:
                assert fields[field] == spec, (name, field)
    shared = set(tflite.ENUMS["BuiltinOperator"][1].values()) & set(circle.ENUMS["BuiltinOperator"][1].values())
    assert len(shared) == 206 and "SPLIT_V" in shared


def model(**fields):
    return Writer("tflite").file("Model", {"version": 3, "description": "näme", **fields}, b"TFL3")


def root(data: bytes):
    return Wire(data, "file", tflite).root("Model")


def test_fields_and_defaults():
    data = model(
        subgraphs=[{
            "tensors": [{"shape": [1, 2], "type": "INT8", "name": "t", "quantization": {"zero_point": [1 << 40, -5]}}],
            "operators": [{"builtin_options": ("Conv2DOptions", {"stride_w": 7, "padding": "VALID"})}],
        }],
        buffers=[{}, {"data": np.arange(5, dtype=np.uint8)}],
    )  # fmt: skip
    found = root(data)
    assert found.version == 3 and found.description == "näme" and found.metadata_buffer == ()
    tensor = found.subgraphs[0].tensors[0]
    assert tensor.shape == (1, 2) and tensor.type == "INT8" and tensor.name == "t" and tensor.is_variable is False
    assert tensor.shape_signature == ()
    assert tensor.quantization.zero_point == (1 << 40, -5) and tensor.sparsity is None
    options = found.subgraphs[0].operators[0].builtin_options
    assert options.kind == "Conv2DOptions" and options.stride_w == 7 and options.padding == "VALID"
    assert options.dilation_h_factor == 1
    assert options.fused_activation_function == "NONE"
    view = found.buffers[1].array("data")
    assert view.tolist() == [0, 1, 2, 3, 4] and not view.flags.writeable and not view.flags.owndata
    assert len(found.buffers[0].array("data")) == 0
    with pytest.raises(AttributeError, match="no field 'color'"):
        getattr(found, "color")  # noqa: B009
    with pytest.raises(IndexError):
        found.buffers[2]


def damage(data: bytes, at: int, value: int, form: str = "<I") -> bytes:
    found = bytearray(data)
    pack_into(form, found, at, value)
    return bytes(found)


def test_damage_is_told_with_place_and_field():
    data = model(buffers=[{"data": np.zeros(9, np.uint8)}])
    at = unpack_from("<I", data)[0]
    vtable = at - unpack_from("<i", data, at)[0]
    field = at + unpack_from("<H", data, vtable + tflite.TABLES["Model"]["description"][0])[0]
    text = field + unpack_from("<I", data, field)[0]
    cases = {
        "expected an offset": (damage(data, field, 1 << 30), "description"),
        "expected a text that ends": (damage(data, text, len(data)), "description"),
        "expected it within the table": (damage(data, vtable + 10, 4000, "<H"), "description"),
        "vtable": (damage(data, at, -(1 << 30), "<i"), "description"),
        "expected a Model within": (damage(data, 0, 1 << 31), "description"),
        "expected a Model of at least 4 bytes": (damage(data, vtable + 2, 65535, "<H"), "description"),
    }
    for message, (broken, name) in cases.items():
        with pytest.raises(ModelError, match=message) as caught:
            getattr(root(broken), name)
        assert str(caught.value).startswith("file: ") and "byte" in str(caught.value)
    with pytest.raises(ModelError, match="field 'buffers' of Model.*expected a vector that ends"):
        place = at + unpack_from("<H", data, vtable + tflite.TABLES["Model"]["buffers"][0])[0]
        len(root(damage(data, place + unpack_from("<I", data, place)[0], 1 << 29)).buffers)
    with pytest.raises(ModelError, match="at least 8 bytes"):
        root(b"TFL3")


def test_unknown_enum_and_union_are_told():
    data = model(subgraphs=[{"operators": [{"builtin_options": ("AddOptions", {})}], "tensors": [{"type": 99}]}])
    with pytest.raises(ModelError, match="field 'type' of Tensor.*expected a TensorType, found 99"):
        getattr(root(data).subgraphs[0].tensors[0], "type")  # noqa: B009
    tag = data.index(bytes([11]), 60)
    for at in range(tag, len(data)):
        try:
            kind = root(data[:at] + b"\xfa" + data[at + 1 :]).subgraphs[0].operators[0].builtin_options
            assert kind is None or kind.kind == "AddOptions"
        except ModelError as error:
            if "BuiltinOptions, found number 250" in str(error):
                break
    else:
        pytest.fail("no byte of the file was the union's tag")


VALUES = [
    {"a": 1, "b": 2.5, "c": [1, 2, 3], "d": "xyz", "e": {"f": True, "g": None}, "h": [1, "a", 2.5]},
    {}, [], 5, -70000, 2.5, "text", True, None, {"u": 2**40, "n": -(2**40)}, [1.5] * 300, {"s": ["a", "bb"]},
    {"x": [True, False]}, {"blob": b"123"}, {str(i): i for i in range(300)},
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda v: repr(v)[:20])
def test_flexbuffers(value):
    assert decode(bytes(flexbuffers.Dumps(value)), "here") == value


def test_flexbuffers_fixed_vectors():
    builder = flexbuffers.Builder()
    builder.FixedTypedVectorFromElements([1, 2, 3])
    assert decode(bytes(builder.Finish()), "here") == [1, 2, 3]


def test_damaged_flexbuffers_are_refused_or_read():
    rng = random.Random(5)
    sound = bytes(flexbuffers.Dumps(VALUES[0]))
    refused = 0
    for _ in range(3000):
        data = bytearray(sound)
        for _ in range(rng.choice([1, 2, 6])):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            decode(bytes(data[: rng.randrange(len(data) + 1)] if rng.random() < 0.2 else data), "here")
        except ModelError as error:
            refused += 1
            assert str(error).startswith("here: custom options are not sound FlexBuffers: ")
    assert refused > 500


def test_flexbuffers_that_share_bytes_stay_small():
    """300 entries of one 64 kB string would be 20 MB."""
    text = b"\xff\xff" + b"x" * 65535
    vector = bytearray(text + bytes(1))
    start = len(vector) + 4
    vector += pack_words([300, *(start + 4 * i - 2 for i in range(300))]) + bytes([5 << 2 | 1] * 300)
    vector += bytes([(len(vector) - start) & 255, (len(vector) - start) >> 8, 10 << 2 | 2, 2])
    with pytest.raises(ModelError, match="share bytes"):
        decode(bytes(vector), "here")


def pack_words(words: list[int]) -> bytes:
    return np.asarray(words, "<u4").tobytes()
