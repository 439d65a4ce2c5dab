"""The onnx package's node cases with one thing changed each: what makes no sense is refused by a FastgraphError, and
what is answered onnxruntime answers too, with the same numbers.

`EXAMPLES=50 pytest tests/ops/test_mutants.py` goes on for half an hour.
"""

import os
import random
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.ops.node_mutants import Mutant, Runner, mutant, usable
from tests.ops.test_node_cases import cases

COUNT = 3 * int(os.environ.get("EXAMPLES", "1"))
PARTS = 4

RANDOM = frozenset({"Bernoulli", "Dropout", "Multinomial", "RandomNormalLike", "RandomUniformLike"})
WILD = re.compile(r"=-?(inf|nan|1e\+30|3000000000\.0)")
"""Changes after which numbers depend on the order of operations; results still agree in type and shape."""

BOLDER = (
    ("", "", "NOT_IMPLEMENTED|Batchwise recurrent operations", "not implemented there"),
    ("", " (u?int|float)[0-9]+", "of input parameter|bound to different types",
     "more element types than ONNX has: other formats use them, and what they mean is plain"),
    ("", r" as \[1?\]", "1D tensor|must be a scalar|valid input shape|Squeeze|Reshape",
     "a scalar stands for a vector of one, and the other way round"),
    ("Attention|MatMul|LpNormalization|StringNormalizer|Concat|Conv.*|.*Loss", r" as \[.*\b0\b.*\]", "",
     "nothing in, nothing out"),
    ("LRN", "", "", "any rank, any constants"),
    (".*Pool", r" as \[.*\b0\b.*\]", "Only N can be zero", "nothing in, nothing but padding out"),
    ("Reduce.*", r"axes .* as \[1?\]", "", "a scalar stands for a vector of one"),
    ("Resize", "sizes open", "Number of elements of input 'sizes' \\(0\\)", "they are known when it is run"),
    ("RNN|GRU|LSTM", "clip=0", "clip_ > 0", "a bound like any other"),
    ("Attention", r"attn_mask .* as \[\d+\]", "", "a case of ONNX's own has a mask of rank 1"),
    ("RNN|GRU|LSTM", "no hidden_size", "", "R says it"),
    ("LinearAttention", "", "Subgraph must have the shape set", "onnxruntime can't expand it where shapes are open"),
    ("RegexFullMatch", "no pattern", "", "ONNX does not require it; the empty pattern"),
    ("Split", "", "Invalid num_outputs", "the last parts may be empty"),
    ("SplitToSequence", "keepdims=0", "", "ignored where split is given, says ONNX"),
    ("STFT", "", "StorageSize|OutputMLValue|window input must have rank", "frame_length may be absent, says ONNX"),
    ("Dropout", "", "of input parameter", "nothing is dropped"),
    ("BatchNormalization", "training_mode|(mean|var) .* as", "NumDimensions|number of op outputs",
     "as many numbers in another shape; a result that nobody reads"),
    ("(QLinear)?MatMul(Integer)?", r"(scale|zero_point) .* as \[1(, 1)*\]", "", "broadcasts"),
    ("QLinearMatMul", "a_(scale|zero_point) .* as", "", "one for each row, says ONNX"),
)  # fmt: skip
"""(operator, change, refusal, reason): where we answer and onnxruntime does not, and ONNX's text is on our side."""

OTHERWISE = (
    ("Squeeze", r"axes .* as \[0\]", "no axes are no axes, not all"),
    ("ReduceProd", "axes", "nothing along the axis: 1"),
    ("MaxUnpool", "output_shape", "indices are places of the pooled tensor, as ONNX's own case has it"),
    ("StringSplit", "", "blanks at the ends, as Python's split has them"),
    ("TopK", "", "equal elements, and NaN, have no order"),
    ("MeanVarianceNormalization", "axes=", "0 by its 1e-9, not 0 / 0"),
    ("RNN|GRU|LSTM", r"X .* as \[.*\b0\b", "no steps leave the state as it was"),
)
"""(operator, change, reason): where onnxruntime's numbers are others than ONNX's text asks for."""


def operators() -> list[str]:
    return [op for op in sorted(cases()) if not op.startswith("expanded")]


def allowed(table: tuple[tuple[str, ...], ...], op: str, *found: str) -> bool:
    return any(re.fullmatch(row[0] or ".*", op) and all(map(re.search, row[1:-1], found)) for row in table)


def agree(got: Any, want: Any, numbers: bool) -> bool:
    if isinstance(got, list) or isinstance(want, list) or got is None or want is None:
        both = isinstance(got, list) and isinstance(want, list) and len(got) == len(want)
        return got is want is None or both and all(agree(g, w, numbers) for g, w in zip(got, want, strict=True))
    got, want = (np.asarray(v).astype(object) if np.asarray(v).dtype.kind in "USO" else np.asarray(v)
                 for v in (got, want))  # fmt: skip
    if (got.dtype, got.shape) != (want.dtype, want.shape) or not numbers:
        return bool(got.shape == want.shape and got.dtype == want.dtype)
    if got.dtype.kind not in "fc":
        return bool(np.array_equal(got, want))
    rtol = 1e-2 if got.dtype == np.float16 else 1e-3
    size = max(1.0, float(np.abs(want[np.isfinite(want)], dtype=np.float64).max(initial=0)))
    return bool(np.allclose(got.astype(np.float64), want.astype(np.float64), rtol, rtol * size, equal_nan=True))


def verdict(op: str, changed: Mutant, ours: tuple[str, Any], theirs: tuple[str, Any]) -> str:
    """What is wrong with our answer, "" when nothing is."""
    if theirs[0] == "refused":
        fine = allowed(BOLDER, op, changed.name, theirs[1].replace("\n", " "))
        return "" if fine else f"answered, and onnxruntime says {theirs[1][-200:]}"
    if op in RANDOM or allowed(OTHERWISE, op, changed.name):
        return ""
    if theirs[0] == "ok" and not agree(ours[1], theirs[1], not WILD.search(changed.name)):
        return f"gave {str(ours[1])[:200]}, and onnxruntime {str(theirs[1])[:200]}"
    return ""


@pytest.fixture(scope="module")
def runners() -> Iterator[tuple[Runner, Runner]]:
    both = Runner("ours"), Runner("onnxruntime")
    yield both
    for runner in both:
        runner.close()


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.slow
def test_mutants(part: int, runners: tuple[Runner, Runner]) -> None:
    mine, theirs = runners
    wrong, answered, refused = [], 0, 0
    for op in operators()[part::PARTS]:
        group = [case for case in cases()[op] if usable(case)]
        for number in range(COUNT if group else 0):
            case = random.Random(f"{op} {number}").choice(group)
            changed = mutant(case, f"{op} {number}")
            ours = mine(changed.model, changed.feeds)
            answered, refused = answered + (ours[0] == "ok"), refused + (ours[0] == "refused")
            said = str(ours[1]) if ours[0] == "wrong" else ""
            if ours[0] == "ok":
                plain = mutant(case, "")
                if theirs(plain.model, plain.feeds)[0] == "ok":
                    said = verdict(op, changed, ours, theirs(changed.model, changed.feeds))
            if said:
                wrong.append(f"{op} {number}: {changed.name}: {said}")
    assert not wrong, "\n".join(wrong)
    assert min(answered, refused) > COUNT, "most cases are neither all refused nor all answered"
