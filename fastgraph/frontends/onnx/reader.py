"""The state of reading one file: its functions, and facts about values beyond the graph's."""

from __future__ import annotations

from ...ir import Value
from ..core import reader
from .wire import Message


class Reader(reader.Reader):
    """One file on its way to a graph.

    `ranks` holds numbers of dimensions that can be relied on (of constants, of the model's inputs, and what follows
    from them), `formats` the names of element types that numpy lacks.
    """

    def __init__(self, source: str, path: str | None, functions: dict[tuple[str, str, str], Message]) -> None:
        super().__init__(source)
        self.path = path
        self.functions = functions
        self.ranks: dict[Value, int] = {}
        self.formats: dict[Value, str] = {}
