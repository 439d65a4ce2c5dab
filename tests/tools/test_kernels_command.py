"""`fastgraph kernels`: what it lists, what it compiles, and that a system that can't write needs nothing else."""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

import fastgraph as fg
from fastgraph.cli import main
from fastgraph.demo import MODEL
from fastgraph.kernels.core.kernel import Kernel
from fastgraph.kernels.core.table import kernels_of
from fastgraph.kernels.isa.tiers import BY_NAME, TIERS, Tier
from fastgraph.objects import store
from fastgraph.tools import kernels
from tests.processes import python

CORE = [Kernel("execute"), Kernel("call"), Kernel("team"), Kernel("parts")]
ROOT = Path(__file__).parents[2]


def listed(monkeypatch: pytest.MonkeyPatch, found: list[Kernel]) -> None:
    """Let the table have these kernels, for each tier, beside those that run them."""
    monkeypatch.setattr(kernels, "kernels_of", lambda tier: [*CORE * (tier is TIERS[0]), *found])


@pytest.mark.parametrize("tier", list(BY_NAME.values()), ids=list(BY_NAME))
def test_it_lists_the_kernels_of_a_tier_and_those_that_run_them(tier: Tier, place: Path, capsys: Any) -> None:
    assert main(["kernels", "--isa", tier.name, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    names = sorted(str(Kernel.of(one["kernel"], **one["params"])) for one in found["kernels"])
    assert names == sorted(map(str, {*kernels_of(tier), *CORE}))
    assert {one["bytes"] for one in found["kernels"]} == {None} and not place.exists()
    assert {one["kernel"] for one in found["kernels"] if one["tier"] != tier.name} <= {kernel.name for kernel in CORE}
    assert main(["kernels", "--isa", tier.name]) == 0
    assert str(len(names)) in capsys.readouterr().out.splitlines()[-1].split()


@pytest.mark.slow
def test_a_folder_that_was_built_and_can_only_be_read_is_all_that_a_load_needs(
    place: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed(monkeypatch, list(fg.load(MODEL, isa="generic", threads=1).plan.kernels()))
    for folder in place.rglob("*"):
        if folder.is_file():
            folder.unlink()
    assert main(["kernels", "--isa", "generic", "--build"]) == 0
    out, err = capsys.readouterr()
    assert f"{len(kernels.wanted(TIERS[0]))} compiled" in out and "compiling kernels" in err
    sizes = [one["bytes"] for one in kernels.report(TIERS[0])["kernels"]]
    assert all(sizes) and sum(sizes) > 1000

    files = {path: path.read_bytes() for path in place.rglob("*.o")}
    for path in [place, *place.rglob("*")]:
        path.chmod(0o500 if path.is_dir() else 0o400)
    script = (
        "import sys; sys.modules.update(numba=None, llvmlite=None)\n"
        "import fastgraph as fg; from fastgraph.demo import MODEL, held_out\n"
        "print(fg.load(MODEL, isa='generic', threads=1).run({'image': held_out()[0][0]})['probabilities'].shape)"
    )
    try:
        python("-W", "error", "-c", script)
    finally:
        for path in [place, *place.rglob("*")]:
            path.chmod(0o700)
    assert {path: path.read_bytes() for path in place.rglob("*.o")} == files

    assert main(["kernels", "--isa", "generic", "--build"]) == 0
    assert "\n0 compiled" in capsys.readouterr().out


def test_what_a_damaged_entry_was_is_built_again(place: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    listed(monkeypatch, [Kernel("pad")])
    kernels.build(TIERS[0])
    path = store.entry(store.folder(), Kernel("pad"), TIERS[0])
    path.write_bytes(path.read_bytes()[:-1])
    assert [one["kernel"] for one in kernels.report(TIERS[0])["kernels"] if one["bytes"] is None] == ["pad"]
    assert kernels.build(TIERS[0])[0] == 1


@pytest.mark.skipif(sys.platform == "win32", reason="folders of other users are POSIX's")
@pytest.mark.parametrize("why", ["a file is there", "others can write"])
def test_a_folder_that_is_not_written_is_named(
    why: str, place: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed(monkeypatch, [])
    if why == "a file is there":
        place.write_text("")
    else:
        place.mkdir()
        place.chmod(0o777)
    assert main(["kernels", "--build"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and str(place) in err and "set FASTGRAPH_CACHE_DIR" in err and err.count("\n") == 1


@pytest.mark.filterwarnings("ignore:compiled kernels can't be kept")
def test_a_disk_that_is_full_is_no_success(place: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **more: Any) -> Any:
        raise OSError(28, "No space left on device")

    listed(monkeypatch, [])
    monkeypatch.setattr(tempfile, "mkstemp", full)
    assert main(["kernels", "--build"]) == 2
    assert f"{len(CORE)} of {len(CORE)} kernels could not be kept" in capsys.readouterr().err
