"""Random compositions as examples that hypothesis draws: files in ONNX's f32, with what to feed them."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
from hypothesis import assume, settings
from hypothesis import strategies as st
from onnx import printer

from tests.compositions import draw as compositions
from tests.compositions.composition import Composition
from tests.compositions.forms import FORMS, Declined
from tests.nets import graph_of

Draw = Callable[[st.SearchStrategy], Any]


def examples(count: int) -> settings:
    """So many examples, $EXAMPLES times as many when exploring."""
    return settings(max_examples=count * int(os.environ.get("EXAMPLES", "1")))


def unchecked(now: bool) -> AbstractContextManager[Any]:
    """Plans made inside are not verified, if so: one that is refused is replaced, so that nobody sees what it gives."""
    return patch.dict(os.environ, FASTGRAPH_CHECK="0") if now else nullcontext()


@dataclass
class Case:
    """A network and what to feed it; `scale`: the largest number on the way. Printed as ONNX text."""

    source: bytes
    feeds: dict[str, np.ndarray]
    scale: float = 1.0

    def _repr_pretty_(self, out: Any, cycle: bool) -> None:
        feeds = ", ".join(f"{k}{list(v.shape)}" for k, v in self.feeds.items())
        out.text(f"\n{printer.to_text(onnx.load_from_string(self.source))}\nfed {feeds}\n")


@st.composite
def nets(draw: Draw) -> Composition:
    return compositions.draw(draw(st.integers(0, 1 << 20)), draw(st.integers(0, 7)))


def case(net: Composition) -> Case:
    try:
        subject = FORMS["onnx f32"](net)
    except Declined:
        assume(False)
    assume(b"Dropout" not in subject.source)  # its numbers are others whenever a file is loaded
    return Case(subject.source, subject.feeds, subject.scale)


@st.composite
def networks(draw: Draw) -> Case:
    """Those of which all shapes are known before a run."""
    made = case(draw(nets()))
    assume(all(v.type.concrete for node in graph_of(made.source).nodes for v in node.outputs))
    return made
