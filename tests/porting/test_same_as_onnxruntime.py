"""The same calls of onnxruntime and of fastgraph.onnxruntime: the same results, and exceptions of the same name."""

import os
import warnings

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import numpy as np
import onnxruntime
import pytest

import fastgraph.onnxruntime
from tests.porting.calls import ADD, BINDINGS, FILES, RUNS, SESSIONS, VALUES, WRONG

onnxruntime.set_default_logger_severity(4)
MODULES = onnxruntime, fastgraph.onnxruntime
ALL = {
    f"{table}: {name}": call
    for table, calls in {
        "run": RUNS, "session": SESSIONS, "value": VALUES, "binding": BINDINGS, "file": FILES, "wrong": WRONG,
    }.items()
    for name, call in calls.items()
}  # fmt: skip


@pytest.fixture(scope="module")
def sessions():
    return {ort: ort.InferenceSession(ADD, providers=["CPUExecutionProvider"]) for ort in MODULES}


def outcome(ort, session, call):
    """What a call gives or raises, and the classes of what it warns of."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            result = call(ort, session)
        except Exception as error:
            result = f"raised {type(error).__name__}"
            assert str(error)
    return result, sorted({warning.category.__name__ for warning in said})


def check(one, other):
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(other, one, rtol=1e-6)
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            check(a, b)
    else:
        assert one == other


@pytest.mark.parametrize("name", ALL)
def test_same(sessions, name):
    real, ours = (outcome(ort, sessions[ort], ALL[name]) for ort in MODULES)
    check(real, ours)


def test_texts_of_errors_say_what_onnxruntime_says():
    """Packages look for parts of them."""
    texts = {}
    for ort in MODULES:
        session = ort.InferenceSession(ADD, providers=["CPUExecutionProvider"])
        texts[ort] = []
        for name in ("no such output", "nothing fed", "one too many", "rank", "extent", "terminated"):
            with pytest.raises(Exception) as caught:
                RUNS[name](ort, session)
            texts[ort].append(str(caught.value))
    assert texts[onnxruntime] == texts[fastgraph.onnxruntime]


LATER = {
    "ModelPackageWriteMode",  # an enumeration of packages, which there are not
    "datasets", "experimental", "import_capi_exception", "contextlib", "onnxruntime_validation",
}  # fmt: skip


def test_every_public_name_is_there():
    public = {name for name in dir(onnxruntime) if not name.startswith("_")}
    assert public - set(dir(fastgraph.onnxruntime)) - LATER - loaded() == set()


def loaded() -> set[str]:
    """Submodules of onnxruntime that another test may have imported."""
    return {"backend", "quantization", "tools", "transformers"}


@pytest.mark.parametrize(
    "name",
    [
        "InferenceSession", "IOBinding", "OrtValue", "OrtDevice", "SessionOptions", "RunOptions", "NodeArg",
        "ModelMetadata", "OrtMemoryInfo", "OrtArenaCfg",
    ],
)  # fmt: skip
def test_every_member_is_there(name):
    theirs = {member for member in dir(getattr(onnxruntime, name)) if not member.startswith("_")}
    ours = getattr(fastgraph.onnxruntime, name)
    made = {
        "NodeArg": lambda: fastgraph.onnxruntime.InferenceSession(ADD).get_inputs()[0],
        "ModelMetadata": lambda: fastgraph.onnxruntime.InferenceSession(ADD).get_modelmeta(),
        "OrtMemoryInfo": lambda: fastgraph.onnxruntime.OrtMemoryInfo("Cpu", 1, 0, 0),
        "OrtArenaCfg": lambda: fastgraph.onnxruntime.OrtArenaCfg({}),
    }.get(name, lambda: ours)()
    rare = {"create_v2", "set_ep_context_data_read_func", "clear_ep_context_data_read_func"}
    sparse = {"as_sparse_tensor", "ort_value_from_sparse_tensor"}
    assert theirs - set(dir(made)) - rare - sparse == set()


def test_enumerations_have_the_same_members():
    for name, theirs in vars(onnxruntime).items():
        members = getattr(theirs, "__members__", None)
        if members is None or name in LATER:
            continue
        ours = getattr(fastgraph.onnxruntime, name)
        assert {k: int(v) for k, v in members.items()} == {k: int(v) for k, v in ours.__members__.items()}, name
        assert [repr(v) for v in members.values()] == [repr(v) for v in (ours[k] for k in members)]
        assert [str(v) for v in members.values()] == [str(v) for v in (ours[k] for k in members)]


def test_exceptions_of_the_same_names_can_be_imported_from_capi():
    from onnxruntime.capi import onnxruntime_pybind11_state as theirs

    from fastgraph.onnxruntime.capi import onnxruntime_pybind11_state as ours

    kinds = {n for n, v in vars(theirs).items() if isinstance(v, type) and issubclass(v, BaseException)}
    assert kinds
    for name in kinds:
        kind = getattr(ours, name)
        assert issubclass(kind, Exception) and kind.__name__ == name
        assert not issubclass(kind, RuntimeError | ValueError)  # as theirs


def test_defaults_of_options_are_the_same():
    for name in ("SessionOptions", "RunOptions"):
        theirs, ours = (getattr(ort, name)() for ort in MODULES)
        members = [m for m in dir(theirs) if not m.startswith("_") and not callable(getattr(theirs, m))]
        assert len(members) > 4
        assert {m: str(getattr(theirs, m)) for m in members} == {m: str(getattr(ours, m)) for m in members}
