"""Ranges of users' kernels: each array, by the extents in the record."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from ..program import UserKernel
from .call import Call, Reach, read, write


def custom(c: Call) -> Iterator[Reach]:
    """The ranges of a call of a user's kernel."""
    kernel = c.step.kernel
    assert isinstance(kernel, UserKernel)
    yield write(".error", 8)
    for name, form in kernel.forms.items():
        if form[0] == "array":
            extents = [f"{name}.{axis}" for axis in range(form[2])]
            r = c.record(" ".join(extents))
            size = np.dtype(form[1]).itemsize * prod(getattr(r, extent) for extent in extents)
            yield (write if form[3] else read)(name, size)
