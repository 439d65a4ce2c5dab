"""Kinds of inputs beyond a TensorType: element types that NumPy lacks, sequences, optionals."""

from __future__ import annotations

from ..named import NamedTuple
from .types import UNKNOWN, TensorType


class Kind(NamedTuple):
    """`form` is "tensor" (of `type`), "sequence" (a list, each of whose items is an `item`) or "optional" (an `item`,
    or None). `element`: the name of a tensor's element type when NumPy lacks it.
    """

    form: str
    type: TensorType = UNKNOWN
    element: str = ""
    item: Kind | None = None

    @property
    def tensor(self) -> Kind:
        """The tensors that it holds in the end."""
        return self if self.item is None else self.item.tensor

    def __str__(self) -> str:
        if self.form == "sequence":
            return f"sequence of {self.item}"
        if self.form == "optional":
            return f"optional {self.item}"
        return f"{self.element}{str(self.type).removeprefix(str(self.type.dtype))}" if self.element else str(self.type)
