"""Networks of all kinds give the same bits once they are saved: those of other tests, and random ones."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import fastgraph as fg
from tests.blocks import NEWEST
from tests.circle.write import Model as File
from tests.compositions.afford import Banded, Purse, is_dry, paying
from tests.compositions.check import small_networks_count
from tests.compositions.draw import draw
from tests.compositions.forms import FORMS, Declined, says
from tests.nets import Net
from tests.quantized_blocks import TFLITE
from tests.saved.round_trip import check, is_stored

FIRST, COUNT = 3000, int(os.environ.get("SAVED_COMPOSITIONS", "6"))
"""Seeds of random networks, of each form."""


def onnx(build: Callable[[Net], None]) -> bytes:
    net = Net()
    build(net)
    return net.bytes()


def tflite(build: Callable[[File], list[int]]) -> bytes:
    file = File()
    return bytes(file.bytes(build(file)))


SOURCES: dict[str, Callable[[], bytes]] = {
    **{name: lambda f=build: onnx(f) for name, build in NEWEST.items()},
    **{name: lambda f=build: tflite(f) for name, build in TFLITE.items()},
}
"""Those of ONNX that are older are in test_round_trips.py."""


@pytest.mark.parametrize("name", SOURCES)
def test_blocks(name: str, tmp_path: Path) -> None:
    made = check(fg.load(SOURCES[name](), threads=2), tmp_path, what=name)
    assert is_stored(made)


def composed(seed: int, form: str) -> Any:
    """A model of a composition and what to feed it; None where the form can't say it, or its kernels cost too much."""
    net = draw(seed, seed % 2)
    if not says(form, net):
        return None
    with suppress(Declined, Banded):
        subject = FORMS[form](net)
        model = fg.load(subject.source, threads=2)
        return None if is_dry(model) else (model, subject.feeds)
    return None


PURSE = Purse(0.5)


@pytest.mark.parametrize("form", FORMS)
def test_compositions(form: str, tmp_path: Path) -> None:
    """In bands and on all threads, as large networks run."""
    for seed in range(FIRST, FIRST + COUNT):
        PURSE.next()
        with paying(PURSE), small_networks_count():
            found = composed(seed, form)
        if found is not None:
            with small_networks_count():
                check(found[0], tmp_path, [found[1]] * 2, (form, seed))
