"""Words that were changed and have their checksums again: a load that checks refuses those that reach elsewhere."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.plan.program import Ref, Step
from tests.blocks import BLOCKS
from tests.passes.test_bounds import single_shot
from tests.plan.control_nets import NETS, drawn
from tests.quantized_blocks import QDQ, TFLITE
from tests.saved.files import Parts
from tests.saved.test_networks import onnx, tflite

SOURCES: dict[str, Callable[[], bytes]] = {
    "attention": lambda: onnx(BLOCKS["attention"]),
    "conv_bn_relu": lambda: onnx(BLOCKS["conv_bn_relu"]),
    "int8_residual": lambda: tflite(TFLITE["int8_residual"]),
    "qdq": lambda: onnx(next(iter(QDQ.values()))),
    "branches": lambda: NETS["branches"]().bytes(),
    "until": lambda: NETS["until"]().bytes(),
    "drawn": lambda: drawn(4).bytes(),
    "rows": lambda: single_shot(12, 3, 5, 4).bytes(),
}


def saved(source: bytes, folder: Path) -> Parts:
    path = folder / "m.fgm"
    fg.load(source, threads=2).save(path)
    return Parts(path.read_bytes())


def refused(parts: Parts) -> bool:
    """Whether a load says that the file is damaged."""
    try:
        fg.load(parts.bytes(), threads=2, trusted=True)
    except fg.ModelError as error:
        assert "damaged" in str(error)
        return True
    return False


@pytest.mark.parametrize("name", SOURCES)
def test_addresses_that_leave_their_buffers(name: str, tmp_path: Path) -> None:
    """Every address of every record, moved beyond the end of what it points into, or before its begin."""
    parts = saved(SOURCES[name](), tmp_path)
    flat = parts.directory["plans"][0]["flat"]
    words, addresses = parts.array(flat["words"]), parts.array(flat["addresses"])
    buffers = len(parts.array(flat["buffers"]))
    rng = np.random.default_rng(0)
    chosen = [int(word) for word, base in addresses if base <= buffers + len(flat["constants"])]
    passed = []
    for word in rng.permutation(chosen)[:25].tolist():
        before = int(words[word])
        for by in (-before - 64, 1 << 30):
            words[word] = before + by
            if not refused(parts):
                passed.append((word, by))
        words[word] = before
    assert not refused(parts) and not passed


@pytest.mark.parametrize("name", SOURCES)
def test_numbers_out_of_range(name: str, tmp_path: Path) -> None:
    """Many numbers of records, made huge, are refused; others mean nothing for what is reached: a scale, a limit."""
    parts = saved(SOURCES[name](), tmp_path)
    flat = parts.directory["plans"][0]["flat"]
    words, addresses = parts.array(flat["words"]), parts.array(flat["addresses"])
    rng = np.random.default_rng(1)
    numbers = [i for i in range(len(words)) if i not in set(addresses[:, 0].tolist()) and words[i] > 1]
    found = []
    for word in rng.permutation(numbers)[:40].tolist():
        before, words[word] = int(words[word]), 1 << 40
        found.append(refused(parts))
        words[word] = before
    assert sum(found) > len(found) // 3


def test_addresses_of_other_kinds(tmp_path: Path) -> None:
    """A kernel for memory, a buffer for a constant, the error cell for a buffer."""
    parts = saved(SOURCES["conv_bn_relu"](), tmp_path)
    flat = parts.directory["plans"][0]["flat"]
    addresses = parts.array(flat["addresses"])
    buffers = len(parts.array(flat["buffers"]))
    last = 1 + buffers + len(flat["constants"])
    for row in range(len(addresses)):
        before = int(addresses[row, 1])
        for base in (0, last):
            if base != before:
                addresses[row, 1] = base
                assert refused(parts), (row, base)
        if before <= buffers and flat["constants"]:
            addresses[row, 1] = 1 + buffers
            assert refused(parts) or before, row
        addresses[row, 1] = before
    assert not refused(parts)


def edit(parts: Parts, what: str, change: Callable[[Any], Any]) -> bool:
    """Whether a load refuses the plan with an array of it changed, which is then as it was."""
    array = parts.array(parts.directory["plans"][0]["flat"][what])
    before = array.copy()
    change(array)
    try:
        return refused(parts)
    finally:
        array[...] = before


def test_steps_that_change_places(tmp_path: Path) -> None:
    """Each reads what one before it has written."""
    parts = saved(SOURCES["attention"](), tmp_path)

    def swap(steps: np.ndarray) -> None:
        steps[[0, -1]] = steps[[-1, 0]]

    assert edit(parts, "steps", swap)


def test_buffers_that_lie_on_one_another(tmp_path: Path) -> None:
    parts = saved(SOURCES["attention"](), tmp_path)

    def zero(buffers: np.ndarray) -> None:
        buffers[:, 0] = 0

    assert edit(parts, "buffers", zero)
    for number in range(len(parts.array(parts.directory["plans"][0]["flat"]["buffers"]))):

        def moved(buffers: np.ndarray, number: int = number) -> None:
            buffers[number, 0] += 4

        assert edit(parts, "buffers", moved)


@pytest.mark.parametrize("name", ["branches", "until", "drawn"])
def test_jumps_elsewhere(name: str, tmp_path: Path) -> None:
    parts = saved(SOURCES[name](), tmp_path)
    flat = parts.directory["plans"][0]["flat"]
    steps, words = parts.array(flat["steps"]), parts.array(flat["words"])
    jumps = np.flatnonzero(steps[:, 0] < 0).tolist()
    assert jumps
    for jump in jumps:
        at = int(steps[jump, 1]) + 2
        before = int(words[at])
        for by in (0, -jump - 1, len(steps) - jump + 1, 1 << 40, -(1 << 62)):
            words[at] = by
            assert refused(parts), (jump, by)
        words[at] = before


def test_weights_are_compared_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which a load does not read where nobody asks it to."""
    source = np.random.default_rng(0)
    from tests.nets import Net

    net = Net()
    net.output(net("MatMul", net.input("x", (1, 256)), source.normal(size=(256, 256)).astype(np.float32)))
    data = bytearray(saved(net.bytes(), tmp_path).bytes())
    parts = Parts(bytes(data))
    assert len(parts.sections["weights"]) >= 1 << 18
    data[parts.start + 4000] ^= 1
    with pytest.raises(fg.ModelError, match="its section 'weights' is not what was written"):
        fg.load(bytes(data), trusted=True)
    monkeypatch.setenv("FASTGRAPH_CHECK", "0")
    assert fg.load(bytes(data), trusted=True).run({"x": np.zeros((1, 256), np.float32)})


def test_the_words_say_what_the_plan_said(tmp_path: Path) -> None:
    """The same calls, read again: by kernels, numbers, and places in memory."""
    from fastgraph.runtime.recheck import _Reader
    from fastgraph.runtime.stored import Saved
    from fastgraph.saved.flat import read
    from fastgraph.saved.source import container

    model = fg.load(SOURCES["attention"](), threads=2)
    model.save(tmp_path / "m.fgm")
    file = Saved(container(str(tmp_path / "m.fgm"), True), None, 2)
    again = _Reader(read(file.plans[0]["flat"], file.file), file._spelled()).program()
    steps = [step for step in model.plan.program.steps if isinstance(step, Step)]
    assert [step.kernel for step in again.steps if isinstance(step, Step)] == [step.kernel for step in steps]
    for one, other in zip(again.steps, steps, strict=True):
        assert isinstance(one, Step)
        for word, right in zip(one.args, other.args, strict=True):
            assert (word.offset == right.offset) if isinstance(right, Ref) else type(word) is type(right)
