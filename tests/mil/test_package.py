"""Where a model is: folders, zip archives, single files, bytes; and paths that lead elsewhere."""

import io
import json
import os
import shutil
import zipfile
from struct import pack_into

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.errors import InputError, ModelError, UnsupportedError
from fastgraph.frontends import kind_of, read
from fastgraph.frontends.mil.package import open_package
from tests.mil.mil_write import MANIFEST, MODEL, WEIGHTS, Program, zipped

X = np.arange(16, dtype=np.float32).reshape(1, 16)
W = np.linspace(-1, 1, 16, dtype=np.float32).reshape(1, 16)


def weighted() -> Program:
    """y = x + w, with w in the file of weights."""
    p = Program()
    x = p.input("x", (1, 16))
    p.output(p.op("add", "y", x=x, y=p.const(p.blob(W))))
    return p


def plain() -> Program:
    p = Program()
    p.output(p.op("relu", "y", x=p.input("x", (1, 16))))
    return p


def gives_sum(source) -> None:
    np.testing.assert_array_equal(fg.load(source, threads=1).run({"x": X})["y"], X + W)


def test_folder_zip_and_bytes_are_the_same_model(tmp_path):
    p = weighted()
    folder = p.save(tmp_path / "m.mlpackage")
    gives_sum(folder)
    gives_sum(str(folder) + os.sep)
    for i, top in enumerate(("", "m.mlpackage/", "a/b/m.mlpackage/")):
        path = tmp_path / f"m{i}.mlpackage.zip"
        path.write_bytes(p.zip(top))
        gives_sum(path)
        gives_sum(path.read_bytes())
    gives_sum(zipped({**p.files(), "__MACOSX/._Manifest.json": b"junk", "a/Manifest.json": b"deeper"}))


def test_mlmodel_alone_finds_weights_beside_it(tmp_path):
    folder = weighted().save(tmp_path / "m.mlpackage")
    gives_sum(folder / MODEL)
    shutil.copy(folder / MODEL, tmp_path / "alone.mlmodel")
    with pytest.raises(ModelError, match=r"weights/weight.bin, which is missing"):
        fg.load(tmp_path / "alone.mlmodel")
    with pytest.raises(ModelError, match="load the .mlpackage by its path"):
        fg.load((folder / MODEL).read_bytes())
    gives_sum(zipped({"x/model.mlmodel": weighted().spec(), "x/weights/weight.bin": weighted().files()[WEIGHTS]}))


def test_mlmodel_without_weights_and_its_bytes(tmp_path):
    data = plain().spec()
    for name in ("m.mlmodel", "m.bin", "model"):
        (tmp_path / name).write_bytes(data)
        np.testing.assert_array_equal(fg.load(tmp_path / name).run({"x": -X})["y"], 0 * X)
    assert fg.load(memoryview(data)).inputs[0].name == "x"
    assert kind_of(data) == "mil" and kind_of(bytearray(data)) == "mil"


def test_nothing_hangs_on_the_files_once_they_are_read(tmp_path):
    folder = weighted().save(tmp_path / "m.mlpackage")
    model = fg.load(folder)
    os.truncate(folder / WEIGHTS, 0)  # of a mapped file, this would end the process
    (constant,) = [v.data for v in model.graph.constants() if v.data.shape == W.shape]
    np.testing.assert_array_equal(constant, W)
    np.testing.assert_array_equal(model.run({"x": X})["y"], X + W)
    assert not constant.flags.writeable


@pytest.mark.parametrize("path", ["../m.mlmodel", "/etc/passwd", "C:\\m.mlmodel", "a/../../b", "..\\m", "", "a\0"])
def test_manifest_may_not_lead_out_of_the_package(path):
    files = weighted().files()
    manifest = json.loads(json.dumps(MANIFEST))
    manifest["itemInfoEntries"]["A"]["path"] = path
    with pytest.raises(ModelError, match="within the package"):
        read(zipped({**files, "Manifest.json": json.dumps(manifest).encode()}))


OUTSIDE = ["@model_path/../weights.bin", "@model_path//etc/passwd", "/etc/passwd", "weight.bin", "@model_path/"]
OUTSIDE += ["@model_path/a\\..\\..\\b", "@model_path/C:x", "@model_path/\0"]


@pytest.mark.parametrize("name", OUTSIDE)
def test_programs_may_not_name_files_elsewhere(name, tmp_path):
    p = weighted()
    p.now.operations[0].attributes["val"].blobFileValue.fileName = name
    for source in (p.zip(), p.save(tmp_path / "m.mlpackage")):
        with pytest.raises(ModelError, match="expected its file as|within the package"):
            read(source)


def test_links_may_not_lead_out_of_the_package(tmp_path):
    folder = weighted().save(tmp_path / "m.mlpackage")
    shutil.move(folder / WEIGHTS, tmp_path / "elsewhere.bin")
    os.symlink(tmp_path / "elsewhere.bin", folder / WEIGHTS)
    with pytest.raises(ModelError, match="leads out of the package"):
        read(folder)
    (folder / WEIGHTS).unlink()
    (folder / WEIGHTS).mkdir()
    with pytest.raises(ModelError, match="expected a regular file, found a folder"):
        read(folder)


def test_missing_weights_and_models_are_named(tmp_path):
    folder = weighted().save(tmp_path / "m.mlpackage")
    (folder / WEIGHTS).unlink()
    with pytest.raises(ModelError, match=r"m.mlpackage: function 'main': operation 0.*weight.bin, which is missing"):
        read(folder)
    (folder / MODEL).unlink()
    with pytest.raises(ModelError, match="names the model Data/com.apple.CoreML/model.mlmodel, which is missing"):
        read(folder)
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none.mlpackage")


MANIFESTS = ["", "[]", "{", '{"fileFormatVersion": "1.0.0"}', "[" * 100_000, "null", "\xff"]
MANIFESTS += [
    json.dumps(MANIFEST | change) for change in ({"rootModelIdentifier": ["A"]}, {"fileFormatVersion": "2.0"})
]


@pytest.mark.parametrize("text", MANIFESTS)
def test_damaged_manifests(text):
    with pytest.raises(ModelError, match="Manifest.json does not say|format version"):
        read(zipped({**weighted().files(), "Manifest.json": text.encode("latin-1")}))


def test_folders_and_archives_that_are_no_packages(tmp_path):
    (tmp_path / "note.txt").write_text("hello")
    with pytest.raises(ModelError, match="Manifest.json, found note.txt"):
        read(tmp_path)
    compiled = tmp_path / "m.mlmodelc"
    compiled.mkdir()
    (compiled / "coremldata.bin").write_bytes(b"")
    with pytest.raises(ModelError, match="load the .mlpackage that it was made from"):
        read(compiled)
    with pytest.raises(ModelError, match="no Manifest.json in it"):
        read(zipped({"data.pkl": b""}))
    with pytest.raises(ModelError, match="expected one package.*a/Manifest.json, b/Manifest.json"):
        read(zipped({"a/Manifest.json": b"", "b/Manifest.json": b""}))


def test_archives_cut_short_or_damaged():
    data = bytearray(weighted().zip())
    for end in (5, 100, len(data) - 10):
        with pytest.raises(ModelError, match="zip archive"):
            read(bytes(data[:end]))
    at = data.index(W.tobytes())
    data[at : at + 4] = b"abcd"
    with pytest.raises(ModelError, match="can't read .*weight.bin from the archive"):
        read(bytes(data))


def test_a_member_may_not_declare_more_than_an_archive_can_hold():
    data = bytearray(zipped(weighted().files()))
    place = data.rindex(b"PK\x01\x02")
    pack_into("<II", data, place + 20, 64, 0xFFFFFFF0)
    with pytest.raises(ModelError, match="of a file that stores|zip archive"):
        read(bytes(data))


def test_an_onnx_file_has_no_functions_to_choose_from(tmp_path):
    from fastgraph.demo import MODEL as ONNX

    with pytest.raises(InputError, match="an ONNX file has one graph"):
        fg.load(ONNX, function="main")


def test_other_formats_are_not_taken_for_core_ml(tmp_path):
    from fastgraph.demo import MODEL as ONNX

    data = open(ONNX, "rb").read()
    assert kind_of(data) == kind_of(ONNX) == "onnx"
    assert kind_of(b"") == kind_of(b"\x08") == kind_of(b"\xff" * 40) == "onnx"
    assert open_package(data).spec == data
    (tmp_path / "renamed.mlmodel").write_bytes(data)
    with pytest.raises((ModelError, UnsupportedError)):
        read(tmp_path / "renamed.mlmodel")


def refused_by_limits(data: bytes, match: str, limit: int = 1000) -> None:
    with pytest.raises(ModelError, match=match):
        fg.load(data, limits=fg.Limits(constants=limit))


def squeezed(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return stream.getvalue()


def test_archives_may_not_hold_more_than_their_bytes_can_become():
    """A megabyte of zeros in a few thousand bytes: as weights, as the model, as the manifest."""
    files = weighted().files()
    for name in (WEIGHTS, MODEL, "Manifest.json"):
        refused_by_limits(
            squeezed({**files, name: files.get(name, b"") + bytes(1 << 20)}),
            f"{name}: constants of .* of a file that stores",
        )


def test_entries_count_together():
    p = weighted()
    x = "x"
    for i in range(40):
        x = p.op("add", f"y{i}", x=x, y=p.const(p.blob(W)))
    p.output(x)
    files = p.files()
    blob = files.pop(WEIGHTS) + bytes(100_000)
    names = [f"{WEIGHTS}{i:03}" for i in range(41)]
    consts = [o for o in p.now.operations if o.type == "const"]
    for name, const in zip(names, consts[:41], strict=True):
        const.attributes["val"].blobFileValue.fileName = "@model_path/weights/" + name.rpartition("/")[2]
    data = squeezed({**files, MODEL: p.spec(), **dict.fromkeys(names, blob)})
    assert 64 * len(data) > len(blob)
    refused_by_limits(data, "of a file that stores", 10 * len(blob))
    fg.load(data)


def test_an_archive_of_many_manifests_is_refused_at_once():
    files = {f"{i}/Manifest.json": b"{}" for i in range(5000)}
    with pytest.raises(ModelError, match="expected one package"):
        fg.load(zipped(files))


def test_a_package_of_links_to_files_side_by_side(tmp_path):
    folder, cache = weighted().save(tmp_path / "m.mlpackage"), tmp_path / "blobs"
    cache.mkdir()
    expected = read(folder)
    for at, name in enumerate(("Manifest.json", MODEL, WEIGHTS)):
        shutil.move(folder / name, cache / str(at))
        os.symlink(cache / str(at), folder / name)
    assert str(read(folder)) == str(expected)


@pytest.mark.parametrize("name", [WEIGHTS, "Manifest.json", MODEL])
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in the file system")
def test_members_that_are_no_regular_files(name, tmp_path):
    for i, make in enumerate((os.mkfifo, os.mkdir, lambda path: os.symlink(path, path))):
        folder = weighted().save(tmp_path / f"m{i}.mlpackage")
        (folder / name).unlink()
        make(folder / name)
        with pytest.raises(ModelError, match="regular file|missing|can't read|expected a package"):
            fg.load(folder)
