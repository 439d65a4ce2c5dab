"""Class names of a classifier, from a file of labels."""

from __future__ import annotations

from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..runtime.model import TensorSpec
from .feeds import edge_out


def read_labels(path: str) -> list[str]:
    """The names of classes 0, 1, ...: one a line, in UTF-8, or UTF-16 with its mark. If all lines begin with their
    number, it is removed.
    """
    data = Path(path).read_bytes()
    try:
        text = data.decode("utf-16" if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"--labels {path}: expected text in UTF-8 ({error}): save it as that") from None
    lines = [line.strip() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        raise InputError(f"--labels {path}: no lines")
    heads = [line.partition(" ") for line in lines]
    if all(number.rstrip(":") == str(i) for i, (number, _, _) in enumerate(heads)):
        return [name.strip() for _, _, name in heads]
    return lines


def top_classes(
    outputs: Mapping[str, Any], specs: Sequence[TensorSpec], labels: Sequence[str], count: int
) -> dict[str, list[list[dict[str, Any]]]]:
    """For each row of each output with a number per label, the `count` most probable classes in order.

    Probabilities are the numbers themselves when all of them lie in 0..1, else their softmax. InputError when no output
    has as many classes as there are labels.
    """
    found = {}
    arrays = {n: a for n, a in edge_out(outputs, specs).items() if isinstance(a, np.ndarray) and a.dtype.kind in "fiu"}
    for name, array in arrays.items():
        if array.size and len(labels) in array.shape:
            last = max(i for i, extent in enumerate(array.shape) if extent == len(labels))
            rows = np.moveaxis(array, last, -1).reshape(-1, len(labels)).astype(np.float64)
            found[name] = [_best(row, labels, count) for row in rows]
    if not found:
        shapes = ", ".join(f"{name}: {list(array.shape)}" for name, array in arrays.items())
        raise InputError(f"{len(labels)} labels, and no output with {len(labels)} classes: {shapes or 'no numbers'}")
    return found


def _best(row: np.ndarray, labels: Sequence[str], count: int) -> list[dict[str, Any]]:
    if not ((row >= 0) & (row <= 1)).all():
        row = np.exp(row - row.max())
        row /= row.sum()
    order = np.argsort(-row, kind="stable")[:count]
    return [{"class": int(i), "label": labels[i], "probability": float(row[i])} for i in order]


def text(top: Mapping[str, list[list[dict[str, Any]]]]) -> str:
    """The classes, one a line, under their outputs' names."""
    lines = []
    for name, rows in top.items():
        for i, row in enumerate(rows):
            lines.append(f"{name}{f', row {i}' if len(rows) > 1 else ''}:")
            lines += [f"  {best['probability']:.4f}  {best['class']:>4}  {best['label']}" for best in row]
    return "\n".join(lines)
