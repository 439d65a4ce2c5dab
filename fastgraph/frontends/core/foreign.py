"""Files that hold no model that is read here: what they are, and the way from them to one that is.

Only those whose first bytes are not a model's, or that were found to be none, are looked at.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from ...errors import ModelError

DAMAGED = "check that the file was written and copied completely"

_TORCH = "export it in Python: torch.onnx.export(model, inputs, 'net.onnx')"
_KERAS = "export it with Keras 3, model.export('net.onnx', format='onnx'), or with tf.lite.TFLiteConverter"
_WEIGHTS = "weights without a network; load it in the library that wrote it, and export that model to ONNX"
_ORIGINAL = "take the ONNX or TensorFlow Lite file that it was made of"
_UNPACK = "unpack it, and load the model in it"
_FEED = "a model is fed with it: fastgraph run MODEL --input {name}"

_KINDS = {
    "tflite": ("a TensorFlow Lite model", "call it .tflite"),
    "circle": ("a Circle model", "call it .circle"),
    "torch": ("a PyTorch checkpoint or program", _TORCH, ".pt .pth .pt2 .ckpt"),
    "pickle": ("a Python pickle", "load it in Python and export the model: PyTorch's with torch.onnx.export, "
                                  "scikit-learn's with skl2onnx", ".pkl .pickle .joblib"),
    "safetensors": ("a safetensors file", f"these are {_WEIGHTS}, as optimum-cli export onnx does", ".safetensors"),
    "gguf": ("a GGUF file", f"these are {_WEIGHTS}, from the checkpoint that the GGUF file was made of", ".gguf"),
    "hdf5": ("an HDF5 file (a Keras model?)", _KERAS, ".h5 .hdf5"),
    "keras": ("a Keras model", _KERAS, ".keras"),
    "saved": ("a TensorFlow SavedModel", "convert it: tf.lite.TFLiteConverter.from_saved_model(folder).convert(), or "
                                         "python -m tf2onnx.convert --saved-model folder --output net.onnx"),
    "tensorflow": ("a TensorFlow graph", "convert it: python -m tf2onnx.convert --graphdef or --saved-model",
                   ".pb .pbtxt"),
    "tfjs": ("a TensorFlow.js model", "convert the TensorFlow or Keras model that it was made of"),
    "openvino": ("an OpenVINO model (IR)", _ORIGINAL, ".xml"),
    "xml": ("an XML file", _ORIGINAL),
    "tensorrt": ("a TensorRT engine, for one kind of GPU", _ORIGINAL, ".engine .trt .plan"),
    "ncnn": ("an ncnn network", _ORIGINAL, ".param"),
    "mnn": ("an MNN network", _ORIGINAL, ".mnn"),
    "litertlm": ("a LiteRT-LM bundle of models and a tokenizer", "load a .tflite that is in it", ".litertlm"),
    "elf": ("a compiled program or library", "give the network's file that it was made of, or that it reads"),
    "hardware": ("a network that was compiled for other hardware", _ORIGINAL,
                 ".rknn .hef .om .dlc .blob .nb .tmfile .kmodel"),
    "weights": ("a file of numbers, perhaps the weights that lie beside a network", "give the network's own file, as "
                ".onnx; of OpenVINO's (.xml) and ncnn's (.param) take the ONNX file that they were made of",
                ".bin .data .weights"),
    "ort": ("a model in onnxruntime's own format (.ort)", _ORIGINAL, ".ort"),
    "executorch": ("an ExecuTorch program", _TORCH, ".pte"),
    "paddle": ("a Paddle model", "convert it: paddle2onnx --model_filename ... --save_file net.onnx",
               ".pdmodel .pdiparams"),
    "caffe": ("a Caffe network", "convert it to ONNX", ".caffemodel .prototxt"),
    "mlmodelc": ("a compiled Core ML model", "load the .mlpackage that it was made from", ".mlmodelc"),
    "image": ("an image", _FEED, ".jpg .jpeg .png .gif .bmp .webp"),
    "array": ("a NumPy array", _FEED, ".npy .npz"),
    "html": ("a web page (HTML), perhaps that of a failed download", "download the file itself, by its direct link",
             ".html"),
    "lfs": ("a Git LFS pointer: the file itself was not downloaded", "run git lfs pull where it was cloned"),
    "zip": ("a zip archive without an .mlpackage", _UNPACK),
    "archive": ("a compressed archive", _UNPACK, ".gz .bz2 .xz .7z .zst .tar .tgz"),
    "json": ("JSON", _ORIGINAL, ".json"),
    "text": ("a text", "give the model's file", ".txt .py"),
    "pdf": ("a PDF document", "give the model's file"),
}  # fmt: skip
"""By kind: what it is, what to do, and how names of such files end."""

_NAMES = {end: kind for kind, (_, _, *ends) in _KINDS.items() for end in " ".join(ends).split()}

_MAGIC = (
    (4, b"TFL3", "tflite"), (4, b"CIR0", "circle"), (0, b"GGUF", "gguf"), (0, b"\x89HDF", "hdf5"),
    (0, b"\x93NUMPY", "array"), (0, b"version https://git-lfs", "lfs"),
    (0, b"PK\x03\x04", "zip"), (0, b"\x1f\x8b", "archive"), (0, b"BZh", "archive"), (0, b"\xfd7zXZ", "archive"),
    (0, b"7z\xbc\xaf", "archive"), (0, b"\x28\xb5\x2f\xfd", "archive"), (0, b"\xff\xd8\xff", "image"),
    (0, b"\x89PNG", "image"), (0, b"GIF8", "image"), (8, b"WEBP", "image"), (0, b"%PDF", "pdf"),
    (0, b"ORTM", "ort"), (4, b"ORTM", "ort"), (4, b"ET1", "executorch"), (0, b"7767517", "ncnn"),
    (0, b"LITERTLM", "litertlm"), (0, b"\x7fELF", "elf"), (4, b'\0\0\0\0{"', "safetensors"),
    (0, b"\x80\x02\x8a\x0a", "torch"), *((0, bytes((128, n)), "pickle") for n in range(2, 6)),
    (0, b"{", "json"), (0, b"import ", "text"), (0, b"#", "text"),
)  # fmt: skip

_INSIDE = (
    ("keras", ("model.weights.h5",)), ("torch", ("data.pkl", "constants.pkl", "serialized_exported_program")),
    ("saved", ("saved_model.pb",)), ("mlmodelc", ("coremldata.bin", "model.mil")), ("tfjs", ("model.json",)),
    ("safetensors", (".safetensors",)), ("openvino", (".xml",)), ("array", (".npy",)),
)  # fmt: skip
"""Kinds of archives and folders, by how the names of files in them end."""


def known(head: bytes, name: str) -> str:
    """The kind of a file, a key of _KINDS, by its first 64 bytes, else by its name; "" when neither tells."""
    for at, magic, kind in _MAGIC:
        if head[at : at + len(magic)] == magic:
            return kind
    start = head.lstrip().lower()
    if start.startswith(b"<"):
        return "openvino" if b"<net" in start else "xml" if start.startswith(b"<?xml") else "html"
    return _NAMES.get(os.path.splitext(name)[1].lower(), "") or ("text" if _is_text(head) else "")


def _is_text(head: bytes) -> bool:
    """Whether all are letters and the like of ASCII, or it says to be UTF-16."""
    plain = all(32 <= byte < 127 or byte in b"\t\n\r" for byte in head)
    return head[:2] in (b"\xff\xfe", b"\xfe\xff") or plain and len(head) > 4


def said(kind: str, name: str) -> str:
    """A name for a kind of files, and what to do with one."""
    what, advice, *_ = _KINDS[kind]
    return f"it is {what}; {advice.format(name=name)}"


def refuse(head: bytes, name: str) -> None:
    """ModelError when a file that begins so, or is called so, is known to hold no model that is read here."""
    kind = known(head, name)
    if kind:
        raise ModelError(f"{name or 'model'}: no ONNX, TensorFlow Lite, Circle or Core ML model: {said(kind, name)}")


def guess(head: bytes, name: str) -> str:
    """The text for a file that could not be read: its kind, as far as that is known, and what to do."""
    kind = known(head, name)
    return said(kind, name) if kind else DAMAGED


def holding(names: Sequence[str], name: str) -> str:
    """As `guess`, for an archive or a folder with files of these names; "" when the kind is not known."""
    models = [each for each in names if each.endswith((".onnx", ".tflite", ".circle", ".mlmodel", ".mlpackage"))]
    if models:
        return f"give the path of the model that is in it: {', '.join(sorted(models)[:5])}"
    for kind, ends in _INSIDE:
        if any(each.endswith(ends) for each in names):
            return said(kind, name)
    return said(_NAMES[suffix], name) if (suffix := os.path.splitext(name)[1].lower()) in _NAMES else ""
