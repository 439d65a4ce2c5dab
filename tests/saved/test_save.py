"""What `save` refuses, and that a file is whole or not there."""

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import fastgraph as fg
from fastgraph.saved import container
from tests.custom_ops import between, forgotten, register  # noqa: F401
from tests.model.test_kinds_of_feeds import OPTIONAL, SEQUENCE
from tests.model.test_kinds_of_feeds import model as lists
from tests.nets import Net
from tests.saved.round_trip import drawn, is_stored
from tests.tables import entries


def layer(rows: int | str = 2) -> Net:
    net = Net()
    net.output(net("Relu", net("MatMul", net.input("x", (rows, 8)), net.weight(8, 16))))
    return net


NONSENSE = r"""
3 | InputError | the path of a file, int was given
None | InputError | the path of a file
p, isa="avx3" | InputError | isa='avx3': there is no tier 'avx3'; the tiers are generic, avx2
p, isa="" | InputError | isa=''
p, isa=[] | InputError | isa=\[\]
p, isa=5 | InputError | isa=5
p, isa=[["avx2"]] | InputError | isa=
p, isa="numpy" | UnsupportedError | no machine code
p, isa=["avx2", "numpy"] | UnsupportedError | no machine code
p.with_suffix(".onnx") | InputError | is called \*.fgm: save\('.*m.fgm'\)
p, threads=0 | InputError | threads=0: expected whole numbers from 1
p, threads=[] | InputError | threads=
p, threads=True | InputError | threads=
p, threads="2" | InputError | threads=
p, threads=1.5 | InputError | threads=
p, threads=[1, 257] | InputError | threads=
p, shapes={"x": (2, 8)} | InputError | shapes in a list of dicts
p, shapes=[] | InputError | shapes in a list of dicts
p, shapes="x" | InputError | shapes in a list of dicts
p, shapes=5 | InputError | shapes in a list of dicts
p, shapes=[5] | InputError | save takes shapes by input name in a dict
p, shapes=[{"y": (2, 8)}] | InputError | no input is called 'y'
p, shapes=[{"x": (3, 8)}] | InputError | has shape
p, shapes=[{"x": "ab"}] | InputError | whole numbers
p, any_shape="yes" | InputError | any_shape='yes': expected True or False
p, graph=None | InputError | graph=None: expected True or False
"""


@pytest.mark.parametrize("call, kind, match", entries(NONSENSE))
def test_nonsense(call: str, kind: str, match: str, tmp_path: Path) -> None:
    model, p = layer().load(), tmp_path / "m.fgm"
    with pytest.raises(getattr(fg, kind), match=match):
        eval(f"model.save({call})", {"model": model, "p": p})
    assert not list(tmp_path.iterdir())


def test_paths_may_be_bytes_of_os_or_hold_any_letters(tmp_path: Path) -> None:
    model = layer().load()
    path = tmp_path / "größe ✓.fgm"
    model.save(path)
    assert is_stored(fg.load(path)) and [p.name for p in tmp_path.iterdir()] == [path.name]


def test_open_shapes_have_to_be_said(tmp_path: Path) -> None:
    with pytest.raises(fg.InputError, match="say which to plan for"):
        layer("n").load().save(tmp_path / "m.fgm")


def test_what_is_in_the_way(tmp_path: Path) -> None:
    model = layer().load()
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "folder", tmp_path / "none" / "m.fgm", tmp_path / "file" / "m.fgm", ""):
        with pytest.raises(fg.FastgraphError, match="can't be written") as found:
            model.save(path)
        assert isinstance(found.value, OSError) and ".new-" not in str(found.value)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_read_only(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(fg.FastgraphError, match="can't be written"):
        layer().load().save(tmp_path / "m.fgm")


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, model = tmp_path / "m.fgm", layer().load()
    model.save(path)
    before = path.read_bytes()
    real, left = os.replace, []

    def full(*_: Any) -> None:
        left.append(list(tmp_path.iterdir()))
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(container.os, "replace", full)
    with pytest.raises(fg.FastgraphError, match="No space left"):
        model.save(path)
    monkeypatch.setattr(container.os, "replace", real)
    monkeypatch.setattr(container, "_padding", full)
    with pytest.raises(fg.FastgraphError, match="No space left"):
        model.save(path)
    assert len(left[0]) == 2 and list(tmp_path.iterdir()) == [path] and path.read_bytes() == before


@pytest.mark.parametrize("native", [True, False])
def test_operators_of_users(native: bool, tmp_path: Path) -> None:
    register(native=native)
    model = between().load()
    for whole in (True, False):
        with pytest.raises(fg.UnsupportedError, match=r"can't be saved|save it with the graph"):
            model.save(tmp_path / "m.fgm", graph=whole)
    assert not list(tmp_path.iterdir())


def test_a_model_without_kernels(tmp_path: Path) -> None:
    """It is saved for a tier that has some, where one is named."""
    model = fg.load(layer().bytes(), isa="numpy")
    with pytest.raises(fg.UnsupportedError, match="no machine code"):
        model.save(tmp_path / "m.fgm")
    model.save(tmp_path / "m.fgm", isa="generic")
    feeds = drawn(model, 0)
    np.testing.assert_allclose(
        *(list(m.run(feeds).values())[0] for m in (model, fg.load(tmp_path / "m.fgm"))), rtol=1e-5, atol=1e-6
    )


def test_without_its_graph_it_has_to_be_native(tmp_path: Path) -> None:
    for kind in (SEQUENCE, OPTIONAL):
        with pytest.raises(fg.UnsupportedError, match="save it with the graph"):
            lists({"x": kind}, kind, helper.make_node("Identity", ["x"], ["y"])).save(tmp_path / "m.fgm", graph=False)
    assert not list(tmp_path.iterdir())
