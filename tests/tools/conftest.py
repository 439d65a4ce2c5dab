"""Measurements of these tests have a quiet core, whoever shares it."""

import pytest


@pytest.fixture(autouse=True)
def no_neighbors(monkeypatch: pytest.MonkeyPatch) -> None:
    from fastgraph.tools import neighbor

    monkeypatch.setattr(neighbor, "probe", lambda *_: 0.0)
