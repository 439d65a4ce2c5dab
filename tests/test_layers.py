"""Folders are layers: who may import whom is declared in docs/imports.py, and modules import nobody in circles."""

from graphlib import CycleError, TopologicalSorter

import pytest

from docs.imports import LAYERS, arrows, folder, imports, modules, picture


def test_modules_do_not_import_each_other_in_circles() -> None:
    try:
        TopologicalSorter(imports()).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_no_import_goes_up() -> None:
    wrong = [each for (one, other), pairs in arrows().items() if other not in LAYERS.get(one, ()) for each in pairs]
    assert not wrong, "\n".join(wrong)


def test_layers_stand_on_those_before_them() -> None:
    names = list(LAYERS)
    for name, others in LAYERS.items():
        assert set(others) <= set(names[: names.index(name)]), name
    assert {folder(module) for module in modules()} == set(names)


def test_what_is_found() -> None:
    """Relative, absolute, of packages and within functions; not what only type checkers see."""
    found = imports()
    assert {"fastgraph.errors", "fastgraph.locks"} <= found["fastgraph"]
    assert "fastgraph.runtime.model" not in found["fastgraph"], "for type checkers only"
    assert "fastgraph.objects.workers" in found["fastgraph.objects.cache"], "within a function"
    assert "fastgraph.kernels" in found["fastgraph.objects.toolchain"]
    assert "fastgraph.deadline" in found["fastgraph.objects.cache"], "a module of a package"
    assert "fastgraph.cli" in found["fastgraph.__main__"]
    assert "runtime --> compile" in picture() and "runtime --> ir" not in picture()


def test_a_folder_and_its_sub_folders_do_not_import_each_other_both_ways() -> None:
    found = imports()
    files = modules()
    package = {m: m if path.name == "__init__.py" else m.rpartition(".")[0] for m, path in files.items()}
    pairs = {(package[one], package[other]) for one, others in found.items() for other in others if other in package}
    both = [(one, other) for one, other in pairs if other.startswith(f"{one}.") and (other, one) in pairs]
    assert not [pair for pair in both if pair[0] != "fastgraph"], both
