"""Saved programs: plans read from a file, mapped and run, without a graph, a planner or a compiler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from .. import __version__
from ..errors import GraphError, InputError, ModelError
from ..freedoms import checked, threshold
from ..ir import Graph, TensorType, check, is_open
from ..kernels.core.kernel import Kernel
from ..kernels.core.slots import CALL, CALL_AT, JUMP, JUMPS, LOOK, MEMBER, PARTS, PROGRAM, STEP, TEAM, TEAM_WORTH
from ..kernels.isa.tiers import Tier, has, usable
from ..limits import Limits
from ..named import NamedTuple
from ..objects import code as images
from ..saved.container import Container, whole
from ..saved.flat import Flat, Part, View, read
from . import pool
from .allocate import Allocation, allocate, allocate_apart
from .feeds import declared
from .keys import Key, Shapes
from .runnable import ConstantMemory, Extents, Feed, Place, Runnable, address, cut, in_turn, pays

EXECUTOR = "executor"
"""The image of the kernels that run others, which all tiers share."""


def layout() -> list[str]:
    """The records and flags that the executor's machine code and pool.py agree on: a file of others can't be run."""
    flags = f"look={LOOK} jumps={JUMPS} team_worth={TEAM_WORTH} call_at={CALL_AT}"
    return [*(" ".join(record) for record in (STEP, JUMP, PARTS, PROGRAM, CALL, TEAM, MEMBER)), flags]


class StoredPlan(NamedTuple):
    """A plan of a file, with the addresses of its kernels, for a run by so many threads. `plain`: whether an array of
    an input's type is fed as it is.
    """

    flat: Flat
    kernels: list[int]
    values: Mapping[str, np.ndarray | None]
    title: str
    threads: int
    plain: bool

    @property
    def arena_bytes(self) -> int:
        return max(self.flat.size, 64)

    @property
    def constants(self) -> ConstantMemory:
        """All constants lie in the file."""
        return ConstantMemory(np.empty(0, np.uint8), self.flat.constants, [])

    @property
    def objects(self) -> int:
        """Bytes of its words, in the file and bound to memory."""
        return 2 * self.flat.words.nbytes

    def bound(self, block: Allocation | None = None) -> StoredRunnable:
        return StoredRunnable(self, block)


class StoredRunnable(Runnable):
    """A plan of a file in memory."""

    _bounded: Sequence[tuple[str, np.ndarray, Extents]] = ()

    def __init__(self, plan: StoredPlan, block: Allocation | None) -> None:
        flat = plan.flat
        arena, base, offsets, constants = _memory(plan, block)
        super().__init__(plan.title, arena, plan.values)
        self.arena_bytes, self.threads = flat.size, plan.threads
        error = np.zeros(1, np.int64)
        addresses = [address(array) for array in constants]
        bases = np.array([address(error), *(base + at for at in offsets), *addresses, *plan.kernels], np.int64)
        words = flat.based(bases)
        steps = np.zeros((len(flat.steps), 2), np.int64)
        kernels = np.array([*plan.kernels, 0], np.int64)  # a jump's is 0
        steps[:, 0], steps[:, 1] = kernels[flat.steps[:, 0]], address(words) + 8 * flat.steps[:, 1]
        work, parts = flat.steps[:, 2].tolist(), flat.steps[:, 3].tolist()
        owner = arena, constants, error, words

        def run_of(part: Part, timed: bool) -> Callable[[], Any]:
            runner = runners[part.first]
            once = partial(runner.run, True) if timed else runner.alone if runner.threads == 1 else runner.run
            if not part.refusal:
                return once
            return partial(_checked, partial(runner.run, timed), part.refusal)

        runners = {
            part.first: pool.Runner(
                steps[part.first : part.first + part.steps], plan.threads, address(error), owner, part.commit,
                work[part.first : part.first + part.steps], threshold("waking_work", pool.WORTH_WAKING),
                parts[part.first : part.first + part.steps],
            )
            for part in flat.parts
        }  # fmt: skip
        self.execute = in_turn([run_of(part, False) for part in flat.parts])
        self.execute_timed = in_turn([run_of(part, True) for part in flat.parts])
        self.states = [(view.of(arena, offsets), initial) for view, initial in flat.states]
        feeds = [Feed(name, v.dims, np.dtype(v.dtype), v.of(arena, offsets)) for name, v in flat.inputs]
        outputs = [(name, at.of(arena, offsets) if isinstance(at, View) else at) for name, at in flat.outputs]
        self._types = [TensorType.of(view) for _, view in outputs]
        size = sum(view.nbytes for _, view in outputs)
        if flat.cuts:
            self._cut(flat, outputs, arena, offsets)
            self.arrange(feeds, None, size, plan.plain)
            return
        self.arrange(feeds, outputs, size, plan.plain)
        inputs = {feed.name: _place(flat, v, feed.view) for feed, (_, v) in zip(feeds, flat.inputs, strict=True)}
        made = zip(outputs, flat.outputs, strict=True)
        results = {name: _place(flat, at, view) for (name, view), (_, at) in made if isinstance(at, View)}
        if pays(inputs, results):
            from .direct import Direct  # most models are small

            self.direct = (
                Direct(words, flat.words_in, inputs, results, [view.buffer for view, _ in flat.states]) or None
            )

    def _cut(
        self, flat: Flat, outputs: Sequence[tuple[str, np.ndarray]], arena: np.ndarray, offsets: Sequence[int]
    ) -> None:
        """Set the outputs whose extents a run finds."""
        extents: list[list[tuple[int, np.ndarray]]] = [[] for _ in outputs]
        for output, axis, extent in flat.cuts:
            extents[output].append((axis, extent.of(arena, offsets)))
            dims = self._types[output].shape or ()
            self._types[output] = TensorType(self._types[output].dtype, (*dims[:axis], None, *dims[axis + 1 :]))
        self._bounded = [(name, view, each) for (name, view), each in zip(outputs, extents, strict=True)]

    def made(self) -> Sequence[tuple[str, np.ndarray]]:
        if not self._bounded:
            return super().made()
        return [(name, cut(view, extents)) for name, view, extents in self._bounded]

    def output_types(self) -> list[TensorType]:
        return self._types


def _place(flat: Flat, at: View, view: np.ndarray) -> Place:
    return Place(at.buffer, int(flat.buffers[at.buffer, 1]) if at.buffer < len(flat.buffers) else 0, view)


def _memory(plan: StoredPlan, block: Allocation | None) -> tuple[np.ndarray, int, list[int], list[np.ndarray]]:
    """The arena, its address, the offset of each buffer in it, and the constants: mapped; or copies of them, all with
    guard pages between.
    """
    flat = plan.flat
    if checked() != "guard":
        memory, base = block or allocate(plan.arena_bytes)
        return memory[: plan.arena_bytes], base, flat.buffers[:, 0].tolist(), flat.constants
    arena, base, offsets = allocate_apart(flat.buffers[:, 1].tolist())
    room, _, starts = allocate_apart([array.nbytes for array in flat.constants])
    copies = [
        np.ndarray(array.shape, array.dtype, room, start) for array, start in zip(flat.constants, starts, strict=True)
    ]
    for copy, array in zip(copies, flat.constants, strict=True):
        copy[...] = array
    return arena, base, offsets, copies


def _checked(run: Callable[[], int], refusal: str) -> None:
    if run():
        raise InputError(refusal)


class Saved:
    """What a file holds for a tier, the widest that can run here or the one `asked` for: plans by their keys, code, and
    the graph that further plans are made of.

    `graph`: inputs, outputs and interface alone; `whole`: with its nodes. `shapes`: of inputs, as the caller declares
    them. `reread` gives the graph of a program that was kept of a file (kept.py); of another, the shapes of the first
    plan are what open inputs have at first. `limits`: what further plans may cost, where not what the file says.
    """

    def __init__(
        self, file: Container, asked: Tier | None, threads: int, shapes: Any = None,
        reread: Callable[[], Graph] | None = None, limits: Limits | None = None,
    ) -> None:  # fmt: skip
        self.file, self.threads, self._shapes, self._reread = file, threads, shapes, reread
        self._limits = limits
        self.directory = file.directory
        if self.directory["layout"] != layout():
            raise ModelError(
                f"{file.title}: saved by fastgraph {self.directory['fastgraph']}, whose machine code this version, "
                f"{__version__}, can't call: save it again with this one, or install that one"
            )
        self.graph = self.decoded("interface")
        with file.reading("its plans"):
            inputs = [v.name for v in self.graph.inputs]
            self._known = {_shapes(shapes): tuple(names) for shapes, names in self.directory["deciders"]}
            decide = {*self.directory["decide"], *(name for names in self._known.values() for name in names)}
            if len(set(inputs)) < len(inputs) or not decide <= set(inputs):
                raise file.damaged("it has not the inputs that it names")
            plans = [_sound(plan, inputs) for plan in self.directory["plans"]]
            self._named = dict.fromkeys([*(plan["tier"] for plan in plans), *self.directory["images"]])
            self._named.pop(EXECUTOR, None)
            self.tiers = [name for name in self._named if has(self.image(name)["needs"])]
        self.tier = asked or next((tier for tier in reversed(usable()) if tier.name in self.tiers), usable()[-1])
        self.plans = [plan for plan in plans if plan["tier"] == self.tier.name and plan["tier"] in self.tiers]
        if self.plans and not shapes and reread is None:
            self.graph.usual = dict(zip(inputs, _shapes(self.plans[0]["shapes"]), strict=True))
        self._code: dict[str, list[int]] = {}

    @property
    def origin(self) -> dict[str, Any] | None:
        """What the file says of the model's file that it was made of; None where that is the file that was named."""
        return self.directory["source"] if self._reread is None else None

    @cached_property
    def whole(self) -> Graph:
        """The graph with its nodes. InputError when the file has none."""
        if "graph" not in self.file.sections and self._reread is not None:
            graph = self._reread()
            declared(graph, self._shapes)
            return graph
        if "graph" not in self.file.sections:
            raise InputError(
                f"{self.file.title}: it was saved without its graph, and runs {self.stored()}: for more, save it with "
                f"its graph, or take the file that it was made of, {self.directory['source']['name'] or 'a graph'}"
            )
        graph, told = self.decoded("graph"), self.graph
        try:
            check(graph)
        except GraphError as error:
            raise self.file.damaged(str(error)) from None
        if [v.name for v in graph.inputs + graph.outputs] != [v.name for v in told.inputs + told.outputs]:
            raise self.file.damaged("its graph has other inputs or outputs than it says")
        return graph

    def decoded(self, section: str) -> Graph:
        """A graph of the file."""
        from ..saved.codec import decoded

        graph = decoded(self.file.json(section), self.file.array)
        graph.source = self.file.title
        graph.limits = self._limits or graph.limits
        declared(graph, self._shapes)
        return graph

    def first(self, shapes: Shapes) -> Key:
        """The key of a plan to begin with: one of these shapes if there is one."""
        for plan in sorted(self.plans, key=lambda plan: plan["flat"] is None):  # those first that are not planned again
            if _shapes(plan["shapes"]) == shapes:
                return Key(shapes, tuple((name, bytes.fromhex(content)) for name, content in plan["values"]))
        return Key(shapes)

    def deciders(self, shapes: Shapes) -> tuple[str, ...] | None:
        """The inputs that decide shapes when all have these shapes; None when the file does not say."""
        return self._known.get(shapes)

    def plan(self, key: Key) -> StoredPlan | None:
        """The plan for this key; None when there is none that needs no planning.

        Of those for several thread counts, the one for the fewest that are at least as many as asked for, else for the
        most; fewer threads than it is for can run it.
        """
        wanted = [list(map(list, key.shapes)), key.contents()]
        found = {plan["threads"]: plan for plan in self.plans if [plan["shapes"], plan["values"]] == wanted}
        if not found or is_open(key.opens):
            return None
        chosen = found[min((n for n in found if n >= self.threads), default=max(found))]
        if chosen["flat"] is None:
            return None
        flat = read(chosen["flat"], self.file)
        code = self.code(self.tier.name)
        with self.file.reading("a plan"):
            values = {name: None if number is None else self.file.array(number) for name, number in chosen["decided"]}
            kernels = [code[number] for number in flat.kernels]
            if not _is_for(flat, values, self.graph, key):
                raise self.file.damaged("a plan is for other inputs or outputs")
        if checked():
            from .recheck import recheck

            recheck(flat, self._spelled(), self.tier, chosen["threads"], self.file)
        pool.start(self.executor())
        plain = len(flat.inputs) + len(values) == len(self.graph.inputs) and not any(
            port.kind is not None for port in self.graph.interface.ports.values()
        )
        threads = min(self.threads, chosen["threads"])
        return StoredPlan(flat, kernels, values, self.file.title, threads, plain)

    def _spelled(self) -> list[Kernel]:
        """The kernels of its tier, in order."""
        with self.file.reading("the names of its kernels"):
            spelled = self.image(self.tier.name)["kernels"]
            return [Kernel(name, tuple((key, _params(item)) for key, item in params)) for name, params in spelled]

    def code(self, image: str) -> list[int]:
        """The addresses of the kernels of an image, in order."""
        if image not in self._code:
            entry = self.image(image)
            offsets, size = entry["offsets"], len(self.file.section(f"code/{image}"))
            inside = all(images.STUB * len(entry["functions"]) <= at < size for at in offsets)
            if not inside or offsets != sorted(set(offsets)) or len(offsets) != len(entry["kernels"]):
                raise self.file.damaged(f"the code of {image} has not the kernels that it names")
            base = _placed(self.file, image, entry["functions"])
            self._code[image] = [base + at for at in offsets]
        return self._code[image]

    def image(self, name: str) -> dict[str, Any]:
        """The directory's entry of an image of code."""
        found: dict[str, Any] | None = self.directory["images"].get(name)
        if found is None:
            raise self.file.damaged(f"it lacks the code of {name}")
        return found

    def executor(self) -> dict[str, int]:
        """The addresses of the kernels that run others, by name."""
        with self.file.reading("the names of the kernels that run others"):
            spelled = self.image(EXECUTOR)["kernels"]
            found = {name: address for (name, _), address in zip(spelled, self.code(EXECUTOR), strict=True)}
            return {kernel.name: found[kernel.name] for kernel in pool.KERNELS}

    def kernels(self) -> dict[Kernel, int]:
        """The addresses of the kernels of its tier, if they are those of this version."""
        from ..objects.toolchain import toolchain

        if self.directory["sources"] != toolchain()[0] or self.tier.name not in self.tiers:
            return {}
        pool.start(self.executor())
        return dict(zip(self._spelled(), self.code(self.tier.name), strict=True))

    def stored(self) -> str:
        """The shapes that it has plans for, for messages."""
        names = [v.name for v in self.graph.inputs]
        texts = [
            "{" + ", ".join(f"{n!r}: {tuple(s)}" for n, s in zip(names, plan["shapes"], strict=True)) + "}"
            for plan in self.plans
        ]
        tiers = ", ".join(" with ".join([name, *self.image(name)["needs"]]) for name in self._named)
        return " or ".join(dict.fromkeys(texts)) or f"on {tiers}, not on {self.tier.name}"


def _sound(plan: dict[str, Any], inputs: Sequence[str]) -> dict[str, Any]:
    """A plan of the directory. ValueError unless its key is one of a model with these inputs."""
    valued = all(name in inputs and type(bytes.fromhex(content)) is bytes for name, content in plan["values"])
    if not valued or not 1 <= plan["threads"] <= pool.MAX_THREADS or len(_shapes(plan["shapes"])) != len(inputs):
        raise ValueError(plan["tier"])
    return plan


def _shapes(entry: Sequence[Sequence[int]]) -> Shapes:
    return tuple(tuple(map(whole, shape)) for shape in entry)


def _is_for(flat: Flat, values: Mapping[str, np.ndarray | None], graph: Graph, key: Key) -> bool:
    """Whether a plan takes these inputs, and gives these outputs."""
    types = {v.name: (v.type.dtype, shape) for v, shape in zip(graph.inputs, key.shapes, strict=True)}
    takes = [(name, (np.dtype(view.dtype), view.dims)) for name, view in flat.inputs]
    takes += [(name, types.get(name) if a is None else (a.dtype, a.shape)) for name, a in values.items()]  # type: ignore
    fits = all(types.get(name) == taken for name, taken in takes) and len(dict(takes)) == len(takes)
    return fits and [name for name, _ in flat.outputs] == [v.name for v in graph.outputs]


def _params(item: Any) -> Any:
    """A parameter of a kernel, whose tuples are lists in JSON."""
    return tuple(map(_params, item)) if isinstance(item, list) else item


_images: dict[bytes, int] = {}
"""The addresses of code that is in memory, by what it holds: it is never unloaded."""


def _placed(file: Container, image: str, functions: Sequence[str]) -> int:
    """The address of an image's code. ModelError when it needs functions that no kernel calls."""
    code = file.section(f"code/{image}").tobytes()
    wrong = set(functions) - images.ALLOWED
    if wrong:
        raise file.damaged(f"its code calls {', '.join(sorted(wrong))}")
    try:
        if code not in _images:
            _images[code] = images.place(images.Image(code, tuple(functions), {}))
    except (images.Foreign, OSError) as error:
        raise ModelError(f"{file.title}: its code can't be loaded here: {error}") from error
    return _images[code]
