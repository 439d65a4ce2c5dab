"""A sub-graph of a .tflite file that runs: its inputs and results by tensor, the model behind them, its variables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..errors import FastgraphError
from ..frontends.circle.load import graph_of
from ..frontends.circle.reader import Wanted
from ..frontends.edges import choose_outputs
from ..ir import Graph
from ..kernels.isa.tiers import choose
from ..loading import load
from ..runtime.model import Model
from .file import File

Shape = tuple[int, ...]


class Network:
    """One sub-graph. `shapes`: those of its inputs; `arrays`: of its inputs, and its results as the last run left them;
    `ready`: whether there is a plan for these shapes. `keep`: whether inner tensors are to be had, too. `variables`, by
    name: what the networks of a file share.
    """

    def __init__(
        self, file: File, index: int, source: str | bytes, threads: int, keep: bool, variables: dict[str, np.ndarray]
    ) -> None:
        self.file, self.index, self.source, self.threads, self.keep = file, index, source, threads, keep
        self.table = file.graphs[index]
        self.variables = variables
        self.shapes: dict[int, Shape] = {i: _usual(file.tensor(index, i).shape) for i in self.table.inputs}
        self.open: dict[int, tuple[int | None, ...]] = {}
        self.arrays: dict[int, np.ndarray] = {}
        self.inner: list[int] = []
        self.resources = file.has_resources
        self.model: Model | None = None
        self.ready = False

    def resize(self, index: int, shape: Shape, strict: bool = False) -> None:
        """Let an input have this shape. RuntimeError where that can't be."""
        if index not in self.shapes:
            raise RuntimeError(f"tensor {index} is no input: only inputs can be resized")
        tensor = self.file.tensor(self.index, index)
        now, own = self.shapes[index], tuple(tensor.shape)
        signature = tuple(tensor.shape_signature)
        fits = len(shape) == len(now) and all(a in (-1, b) for a, b in zip(signature or now, shape, strict=False))
        if strict and not fits:
            raise RuntimeError(
                f"tensor {index} {tensor.name!r}: expected the shape {list(signature or now)}, of which only -1 can be "
                f"resized, found {list(shape)}"
            )
        if min(shape, default=0) < 0:
            raise RuntimeError(f"tensor {index} {tensor.name!r}: expected extents from 0 on, found {list(shape)}")
        if shape == self.shapes[index]:
            return
        self.shapes[index], self.ready = shape, False
        self.arrays.pop(index, None)
        before = self.open.get(index, tuple(None if extent == -1 else extent for extent in signature or own))
        if len(before) != len(shape) or any(extent not in (None, shape[axis]) for axis, extent in enumerate(before)):
            kept = before if len(before) == len(shape) else (None,) * len(shape)
            self.open[index] = tuple(
                extent if extent == wanted else None for extent, wanted in zip(kept, shape, strict=True)
            )
            self.model = None

    def allocate(self) -> None:
        """Plan for the shapes at hand. RuntimeError where there is no plan for them, or an operator that is unknown."""
        if self.ready:
            return
        try:
            if self.model is None:
                self.model = self._loaded()
            wanted = {spec.name: self.shapes[i] for i, spec in zip(self.table.inputs, self.model.inputs, strict=True)}
            if any(spec.shape != wanted[spec.name] for spec in self.model.inputs):
                self.model.resize(wanted)
            self.model.reset_states()
        except FastgraphError as error:
            raise RuntimeError(str(error)) from error
        kept = {i: self.arrays.get(i) for i in self.table.inputs}
        self.arrays = {}
        for i, array in kept.items():
            fits = array is not None and array.shape == self.shapes[i]
            self.arrays[i] = array if fits else _zeros(self.shapes[i], self.file.dtype(self.index, i))  # type: ignore
        self.feeds = {s.name: self.arrays[i] for i, s in zip(self.table.inputs, self.model.inputs, strict=True)}
        self.has_text = any(array.dtype.hasobject for array in self.feeds.values())
        self.gives = [*self.table.outputs, *self.inner]
        for i, spec in zip(self.table.outputs, self.model.outputs, strict=False):
            self.arrays.setdefault(i, _zeros(self._planned(i, spec.name), self.file.dtype(self.index, i)))
        self.ready = True

    def _loaded(self) -> Model:
        """The model: of a file as it is, through what was kept of it; else of a graph with what this one needs."""
        if not (self.index or self.open or self.keep or self.resources):
            return load(self.source, threads=self.threads)
        try:
            graph, names = self._read()
        except FastgraphError:
            if not self.open:
                raise
            # some operators are read only where shapes are known
            self.open = {i: self.shapes[i] for i in self.open}
            graph, names = self._read()
        usual = zip(graph.inputs, self.shapes.values(), strict=True)
        graph.usual = {value.name: shape for value, shape in usual if not value.type.concrete}
        if self.keep:
            made = {value.name for node in graph.nodes for value in node.outputs if value.type.dtype is not None}
            outputs = {value.name: None for value in graph.outputs}
            inner = {i: name for i, name in names.items() if name in made and name not in outputs}
            choose_outputs(graph, [*outputs, *inner.values()])
            self.inner = list(inner)
        return Model(graph, choose(None), self.threads)

    def _read(self) -> tuple[Graph, dict[int, str]]:
        """The graph of the sub-graph, and names of its values by tensor."""
        names: dict[int, str] = {}
        wanted = Wanted(self.open, shared=True, names=names)
        return graph_of(self.file.root, self.file.key_of(self.index), wanted), names

    def _planned(self, index: int, name: str) -> Shape:
        """The shape of an output before it was computed: the plan's, or where it depends on data the file's."""
        assert self.model is not None
        try:
            return self.model.output(name).shape
        except FastgraphError:
            return _usual(self.file.tensor(self.index, index).shape)

    def run(self) -> None:
        """Compute what the inputs give. RuntimeError when there is no plan yet, or the run fails."""
        if not self.ready or self.model is None:
            raise RuntimeError("the interpreter is not ready: call allocate_tensors() first")
        feeds = self.feeds
        if self.has_text:
            feeds = {name: _text(array) if array.dtype.hasobject else array for name, array in feeds.items()}
        for name, memory in self._states():
            if name in self.variables:
                memory[...] = self.variables[name]
        try:
            results = self.model.run(feeds)
        except FastgraphError as error:
            raise RuntimeError(str(error)) from error
        self.variables.update((name, memory.copy()) for name, memory in self._states())
        for i, array in zip(self.gives, results.values(), strict=True):
            if i not in self.shapes:  # an input that is an output, too, holds what was fed
                self.arrays[i] = _bytes(array) if array.dtype.hasobject else array

    def _states(self) -> Iterator[tuple[str, np.ndarray]]:
        """Name and memory of the variables that networks share."""
        if self.resources and self.model is not None:
            current: Any = self.model._plans.current
            for state, (memory, _) in zip(self.model.signature.states, current.states, strict=True):
                if not state.input.name.startswith("variable tensor "):
                    yield state.input.name, memory

    def reset(self) -> None:
        """Let variable tensors have their first values; variables that operators know by name stay what they are."""
        if self.model is not None:
            self.model.reset_states()


def _usual(shape: tuple[int, ...]) -> Shape:
    """A shape of the file, open extents as 1."""
    return tuple(1 if extent < 0 else extent for extent in shape)


def _zeros(shape: Shape, dtype: np.dtype) -> np.ndarray:
    return np.full(shape, b"", object) if dtype.hasobject else np.zeros(shape, dtype)


def _text(array: np.ndarray) -> np.ndarray:
    """Bytes as str, which graphs hold text as."""
    found = np.empty(array.shape, object)
    texts = [each.decode("utf-8", "surrogateescape") if isinstance(each, bytes) else str(each) for each in array.flat]
    found.reshape(-1)[:] = texts
    return found


def _bytes(array: np.ndarray) -> np.ndarray:
    """Text as bytes, which is how LiteRT gives it."""
    found = np.empty(array.shape, object)
    found.reshape(-1)[:] = [each.encode("utf-8", "surrogateescape") for each in array.flat]
    return found
