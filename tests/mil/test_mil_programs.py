"""The programs of coremltools' own operator tests: all run, and give what those tests expect of Core ML."""

import pytest

import fastgraph as fg
from fastgraph.errors import ModelError
from fastgraph.frontends import read
from fastgraph.frontends.mil.package import open_package
from fastgraph.frontends.mil.wire import parse
from tests.mil.mil_models import FOLDER, arrays, by_references, compare, feeds

NAMES = sorted(path.name for path in FOLDER.glob("*"))
pytestmark = pytest.mark.skipif(not NAMES, reason="no shared/models/mil beside the repository")

REFUSED: dict[str, str] = {
    "iOS17_test_scatter_gather_py_TestScatterAlongAxis_test_ios17_invalid_indices_0a90af304788": "index 10",
    "iOS17_test_scatter_gather_py_TestScatterNd_test_ios17_invalid_indices_5040ae69d540": "index -1",
    "iOS17_test_scatter_gather_py_TestScatterNd_test_ios17_invalid_indices_de4952ce2009": "index 3",
}
"""Indices that don't exist, with validate_indices: Core ML refuses them too, and so do these tests of coremltools'."""

UNDOCUMENTED = {
    "iOS15_test_image_resizing_py_TestCropResize_test_builder_to_backend_smoke_21901fab3105": (
        "a box beyond the image, whose first corner lies after its second: Core ML takes the whole image, fastgraph "
        "the padding that is there"
    )
}
"""What no document says, and fastgraph does in another way."""
RUN = [name for name in NAMES if name not in REFUSED and name not in UNDOCUMENTED]


def _relative(name: str) -> float:
    """2e-3 for programs with FLOAT16 in them, 1e-4 for others."""
    program = parse(open_package(FOLDER / name / "model.mlpackage", name).spec, name).mlProgram
    return 2e-3 if "FLOAT16" in str(program) else 1e-4


@pytest.mark.parametrize("name", RUN)
def test_a_program_gives_what_its_test_expects(name: str) -> None:
    given, wanted = arrays(FOLDER / name)
    graph = read(FOLDER / name / "model.mlpackage")
    compare(by_references(graph, given), wanted, _relative(name))


@pytest.mark.parametrize("name", REFUSED)
def test_a_program_with_bad_indices_is_refused(name: str) -> None:
    graph = read(FOLDER / name / "model.mlpackage")
    with pytest.raises(ModelError, match=REFUSED[name]):
        by_references(graph, arrays(FOLDER / name)[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_a_program_runs_and_gives_what_its_test_expects(name: str) -> None:
    given, wanted = arrays(FOLDER / name)
    path = FOLDER / name / "model.mlpackage"
    found = fg.load(path, threads=1).run(feeds(read(path), given))
    compare(found, wanted, _relative(name))
