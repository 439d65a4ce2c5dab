"""The state of reading one function of a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...ir import TensorType, Value
from ..core import reader
from .description import pick
from .package import Package
from .tensors import Constants
from .types import MilType
from .wire import Message


class Reader(reader.Reader):
    """One function on its way to a graph.

    `declared`: the types that the program gives values. `handles`: the state that a value stands for. `states`: their
    types. `shown`: outputs that are made of a value when they leave the model.
    """

    def __init__(self, model: Message, package: Package, function: str | None) -> None:
        super().__init__(package.source)
        self.model = model
        self.constants = Constants(package)
        self.name = pick(model, function, self.source)
        self.function = model.mlProgram.functions[self.name]
        self.opset = self.function.opset
        self.where = f"{self.source}: function {self.name!r}"
        self.declared: dict[Value, MilType] = {}
        self.handles: dict[Value, str] = {}
        self.states: dict[str, TensorType] = {}
        self.shown: dict[Value, tuple[Value, Callable[[np.ndarray], Any]]] = {}
