"""A program: kernel calls with their arguments, and the offsets of all values. It is data, without addresses."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..ir import Node, Value
from ..kernels.core.kernel import Kernel
from ..kernels.core.record import Record
from ..kernels.core.table import row
from .arena import Packing
from .constants import Constants
from .storage import Storage


class Scratch:
    """Memory that one step needs while it runs."""

    __slots__ = ("name", "nbytes")

    def __init__(self, name: str, nbytes: int) -> None:
        self.name, self.nbytes = name, nbytes


class Ref(NamedTuple):
    """An address: `offset` bytes into the buffer of a value or a scratch, or into a constant's array."""

    base: Value | Scratch | int
    offset: int = 0

    def plus(self, nbytes: int) -> Ref:
        return Ref(self.base, self.offset + nbytes)


ERROR = Ref(-1)
"""The cell to which a kernel writes a code when an index read at run time is out of range."""


def buffer_bytes(owner: Value | Scratch) -> int:
    """Bytes of the buffer that belongs to a value or a scratch: one at least."""
    return max(owner.nbytes if isinstance(owner, Scratch) else owner.type.nbytes, 1)


class Table:
    """Words that a kernel reads beside its record, of the same kinds. As a word itself: their address."""

    __slots__ = ("words",)

    def __init__(self, words: tuple[int | Ref | Kernel, ...]) -> None:
        self.words = words


class UserKernel(Kernel):
    """A user's operator compiled for kinds of arguments, of which the cache keeps nothing.

    `op`: the operator; `forms`: what each of its function's parameters is, by name (ops/custom.py); `record`: the slots
    of its calls; `entry`: what numba made of it, in this process, once that is there.
    """

    def __init__(self, op: Any, forms: dict[str, tuple[Any, ...]], record: Record) -> None:
        shown = ",".join(f"{name}={_shown(form)}" for name, form in forms.items())
        self.name, self.params, self._text = op.text, (), f"{op.text}({shown})"
        self.op, self.forms, self.record = op, forms, record
        self.entry: Any = None

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def _shown(form: tuple[Any, ...]) -> str:
    if form[0] == "array":
        return f"{form[1]}[{','.join('?' * form[2])}]"
    return repr(form[1]) if form[0] == "text" else form[0]


def record_of(kernel: Kernel) -> Record:
    return kernel.record if isinstance(kernel, UserKernel) else row(kernel.name).args


Arg: TypeAlias = int | Ref | Kernel | Table
"""A word of a record: a number, or the address of memory, of a kernel's machine code, of a table."""


class Step:
    """A call of a kernel with its argument record, which does `share` of the work of `node`.

    `part`: 0, or the number of the part of some steps that threads do at once (`slots.groups`), this call as on one.
    """

    __slots__ = ("kernel", "args", "node", "share", "part")

    def __init__(self, kernel: Kernel, args: tuple[Arg, ...], node: Node, share: float = 1.0, part: int = 0) -> None:
        self.kernel, self.args, self.node, self.share, self.part = kernel, args, node, share, part

    def tables(self) -> list[Table]:
        """The tables that words of its record are."""
        return [arg for arg in self.args if type(arg) is Table] if Table in map(type, self.args) else []

    def words(self) -> tuple[Arg, ...]:
        """All words of its record and its tables."""
        tables = self.tables()
        return (*self.args, *(word for table in tables for word in table.words)) if tables else self.args

    def kernels(self) -> list[Kernel]:
        """Its kernel, and the kernels that this one calls."""
        words = self.words()
        called = [word for word in words if type(word) is Kernel] if Kernel in map(type, words) else []
        return [self.kernel, *called]


class HostStep:
    """A node that NumPy computes between native segments."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node


class Jump:
    """Where a run goes on `by` steps from here instead of one: always, or if the byte at `cell` is `wanted`.

    fails: it leads to the end of a run that has failed.
    """

    __slots__ = ("node", "cell", "wanted", "fails", "by")

    def __init__(self, node: Node, cell: Ref | None = None, wanted: bool = True, fails: bool = False) -> None:
        self.node, self.cell, self.wanted, self.fails = node, cell, wanted, fails
        self.by = 1


AnyStep: TypeAlias = Step | HostStep | Jump


def parts_of(steps: Sequence[AnyStep]) -> list[int]:
    """The number of each step's part."""
    return [step.part if isinstance(step, Step) else 0 for step in steps]


class Program:
    """Steps in order, constants (packed weights), the place of each value, and the arena's plan.

    `room`: the memory of its constants; None: each lies where it was made, and they have to be brought together.
    `offsets` maps the buffers' owners to bytes in the arena; `storage` every value to its place in a buffer. `lasting`:
    the keys of constants, by number, that other plans of the model may have as well. `bodies`: the steps of each node
    of control flow, among which its jumps stay. `arena` is there when all steps are.
    """

    arena: Packing

    def __init__(self) -> None:
        self.steps: list[AnyStep] = []
        self.bodies: dict[Node, range] = {}
        self.constants: list[np.ndarray] = []
        self.room: Constants | None = None
        self.lasting: dict[int, Hashable] = {}
        self.storage: dict[Value, Storage] = {}
        self.offsets: dict[Value | Scratch, int] = {}

    def kernels(self) -> list[Kernel]:
        """The distinct kernels, in order of first use."""
        steps = (step for step in self.steps if isinstance(step, Step))
        return list(dict.fromkeys(kernel for step in steps for kernel in step.kernels()))
