"""Saves programs: plans as data, with their code, constants and the graph, in one file (saved/container.py)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from operator import index
from typing import Any

import numpy as np

from .. import __version__
from ..compile import Compiled
from ..errors import FileError, InputError, UnsupportedError
from ..ir import Graph, Value
from ..kernels.core.kernel import Kernel
from ..kernels.core.table import kernels_of, row
from ..kernels.isa.tiers import BY_NAME, NUMPY, Tier
from ..objects import elf
from ..objects.cache import objects
from ..objects.code import Foreign, Image
from ..objects.toolchain import toolchain
from ..plan.program import ERROR, Ref, Step, Table, UserKernel, buffer_bytes, parts_of
from ..plan.storage import byte_strides
from ..saved import json
from ..saved.codec import encoded
from ..saved.container import ALIGN, ELEMENTS, WEIGHTS, padded, write
from ..saved.flat import Flat, Part, View, entry_of
from ..shared import share
from .bind import commit_of, jump_record, out_of_range
from .executable import Made, fed_inputs
from .keys import Key, Keys
from .partition import lookups_of, partition
from .pool import KERNELS, MAX_THREADS, TIER
from .stored import EXECUTOR, layout
from .work import work_of

LARGE = 1 << 16
"""Bytes from which on an array of plain numbers is a weight, which a load maps without reading it."""

SAMPLE = 256
"""Bytes at both ends of an array by which others like it are found."""

Plans = Sequence[tuple[Tier, int, Key, Made]]
"""Plans with their tiers, thread counts and keys."""


def path_of(path: str | os.PathLike[str]) -> str:
    """The path that a caller gives for a program. InputError for what is none, and for names of other kinds of file."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"save takes the path of a file, {type(path).__name__} was given: save('net.fgm')")
    path = os.fsdecode(path)
    stem, kind = os.path.splitext(path)
    if kind.lower() not in ("", ".fgm"):
        raise InputError(
            f"save({path!r}): a saved program is no file of that kind, it is called *.fgm: save({f'{stem}.fgm'!r})"
        )
    return path


def tiers_of(isa: str | Sequence[str] | None, usual: Tier) -> list[Tier]:
    """The tiers that a caller names, as "avx2,amx" or in a list. InputError, UnsupportedError for "numpy"."""
    many = isinstance(isa, list | tuple | set)
    names: list[Any] = (
        [usual.name] if isa is None else isa.split(",") if isinstance(isa, str) else list(isa) if many else [isa]
    )
    names = [name.strip() if isinstance(name, str) else name for name in names] or [""]
    for name in names:
        if name == NUMPY.name:
            raise UnsupportedError("a program for isa='numpy' has no machine code to be saved: name a tier of kernels")
        if not isinstance(name, str) or name not in BY_NAME:
            raise InputError(f"isa={isa!r}: there is no tier {name!r}; the tiers are {', '.join(BY_NAME)}")
    return [BY_NAME[name] for name in dict.fromkeys(names)]


def threads_of(threads: int | Sequence[int] | None, usual: int) -> list[int]:
    """The numbers of threads that a caller names. InputError unless they are whole numbers from 1 on."""
    many = isinstance(threads, list | tuple | set | range)
    given = [min(usual, MAX_THREADS)] if threads is None else list(threads) if many else [threads]  # type: ignore
    try:
        counts = [0 if isinstance(n, bool) else index(n) for n in given]  # type: ignore[arg-type]
    except TypeError:
        counts = []
    if not counts or not all(1 <= n <= MAX_THREADS for n in counts):
        raise InputError(f"threads={threads!r}: expected whole numbers from 1 to {MAX_THREADS}")
    return list(dict.fromkeys(counts))


def plans_of(
    keys: Keys, chosen: Iterable[Key], tiers: Sequence[Tier], counts: Sequence[int], there: Mapping[Any, Made]
) -> list[tuple[Tier, int, Key, Made]]:
    """Plans for these keys, for each tier and number of threads: those that are there by these three, or new ones.
    Raises what planning does.
    """
    found, chosen = [], list(chosen)
    for tier in tiers:
        shared = None  # with others of its tier: addresses of kernels are a tier's
        for key in chosen:
            for count in counts:
                made = there.get((tier, count, key))
                if made is None:
                    shared = shared or share(keys.whole)
                    made = keys.planned(key, tier, count, shared)
                found.append((tier, count, key, made))
    return found


def save(
    path: str, keys: Keys, outputs: list[Value], plans: Plans, origin: Mapping[str, Any], whole: bool,
    complete: Sequence[Tier] = (),
) -> None:  # fmt: skip
    """Write a file with these plans; `whole`: and the graph; `complete`: and all kernels of these tiers. `outputs`: of
    the types that callers are told; `origin`: what it is to say of the model's file, as `origin_of` gives it.

    UnsupportedError for what belongs to this process, FileError when the file can't be written.
    """
    graph = keys.whole
    if not whole and not all(is_flat(made.compiled) for _, _, _, made in plans):
        raise UnsupportedError(
            f"{graph.source or graph.name or 'model'}: graph=False: NumPy computes a part of the model, which each "
            "load plans from the graph: save it with the graph"
        )
    arrays = _Arrays()
    images = {EXECUTOR: _Image(TIER, KERNELS), **_images(plans, complete)}
    entries = [_entry(tier, threads, key, made, images[tier.name], arrays) for tier, threads, key, made in plans]
    signature = Graph(graph.name, graph.inputs, outputs, source=graph.source, usual=graph.usual)
    signature.interface, signature.limits, signature.precision = graph.interface, graph.limits, graph.precision
    signature.stored = graph.stored
    texts = {"interface": json.encoded(encoded(signature, arrays.number))}
    if whole:
        texts["graph"] = json.encoded(encoded(graph, arrays.number))
    shapes = dict.fromkeys(key.shapes for _, _, key, _ in plans)
    directory = {
        "fastgraph": __version__, "sources": toolchain()[0], "layout": layout(), "source": dict(origin),
        "arrays": arrays.entries, "plans": entries, "images": {name: image.entry for name, image in images.items()},
        "decide": sorted(keys.decide), "deciders": [[each, keys.names(each)] for each in shapes],
    }  # fmt: skip
    sections: dict[str, list[Any]] = {WEIGHTS: arrays.weights, "tables": arrays.tables}
    sections |= {f"code/{name}": [image.linked.code] for name, image in images.items()}
    sections |= {name: [text] for name, text in texts.items()}
    try:
        write(path, directory, sections)
    except OSError as error:
        why = error.strerror or error
        raise FileError(f"{path!r} can't be written: {why}: name a file in a folder of yours") from error


def origin_of(graph: Graph, hashed: bool = True) -> dict[str, Any]:
    """The name of the file that the graph was read from, and its SHA-256 where it is one file and is to be `hashed`."""
    found: dict[str, Any] = {"name": os.path.basename(graph.source), "bytes": graph.stored}
    if hashed and os.path.isfile(graph.source):
        with open(graph.source, "rb") as file:
            digest = sha256()
            while part := file.read(1 << 20):
                digest.update(part)
        found["sha256"] = digest.hexdigest()
    return found


class _Arrays:
    """Numbers arrays; those with the same bytes are kept once. `entries`: for the directory; WEIGHTS and "tables" are
    the sections that they lie in.
    """

    def __init__(self) -> None:
        self.entries: list[list[Any]] = []
        self.weights: list[np.ndarray] = []
        self.tables: list[np.ndarray] = []
        self._sizes = {WEIGHTS: 0, "tables": 0}
        self._places: dict[tuple[Any, ...], list[tuple[np.ndarray, tuple[str, int]]]] = {}
        self._numbers: dict[tuple[Any, ...], int] = {}

    def number(self, array: np.ndarray) -> int:
        """The number of an array in the file."""
        whole = np.ascontiguousarray(array).reshape(array.shape)
        name = element(whole.dtype)
        if name not in ELEMENTS or not whole.dtype.isnative:
            raise UnsupportedError(f"an array of {whole.dtype} can't be saved")
        entry = (*self._place(whole), name, whole.shape)
        if entry not in self._numbers:
            self._numbers[entry] = len(self.entries)
            self.entries.append(list(entry))
        return self._numbers[entry]

    def _place(self, array: np.ndarray) -> tuple[str, int]:
        plain = array.dtype.kind in "fc" or array.itemsize == 1
        section = WEIGHTS if plain and array.nbytes >= LARGE else "tables"
        kept = array.reshape(-1).view(np.uint8) if array.nbytes else np.zeros(ALIGN, np.uint8)
        alike = self._places.setdefault((section, kept.nbytes, kept[:SAMPLE].tobytes(), kept[-SAMPLE:].tobytes()), [])
        for other, place in alike:
            if np.array_equal(other, kept):
                return place
        place = section, self._sizes[section]
        alike.append((kept, place))
        self._sizes[section] += padded(kept.nbytes)
        (self.weights if section == WEIGHTS else self.tables).append(kept)
        return place


class _Image:
    """The code of kernels for a tier, and their numbers in it; `complete`: and of all others that the tier has."""

    def __init__(self, tier: Tier, kernels: Iterable[Kernel], complete: bool = False) -> None:
        self.tier, self.complete, self._wanted = tier, complete, dict.fromkeys(kernels)
        every = dict.fromkeys([*self._wanted, *(kernels_of(tier) if complete else ())])
        self.numbers = {kernel: number for number, kernel in enumerate(every)}

    @cached_property
    def linked(self) -> Image:
        made = zip(self.numbers, objects(list(self.numbers), self.tier), strict=True)
        try:
            return elf.arrange({kernel.symbol: obj for kernel, obj in made})
        except Foreign as error:
            raise UnsupportedError(f"programs can't be saved on this system: of a kernel's object, {error}") from None

    @property
    def entry(self) -> dict[str, Any]:
        """Its part of the directory."""
        linked = self.linked
        spelled = [[kernel.name, kernel.params] for kernel in self.numbers]
        needs = {flag for kernel in self._wanted for flag in row(kernel.name).needs(dict(kernel.params))}
        return {
            "functions": linked.functions, "offsets": list(linked.symbols.values()), "kernels": spelled,
            "needs": sorted(needs), "complete": self.complete,
        }  # fmt: skip


def _images(plans: Plans, complete: Sequence[Tier]) -> dict[str, _Image]:
    kernels: dict[Tier, list[Kernel]] = {tier: [] for tier in complete}
    for tier, _, _, made in plans:
        kernels.setdefault(tier, []).extend(made.compiled.program.kernels())
    return {tier.name: _Image(tier, each, tier in complete) for tier, each in kernels.items()}


def _entry(tier: Tier, threads: int, key: Key, made: Made, image: _Image, arrays: _Arrays) -> dict[str, Any]:
    """A plan for the directory; what NumPy computes a part of is planned again by each load, from the graph."""
    flat = flattened(made.compiled, image.numbers) if is_flat(made.compiled) else None
    return {
        "tier": tier.name,
        "threads": threads,
        "shapes": key.shapes,
        "values": key.contents(),
        "decided": [
            [name, None if value is None else arrays.number(value)] for name, value in made.compiled.values.items()
        ],
        "flat": None if flat is None else entry_of(flat, arrays.number),
    }


def element(dtype: np.dtype) -> str:
    """An element type in text: kind and bytes, as "f4"."""
    return dtype.str[1:]


def is_flat(plan: Compiled) -> bool:
    """Whether native steps alone make all results, in memory."""
    program = plan.program
    made = [held_of(plan, v) for _, v in plan.results]
    numbers = {v for v in made if v is not None and v.data is not None and v.data.dtype.kind in "biufc"}
    extents = [plan.made.get(n.count) for b in plan.bounded.values() for n in b.extents.values()]
    held = all(v in program.storage or v in numbers for v in made) and all(v in program.storage for v in extents)
    native = plan.tier is not NUMPY and all(isinstance(part, list) for _, part in partition(program.steps))
    return native and held and plan.tail is None and not (plan.late or plan.leaving)


def held_of(plan: Compiled, result: Value) -> Value | None:
    """The value of the program that holds a result; None where there is none."""
    bounded = plan.bounded.get(result)
    return plan.made.get(result if bounded is None else bounded.value)


def flattened(plan: Compiled, kernels: Mapping[Kernel, int]) -> Flat:
    """A plan that is flat, as data. UnsupportedError for operators of users."""
    return _Flattener(plan, kernels).flat()


class _Flattener:
    """Numbers the bases of a plan's addresses: error cell, buffers, constants, kernels, tables."""

    def __init__(self, plan: Compiled, kernels: Mapping[Kernel, int]) -> None:
        self.plan, self.program = plan, plan.program
        self.parts = [(first, part) for first, part in partition(self.program.steps) if isinstance(part, list)]
        self.steps = [step for _, part in self.parts for step in part]
        self.kernels = self._used(kernels)
        self.buffers = {owner: 1 + i for i, owner in enumerate(self.program.offsets)}
        first = 1 + len(self.buffers) + len(self.program.constants)
        self.codes = {kernel: first + i for i, kernel in enumerate(self.kernels)}
        words = [step.args for step in self.steps if isinstance(step, Step)]
        tables = dict.fromkeys(arg for args in words for arg in args if type(arg) is Table)
        self.tables = {table: first + len(self.codes) + i for i, table in enumerate(tables)}

    def _used(self, kernels: Mapping[Kernel, int]) -> dict[Kernel, int]:
        for step in self.steps:
            if isinstance(step, Step) and isinstance(step.kernel, UserKernel):
                raise UnsupportedError(
                    f"{self.plan.graph.source or self.plan.graph.name}: node {step.node.name}: {step.node.op} is an "
                    "operator of yours, compiled in this process: a program with it can't be saved"
                )
        return {kernel: kernels[kernel] for kernel in self.program.kernels()}

    def word(self, arg: Any) -> tuple[int, int]:
        """A word, as an offset and the number of its base, -1 for a number."""
        if isinstance(arg, Kernel):
            return 0, self.codes[arg]
        if isinstance(arg, Table):
            return 0, self.tables[arg]
        if not isinstance(arg, Ref):
            return int(arg), -1
        if arg == ERROR:
            return 0, 0
        number = isinstance(arg.base, int)
        return arg.offset, 1 + len(self.buffers) + arg.base if number else self.buffers[arg.base]  # type: ignore

    def flat(self) -> Flat:
        records = [step.args if isinstance(step, Step) else jump_record(step) for step in self.steps]
        blocks = [*records, *(table.words for table in self.tables)]
        starts = np.cumsum([0, *map(len, blocks)])
        words = np.array([self.word(arg) for block in blocks for arg in block], np.int64).reshape(-1, 2)
        based = np.flatnonzero(words[:, 1] >= 0)
        numbers = {kernel: number for number, kernel in enumerate(self.kernels)}
        kernels = [numbers[s.kernel] if isinstance(s, Step) else -1 for s in self.steps]
        work = work_of(self.steps)
        plan, program = self.plan, self.program
        results = [(v, name) for name, v in ((name, held_of(plan, v)) for name, v in plan.results) if v is not None]
        return Flat(
            program.arena.size,
            np.array([[at, buffer_bytes(o)] for o, at in program.offsets.items()], np.int64).reshape(-1, 2),
            np.ascontiguousarray(words[:, 0]),
            np.stack([based, words[based, 1]], 1).astype(np.int64),
            starts[len(records) : len(blocks)].astype(np.int64),
            np.array([kernels, starts[: len(records)], work, parts_of(self.steps)], np.int64).T.copy().reshape(-1, 4),
            list(self._cut()),
            program.constants,
            list(self.kernels.values()),
            [(v.name, self.view(v)) for v in fed_inputs(plan) if v in program.storage],
            [(name, self.view(v) if v.data is None else v.data) for v, name in results],
            [(self.view(s.input), np.asarray(s.initial)) for s in plan.states],
            list(self._cuts()),
        )

    def _cuts(self) -> Iterable[tuple[int, int, View]]:
        """The extents of results that depend on data."""
        for number, (_, v) in enumerate(self.plan.results):
            for axis, extent in self.plan.bounded[v].extents.items() if v in self.plan.bounded else ():
                yield number, axis, self.view(self.plan.made[extent.count])

    def _cut(self) -> Iterable[Part]:
        """The parts, numbered by their steps."""
        first = 0
        for _, part in self.parts:
            lookups = lookups_of(part)
            refusal = str(out_of_range(self.plan.graph, lookups)) if lookups else ""
            yield Part(first, len(part), commit_of(part), refusal)
            first += len(part)

    def view(self, value: Value) -> View:
        at, dims, dtype = self.program.storage[value], value.type.dims, value.type.element
        strides = byte_strides(dims, dtype.itemsize, at.stride)
        buffer = self.buffers.get(at.root, 1) - 1  # an empty value may have none
        return View(buffer, at.offset, element(dtype), dims, tuple(strides))
