"""The environment's settings: what they may be, and what is said of anything else."""

from pathlib import Path

import pytest

import fastgraph as fg
from fastgraph import freedoms, settings
from fastgraph.cli import main
from fastgraph.demo import MODEL


@pytest.mark.parametrize(("value", "found"), [("", ""), ("0", ""), ("1", "1"), ("guard", "guard")])
def test_checks(monkeypatch: pytest.MonkeyPatch, value: str, found: str) -> None:
    monkeypatch.setenv("FASTGRAPH_CHECK", value)
    assert freedoms.checked() == found


@pytest.mark.parametrize(("value", "found"), [("", "0"), ("0", "0"), ("1", "1")])
def test_switches(monkeypatch: pytest.MonkeyPatch, value: str, found: str) -> None:
    monkeypatch.setenv("FASTGRAPH_TRUST", value)
    assert settings.setting("FASTGRAPH_TRUST", "0", "1") == found


def test_checks_that_there_are_not(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FASTGRAPH_CHECK", "yes")
    with pytest.raises(fg.InputError, match="FASTGRAPH_CHECK='yes': expected 0, 1 or guard; set it so, or unset it"):
        fg.load(MODEL)
    assert main(["run", str(MODEL), "--random"]) == 2
    assert capsys.readouterr().err.startswith("error: environment variable FASTGRAPH_CHECK='yes': ")


def test_only_one_trusts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "net.fgm"
    fg.load(MODEL, threads=1).save(path)
    path.chmod(0o666)
    monkeypatch.setenv("FASTGRAPH_TRUST", "false")
    with pytest.raises(fg.InputError, match="FASTGRAPH_TRUST='false': expected 0 or 1"):
        fg.load(path)
