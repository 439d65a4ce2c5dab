"""Schemas of protobuf: those of the packages, compiled from the .proto files, and at peace with the packages."""

import importlib.util
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import onnx
import pytest
from google.protobuf import descriptor_pb2

from tests.mil.mil_write import Program
from tests.onnx.onnx_models import one
from tests.processes import python

HAS_COREMLTOOLS = importlib.util.find_spec("coremltools") is not None
needs_coremltools = pytest.mark.skipif(not HAS_COREMLTOOLS, reason="coremltools is not installed")


def ours(name: str) -> dict[str, Any]:
    """The files of a descriptor set, by name."""
    data = resources.files("fastgraph.schemas").joinpath(f"{name}.desc").read_bytes()
    return {f.name: f for f in descriptor_pb2.FileDescriptorSet.FromString(data).file}


def theirs(module: Any) -> Any:
    file = descriptor_pb2.FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    return file


def fields(messages: Any, prefix: str = "") -> Iterator[tuple[str, int, int, int, str]]:
    for message in messages:
        for field in message.field:
            yield f"{prefix}{message.name}.{field.name}", field.number, field.label, field.type, field.type_name
        yield from fields(message.nested_type, f"{prefix}{message.name}.")


def enums(scope: Any, prefix: str = "") -> Iterator[tuple[str, int]]:
    for enum in scope.enum_type:
        yield from ((f"{prefix}{enum.name}.{v.name}", v.number) for v in enum.value)
    for message in getattr(scope, "message_type", None) or getattr(scope, "nested_type", ()):
        yield from enums(message, f"{prefix}{message.name}.")


def test_all_of_the_onnx_package_is_in_the_schema() -> None:
    (mine,), other = ours("onnx").values(), theirs(onnx.onnx_ml_pb2)
    assert not {*fields(other.message_type)} - {*fields(mine.message_type)}
    left = dict(enums(other)).items() - dict(enums(mine)).items()
    assert {name for name, _ in left} <= {"Version.IR_VERSION"}


@needs_coremltools
def test_every_field_of_programs_and_features_is_as_in_coremltools() -> None:
    from coremltools.proto import FeatureTypes_pb2, MIL_pb2, Model_pb2

    program, model = (ours("mil")[name] for name in ("MIL.proto", "CoreML.proto"))
    assert {*fields(program.message_type)} == {*fields(theirs(MIL_pb2).message_type)}
    assert set(enums(program)) == set(enums(theirs(MIL_pb2)))
    assert set(enums(model)) == set(enums(theirs(FeatureTypes_pb2)))
    others = [m for module in (FeatureTypes_pb2, Model_pb2) for m in theirs(module).message_type]
    wanted, own = ({*fields(m for m in found if m.name != "Model")} for found in (others, model.message_type))
    assert own <= wanted
    missing = {name.partition(".")[0] for name, *_ in wanted - own}
    assert missing <= {"Pipeline", "PipelineClassifier", "PipelineRegressor", "SerializedModel"}
    models = [next(m for m in found if m.name == "Model") for found in (model.message_type, others)]
    assert [(f.name, f.number) for f in models[0].field] == [(f.name, f.number) for f in models[1].field]


@pytest.mark.parametrize("name", ["onnx", "mil"])
def test_descriptor_set_was_compiled_from_the_texts(name: str) -> None:
    kind = r"(?:(?:optional|repeated)\s+)?(?:[\w.]+|map<[\w, ]+>)"
    for file, compiled in ours(name).items():
        text = resources.files("fastgraph.schemas").joinpath(file).read_text()
        declared = re.findall(rf"^\s*{kind}\s+(\w+)\s*=\s*(\d+)\s*(?:\[.*?\])?;", text, re.M)
        held = [(f.rpartition(".")[2], str(n)) for f, n, *_ in fields(compiled.message_type) if "Entry." not in f]
        values = re.findall(r"^\s*(\w+)\s*=\s*(\d+);", text, re.M)
        assert sorted(declared) == sorted(held)
        assert sorted(values) == sorted((value.rpartition(".")[2], str(number)) for value, number in enums(compiled))


READ = "from fastgraph.frontends import read; graph = read(open({!r}, 'rb').read())"
THEIRS = {
    "onnx": "import onnx; assert onnx.load(open({!r}, 'rb')).graph.node[0].op_type == 'Relu'",
    "mil": "import coremltools; spec = coremltools.proto.Model_pb2.Model.FromString(open({!r}, 'rb').read())\n"
    "assert spec.mlProgram.functions['main'].opset == 'CoreML7'",
}


def saved(name: str, folder: Path) -> str:
    """A model of one relu."""
    program, path = Program(), folder / "m"
    program.output(program.op("relu", "y", x=program.input("x", (2, 3))))
    path.write_bytes(program.spec() if name == "mil" else one("Relu", ["x"], 13).SerializeToString())
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize("ours_first", [True, False])
@pytest.mark.parametrize("name", ["onnx", pytest.param("mil", marks=needs_coremltools)])
def test_works_beside_the_package_in_either_order(name: str, ours_first: bool, tmp_path: Path) -> None:
    path = saved(name, tmp_path)
    first, second = [READ, THEIRS[name]][:: 1 if ours_first else -1]
    check = "assert [n.op for n in graph.nodes] == ['relu']\nprint('ok')"
    assert python("-c", f"{first}\n{second}\n{check}".replace("{!r}", repr(path))).endswith("ok\n")


@pytest.mark.slow
def test_reading_a_program_imports_no_package_and_no_generated_code(tmp_path: Path) -> None:
    script = READ.format(saved("mil", tmp_path)) + (
        "\nimport sys\nprint(sorted(m for m in sys.modules if m.split('.')[0] in ('coremltools', 'llvmlite', "
        "'PIL', 'torch') or m.endswith('_pb2') and 'google' not in m))"
    )
    assert python("-c", script) == "[]\n"


@pytest.mark.slow
def test_protobuf_without_its_c_implementation_or_with_another_reads_the_same(tmp_path: Path) -> None:
    path = saved("onnx", tmp_path)
    other = "from google.protobuf import message_factory\nimport google._upb._message as m\n"
    other += "m.MessageMeta = lambda name, bases: None\n"
    script = READ.format(path) + "; graph.source = ''; print(graph)"
    pure = {"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}
    texts = [python("-c", script), python("-c", other + script)]
    texts.append(python("-c", f"import sys\nsys.modules['google._upb._message'] = None\n{script}", **pure))
    assert texts[0] == texts[1] == texts[2] and "relu" in texts[0]
