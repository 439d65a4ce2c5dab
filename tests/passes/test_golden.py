"""What the stages make of well-known blocks, as text; a stage that changes nothing is left out.

`pytest --golden` rewrites the files; read the diff before you commit it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fastgraph.compile import stages
from tests.blocks import BLOCKS
from tests.nets import F32, Net, assert_close, by_onnxruntime, by_reference, graph_of

FOLDER = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", BLOCKS)
def test_block(name: str, request: pytest.FixtureRequest) -> None:
    net = Net()
    BLOCKS[name](net)
    graph = graph_of(net.bytes())
    graph.source = ""
    feeds = {v.name: net.rng.standard_normal(v.type.dims).astype(F32) for v in graph.inputs}
    expected = by_onnxruntime(net.bytes(), feeds)
    texts, last = [f"-- import\n{graph}\n"], str(graph)
    for stage, after in stages(graph):
        assert_close(by_reference(after, feeds), expected, 1e-5, stage)
        if str(after) != last:
            texts.append(f"-- {stage}\n{after}\n")
        last = str(after)
    path = FOLDER / f"{name}.txt"
    if request.config.getoption("--golden"):
        path.write_text("\n".join(texts))
    assert "\n".join(texts) == path.read_text(), f"{path.name} differs; if the new form is better: pytest --golden"


def test_every_file_belongs_to_a_block() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(BLOCKS)
