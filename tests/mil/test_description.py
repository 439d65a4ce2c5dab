"""Inputs and outputs as the model's description says: shapes, types, images, defaults, labels; and the command line."""

import json

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.cli import main
from fastgraph.errors import InputError, ModelError, UnsupportedError
from fastgraph.frontends import read
from tests.mil.mil_write import Program, list_value, message
from tests.tables import entries


def identity(shape, element="FLOAT32", **more) -> Program:
    """y = relu(x)"""
    p = Program()
    p.output(p.op("relu", "y", x=p.input("x", shape, element, **more)))
    return p


def array_type(p: Program):
    return p.model.description.input[0].type.multiArrayType


def refused(p: Program, match: str, kind=ModelError) -> None:
    with pytest.raises(kind, match=match):
        read(p.zip())


# -- shapes


def ranged(low=(1, 3), high=(1, 8)) -> Program:
    p = identity((1, None), default=(1, 4))
    for a, b in zip(low, high, strict=True):
        array_type(p).shapeRange.sizeRanges.add(lowerBound=a, upperBound=b)
    return p


def test_ranges_are_kept_and_the_default_is_planned_at_load():
    model = fg.load(ranged().zip(), threads=1)
    assert model.inputs[0].shape == (1, None)
    assert model.plan.signature()[0][1].shape == (1, 4)
    for n in (3, 4, 8):
        assert model.run({"x": np.ones((1, n), np.float32)})["y"].shape == (1, n)
    for n in (2, 9, 0):
        with pytest.raises(InputError, match=rf"input 'x' has shape \[1, {n}\], the model allows \[1, 3..8\]"):
            model.run({"x": np.ones((1, n), np.float32)})
    with pytest.raises(InputError, match="allows"):
        model.resize({"x": (1, 9)})
    with pytest.raises(InputError, match="allows"):
        fg.load(ranged().zip(), shapes={"x": (1, 9)})
    assert fg.load(ranged().zip(), shapes={"x": (1, 8)}).inputs[0].shape == (1, 8)
    with pytest.raises(InputError):
        model.run({"x": np.ones((2, 4), np.float32)})


def test_ranges_may_have_no_end():
    model = fg.load(ranged((1, 2), (1, -1)).zip(), threads=1)
    assert model.run({"x": np.ones((1, 500), np.float32)})["y"].shape == (1, 500)
    with pytest.raises(InputError, match=r"allows \[1, 2\.\.\]"):
        model.run({"x": np.ones((1, 1), np.float32)})


def test_enumerated_shapes():
    p = identity((None, None), default=(2, 3))
    for shape in ((2, 3), (4, 6)):
        array_type(p).enumeratedShapes.shapes.add(shape=shape)
    model = fg.load(p.zip(), threads=1)
    assert model.plan.signature()[0][1].shape == (2, 3)
    assert model.run({"x": np.ones((4, 6), np.float32)})["y"].shape == (4, 6)
    with pytest.raises(InputError, match=r"has shape \[2, 6\], the model allows \[2, 3\] or \[4, 6\]"):
        model.run({"x": np.ones((2, 6), np.float32)})


def test_the_description_fixes_what_the_program_leaves_open():
    assert read(identity((None, 4), default=(2, 4)).zip()).inputs[0].type.shape == (2, 4)


CONTRADICTED = r"""
a.shape[:] = [1, 5] | allows \[1, 5\], the program says float32\[1,4\]
a.shape.append(1) | has 3 dimensions, the program says
a.shape[:] = [1, -4] | extents that some memory can hold
a.shape[:] = [1 << 40, 1 << 40] | extents that some memory can hold
sizes.add(lowerBound=5, upperBound=2) | a range of extents, found 5 to 2
sizes.add(lowerBound=1, upperBound=2) | has 1 dimensions
[sizes.add(lowerBound=5, upperBound=9) for _ in "ab"] | allows \[5..9, 5..9\]
[a.enumeratedShapes.shapes.add(shape=[1] * n) for n in (1, 2)] | one number of dimensions
a.dataType = 131104 | its description says int32, the program float32
a.dataType = 5 | one of Core ML's array types, found number 5
"""


@pytest.mark.parametrize("edit, match", entries(CONTRADICTED))
def test_descriptions_that_the_program_contradicts(edit, match):
    p = identity((1, 4))
    exec(edit, {"a": array_type(p), "sizes": array_type(p).shapeRange.sizeRanges})
    refused(p, match)


def test_names_that_do_not_agree():
    p = identity((1, 4))
    p.model.description.input.add(name="q").type.multiArrayType.dataType = 65568
    refused(p, "its description gives input 'q', the program takes x")
    p = identity((1, 4))
    p.model.description.output.add(name="q").type.multiArrayType.dataType = 65568
    refused(p, "its description gives output 'q', the program gives y")
    p = identity((1, 4))
    p.model.description.input.add().CopyFrom(p.model.description.input[0])
    refused(p, "'x' is described twice")


def test_outputs_are_in_the_descriptions_order():
    p = Program()
    x = p.input("x", (1, 4))
    p.output(p.op("relu", "a", x=x), p.op("abs", "b", x=x))
    first = p.model.description.output[0].name
    p.model.description.output.add().CopyFrom(p.model.description.output[0])
    del p.model.description.output[0]
    assert first == "a" and [v.name for v in read(p.zip()).outputs] == ["b", "a"]


# -- element types


def test_the_description_says_what_callers_feed_and_get():
    p = identity((1, 4), "FLOAT16")
    array_type(p).dataType = 65568
    p.model.description.output[0].type.multiArrayType.dataType = 65600
    x = np.float32([[1.1, -1, 2, 0]])
    model = fg.load(p.zip(), threads=1)
    out = model.run({"x": x})["y"]
    assert model.inputs[0].dtype == np.float32 and out.dtype == np.float64
    np.testing.assert_array_equal(out, np.maximum(x, 0))


def test_without_a_description_the_program_says_it():
    p = identity((1, 4), "FLOAT16")
    p.model.description.Clear()
    model = fg.load(p.zip())
    assert model.inputs[0].dtype == np.float16 and model.outputs[0].dtype == np.float16


def test_integers_and_wrong_types():
    p = Program()
    p.output(p.op("add", "y", x=p.input("x", (3,), "INT32"), y=np.int32([1, 2, 3])))
    model = fg.load(p.zip())
    np.testing.assert_array_equal(model.run({"x": np.int32([1, 1, 1])})["y"], [2, 3, 4])
    with pytest.raises(InputError, match="dtype float64"):
        model.run({"x": np.full(3, 0.5)})


@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_number_is_a_scalar_or_an_array_of_one(shape):
    p = identity(shape, default=(1,))
    model = fg.load(p.zip(), threads=1)
    for fed in (np.float32(3), np.float32([3]), np.array(3, np.float32)):
        assert model.run({"x": fed})["y"].tolist() in (3, [3])
    with pytest.raises(InputError):
        model.run({"x": np.float32([3, 4])})


def test_inputs_that_may_be_left_out():
    p = Program()
    x, bias, more = p.input("x", (1, 4)), p.input("bias", (1, 4)), p.input("more", (1, 4))
    p.output(p.op("add", "y", x=p.op("add", "s", x=x, y=bias), y=more))
    for feature, default in zip(p.model.description.input[1:], (0.5, None), strict=True):
        feature.type.isOptional = True
        if default is not None:
            feature.type.multiArrayType.floatDefaultValue = default
    model = fg.load(p.zip(), threads=1)
    ones = np.ones((1, 4), np.float32)
    np.testing.assert_array_equal(model.run({"x": ones})["y"], ones * 1.5)
    np.testing.assert_array_equal(model.run({"x": ones, "more": ones})["y"], ones * 2.5)
    np.testing.assert_array_equal(model.run({"x": ones, "bias": ones, "more": ones})["y"], ones * 3)
    with pytest.raises(InputError, match="input 'x' was not fed"):
        model.run({"bias": ones})


def test_inputs_that_are_no_tensors():
    p = identity((1, 4))
    p.model.description.input[0].type.dictionaryType.stringKeyType.SetInParent()
    refused(p, "input 'x': inputs of dictionaryType", UnsupportedError)
    p = identity((1, 4))
    p.main.inputs[0].type.listType.type.tensorType.dataType = 10
    refused(p, "inputs that are no tensors but list<float16", UnsupportedError)


# -- images


def picture(layout: str, element="FLOAT32", head=(1,)) -> Program:
    channels = 1 if "GRAY" in layout else 3
    return identity((*head, channels, 2, 4), element, image=layout)


PIXELS = np.arange(2 * 4 * 3, dtype=np.uint8).reshape(2, 4, 3) * 10


@pytest.mark.parametrize("element", ["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("layout", ["RGB", "BGR"])
def test_color_images(layout, element):
    image = pytest.importorskip("PIL.Image")
    model = fg.load(picture(layout, element).zip(), threads=1)
    step = 1 if layout == "RGB" else -1
    planes = np.ascontiguousarray(PIXELS[:, :, ::step].transpose(2, 0, 1)[None], model.inputs[0].dtype)
    alpha = np.concatenate([PIXELS, np.full((2, 4, 1), 255, np.uint8)], axis=2)
    for fed in (PIXELS, planes, planes.astype(np.uint8), image.fromarray(PIXELS), image.fromarray(alpha)):
        np.testing.assert_array_equal(model.run({"x": fed})["y"], planes)
    with pytest.raises(InputError, match=r"an image of 3 channels .* shape \[2, 4, 1\] was given"):
        model.run({"x": PIXELS[:, :, 0]})
    with pytest.raises(InputError, match=r"has shape \(1, 3, 4, 2\)"):
        model.run({"x": image.fromarray(PIXELS).rotate(90, expand=True)})


@pytest.mark.parametrize("layout, element", [("GRAYSCALE", "FLOAT32"), ("GRAYSCALE_FLOAT16", "FLOAT16")])
def test_gray_images(layout, element):
    image = pytest.importorskip("PIL.Image")
    model = fg.load(picture(layout, element).zip(), threads=1)
    gray = PIXELS[:, :, 0]
    want = gray[None, None].astype(model.inputs[0].dtype)
    for fed in (gray, gray[:, :, None], image.fromarray(gray), want):
        np.testing.assert_array_equal(model.run({"x": fed})["y"], want)


def test_images_without_a_batch():
    model = fg.load(picture("RGB", head=()).zip())
    np.testing.assert_array_equal(model.run({"x": PIXELS})["y"], PIXELS.transpose(2, 0, 1))


def test_images_of_several_sizes():
    p = identity((1, 3, None, None), image="RGB", default=(1, 3, 2, 4))
    kind = p.model.description.input[0].type.imageType
    for height, width in ((2, 4), (4, 4)):
        kind.enumeratedSizes.sizes.add(width=width, height=height)
    model = fg.load(p.zip(), threads=1)
    assert model.run({"x": np.concatenate([PIXELS, PIXELS])})["y"].shape == (1, 3, 4, 4)
    with pytest.raises(InputError, match=r"the model allows \[1, 3, 2, 4\] or \[1, 3, 4, 4\]"):
        model.run({"x": PIXELS[:1]})
    kind.imageSizeRange.widthRange.CopyFrom(message("SizeRange")(lowerBound=1, upperBound=4))
    kind.imageSizeRange.heightRange.CopyFrom(message("SizeRange")(lowerBound=1, upperBound=-1))
    model = fg.load(p.zip(), threads=1)
    assert model.run({"x": PIXELS[:1]})["y"].shape == (1, 3, 1, 4)
    with pytest.raises(InputError, match=r"allows \[1, 3, 1\.\., 1\.\.4\]"):
        model.run({"x": np.zeros((2, 5, 3), np.uint8)})


def test_damaged_images():
    p = picture("RGB")
    p.model.description.input[0].type.imageType.colorSpace = 0
    refused(p, "color spaces, found number 0")
    p = identity((4,), image="RGB", default=(2, 4))
    refused(p, r"expected a tensor \[1, channels, height, width\] for an image")
    p = picture("GRAYSCALE")
    p.model.description.input[0].type.imageType.colorSpace = 20
    refused(p, r"allows \[1, 3, 2, 4\], the program says float32\[1,1,2,4\]")


# -- labels


def classifier(labels, probabilities=None) -> Program:
    p = Program()
    p.op("softmax", "p", x=p.input("x", (1, 3)), axis=np.int32(-1))
    classes = list_value(labels)
    element = "STRING" if isinstance(labels[0], str) else "INT64"
    table = message("MILSpec.ValueType")()
    table.dictionaryType.keyType.CopyFrom(classes.type.listType.type)
    table.dictionaryType.valueType.CopyFrom(p.types["p"])
    table.dictionaryType.valueType.tensorType.ClearField("dimensions")
    table.dictionaryType.valueType.tensorType.rank = 0
    given = "p" if probabilities is None else p.const(probabilities)
    names, types = ["classLabel", "classLabel_probs"], [(element, ()), table]
    p.op("classify", names, types, direct=("classes",), probabilities=given, classes=classes)
    p.output("classLabel", "classLabel_probs")
    p.model.description.predictedFeatureName = "classLabel"
    return p


@pytest.mark.parametrize("labels", [["cat", "dog", "eel"], [np.int64(7), np.int64(5), np.int64(9)]])
def test_classifiers_give_labels_and_dictionaries(labels):
    model = fg.load(classifier(labels).zip(), threads=1)
    out = model.run({"x": np.float32([[0, 3, 1]])})
    assert out["classLabel"] == labels[1] and type(out["classLabel"]) in (str, int)
    assert list(out["classLabel_probs"]) == [x if isinstance(x, str) else int(x) for x in labels]
    assert sum(out["classLabel_probs"].values()) == pytest.approx(1)
    label, probabilities = model(np.float32([[0, 0, 9]]))
    assert label == labels[2] and max(probabilities, key=probabilities.get) == label


def test_labels_are_not_read_by_operators():
    p = classifier(["a", "b", "c"])
    p.op("identity", "z", x="classLabel")
    refused(p, "operators that read 'classLabel', which is no tensor", UnsupportedError)


def test_classes_of_what_is_no_number():
    """A fuzzer's."""
    refused(classifier(["a"], np.array("a", object)), "expected probabilities of a float type")


# -- what people see


def described() -> Program:
    p = identity((1, 4))
    p.model.description.metadata.shortDescription = "What it does,\nin short."
    p.model.description.metadata.author = "Somebody"
    p.model.description.metadata.userDefined["com.example.key"] = "text"
    p.model.description.input[0].shortDescription = "four numbers"
    return p


def test_inspect_shows_functions_and_descriptions(tmp_path, capsys):
    folder = str(described().save(tmp_path / "m.mlpackage"))
    assert main(["inspect", folder]) == 0
    shown = capsys.readouterr().out
    parts = "Core ML|functions main (CoreML7)|What it does, in short.|Somebody|com.example.key|four numbers"
    for part in [*parts.split("|"), "input   x  float32[1,4]"]:
        assert part in shown
    assert main(["inspect", folder, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["file"]["functions"] == {"main": "CoreML7"} and found["about"]["author"] == "Somebody"
    assert found["file"]["nodes"] == 1 and found["file"]["bytes"] > 100
    assert main(["inspect", folder, "--stages"]) == 0
    assert "relu" in capsys.readouterr().out


def test_inspect_shows_what_inputs_take(tmp_path, capsys):
    p = Program()
    img, x, o = p.input("img", (1, 3, 2, 4), image="BGR"), p.input("x", (None,), default=(4,)), p.input("o", (1,))
    p.output(p.op("relu", "y", x=img), p.op("abs", "z", x=x), p.op("abs", "w", x=o))
    features = p.model.description.input
    features[1].type.multiArrayType.shapeRange.sizeRanges.add(lowerBound=2, upperBound=-1)
    features[1].shortDescription = "a row"
    features[2].type.isOptional = True
    about = read(p.zip()).interface.about
    assert about["input img"] == "an image, BGR" and about["input x"] == "[2..]; a row"
    assert about["input o"] == "0 when left out"


def test_run_takes_a_function_and_images(tmp_path, capsys):
    p = Program()
    p.describe_functions("main")
    p.output(p.op("relu", "y", x=p.input("x", (1, 4))))
    p.function("image")
    p.output(p.op("relu", "z", x=p.input("x", (1, 3, 2, 4), image="BGR")))
    path = tmp_path / "m.mlpackage.zip"
    path.write_bytes(p.zip())
    pytest.importorskip("PIL.Image").fromarray(PIXELS).save(tmp_path / "x.png")
    found = tmp_path / "out.npz"
    of = ["run", str(path), "--function", "image", "--input", str(tmp_path / "x.png")]
    assert main([*of, "--output", str(found)]) == 0
    with np.load(found) as out:
        np.testing.assert_array_equal(out["z"], PIXELS[:, :, ::-1].transpose(2, 0, 1)[None])
    assert main(["run", str(path), "--random"]) == 0
    assert main(["run", str(path), "--random", "--function", "no"]) == 2
    assert "the functions are image, main" in capsys.readouterr().err
    assert main(["bench", str(path), "--function", "image", "--runs", "5", "--allow-noise", "--json", "-"]) == 0


def test_run_shows_labels(tmp_path, capsys):
    path = tmp_path / "c.mlpackage.zip"
    path.write_bytes(classifier(["cat", "dog", "eel"]).zip())
    assert main(["run", str(path), "--random"]) == 0
    assert "classLabel" in capsys.readouterr().out
