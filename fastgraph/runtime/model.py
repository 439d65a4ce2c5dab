"""A loaded model: one plan per set of input shapes, and of values that decide shapes; a run is one native call."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import deadline
from ..errors import CopyError, FastgraphError, InputError, RunTimeout
from ..ir import Graph, Quantization, TensorType, Value, is_open
from ..ir.quantization import Stored
from ..kernels.isa.tiers import Tier
from ..locks import held, lock, undisturbed
from ..named import NamedTuple
from ..text import counted, units
from .check_feeds import boolean, checked_feeds, example, fixed_shape, input_types, wanted
from .feeds import picked, without_overlap
from .keys import Key, Keys, Shapes, Whole
from .planner import Planner
from .plans import USUAL, Plans
from .runnable import Runnable

if TYPE_CHECKING:
    from ..shared import Shared
    from .executable import Executable
    from .metadata import Metadata
    from .stored import Saved


class TensorSpec(NamedTuple):
    """Name, shape (int, symbol or None per axis; None: rank unknown), dtype and quantization of an input or output."""

    name: str
    shape: tuple[int | str | None, ...] | None
    dtype: np.dtype | None
    quantization: Quantization | None = None

    @staticmethod
    def of(value: Value) -> TensorSpec:
        return TensorSpec(value.name, value.type.shape, value.type.dtype, Stored.of(value.type.quant, value.type.dtype))


class Model:
    """What `fastgraph.load` gives.

    `run` and calling copy in and out, but large arrays of floats, which are read where they lie, and large results,
    which are made in their arrays; they may be called from several threads (one runs at a time). `input`, `execute` and
    `output` work on the memory of the plan itself, without copies, and are for one thread; a `run` need not leave there
    what it read and made.

    Its attributes, which nobody sets: `inputs` and `outputs`, a `TensorSpec` each; `threads`; `tier`, the instructions
    that kernels use; `precision`, what float32 may be computed in; `metadata`, what the file says of itself; `graph`,
    as the file has it; `plan` and `arena_bytes`, of the plan in use; `unplanned`, why there is none for the shapes that
    the file names, when these only are its proposal.
    """

    tier: Tier
    precision: str
    inputs: list[TensorSpec]
    outputs: list[TensorSpec]
    unplanned: str

    def __init__(
        self, graph: Graph, tier: Tier, threads: int, plans: Plans = USUAL, stored: Saved | None = None,
        keep: Callable[[Model], None] | None = None, part_of: Whole | None = None,
    ) -> None:  # fmt: skip
        """`stored`: the file that the model is loaded from, if it is a saved program; `graph` then needs no nodes.
        `keep` is called once there is a plan. `part_of`: the plan that the graph is part of.
        """
        self._threads = threads
        self._set(tier=tier, precision=graph.precision, unplanned="")
        self._graph, self._stored = graph, stored
        self._keep: Callable[[Model], None] | None = None
        self._set(inputs=[TensorSpec.of(v) for v in graph.inputs])
        self._shows = graph.interface.shows | _shown(graph.interface.elements)
        self._planner = Planner(Keys(graph, stored, part_of), plans, tier, threads, _part)
        self._keys, self._plans = self._planner.keys, self._planner.plans
        self._looked: tuple[Key, Executable] | None = None
        self._lock = lock()
        self._reduced: Callable[[], Any] | None = None  # what pickles, given by who has loaded it
        fixed = [(v.name, fixed_shape(v)) for v in graph.inputs]
        usual = [graph.usual.get(name) if shape is None else shape for name, shape in fixed]
        if None not in usual and part_of is None:
            shapes: Shapes = tuple(usual)  # type: ignore[arg-type]
            try:
                self._use(Key(shapes) if stored is None else stored.first(shapes))
            except FastgraphError as error:
                if not self._keys.open and not self._keys.names(shapes):
                    raise
                self._set(unplanned=str(error))
        self._outputs = self._told()
        self._set(outputs=[TensorSpec.of(value) for value in self._outputs])
        self._keep = keep
        if self.planned:
            self._keep_plans()

    def _set(self, **values: Any) -> None:
        vars(self).update(values)

    def __setattr__(self, name: str, value: Any) -> None:
        """Public attributes can't be set: plans exist already, and would not change."""
        if not name.startswith("_"):
            advice = ""
            if name in ("threads", "plans", "limits", "precision"):
                advice = f": load the model with it, fastgraph.load(..., {name}={value!r})"
            elif name in ("tier", "isa"):
                advice = f": load the model with it, fastgraph.load(..., isa={getattr(value, 'name', value)!r})"
            elif name in ("inputs", "outputs", "plan", "arena_bytes"):
                advice = ": other shapes come by resize, or by a run that is fed them"
            raise AttributeError(f"a model's attributes can't be set, {name!r} was{advice}", name=name, obj=self)
        object.__setattr__(self, name, value)

    if not TYPE_CHECKING:  # else a type checker would take any name

        def __getattr__(self, name):
            from .other_engines import INSTEAD

            if name not in INSTEAD:
                return object.__getattribute__(self, name)  # raises again what was raised
            said = f"'Model' object has no attribute {name!r}; {INSTEAD[name]}"
            raise AttributeError(said, name=name, obj=self)

    def clone(self) -> Model:
        """A model of the same network with memory and states of its own, so that Python threads run both at the same
        time. Constants, code and plans are shared; states have their first values.
        """
        with self._lock:
            if self.planned:
                self._planned()  # in place of a plan for many shapes, whose inputs have the greatest
            twin = Model.__new__(Model)
            vars(twin).update(vars(self))
            twin._planner = self._planner.twin()
            twin._keys, twin._plans = twin._planner.keys, twin._planner.plans
            twin._keep, twin._looked, twin._lock = None, None, lock()
            if self._plans.key is not None:
                twin._use(self._plans.key)
        return twin

    def __copy__(self) -> Model:
        return self.clone()

    def __deepcopy__(self, _: Any) -> Model:
        return self.clone()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """The file, or its bytes, and the options of `load`: the model is loaded again, with the first values of its
        states. CopyError when the file has changed, or there is none.
        """
        if self._reduced is not None:
            return self._reduced()
        where = repr(self._graph.source) if self._graph.source else "..."
        raise CopyError(
            "a model that was not loaded from a file or its bytes can't be pickled: load the file where the model is "
            f"needed, fastgraph.load({where}), or copy it with clone()"
        )

    # -- running

    def run(
        self, feeds: Mapping[str, Any], *others: Any, timeout: float | None = None,
        outputs: Sequence[str] | None = None, out: Mapping[str, np.ndarray] | None = None,
    ) -> dict[str, np.ndarray]:  # fmt: skip
        """Outputs by name, in the model's order, as arrays of the caller's own. InputError when a feed does not fit.

        A feed is anything that NumPy reads as an array. It is converted to the input's element type where that changes
        no number; lists and Python's own numbers are read as that type. Element types that NumPy lacks (bfloat16,
        floats of 8 bits and fewer, integers of 4 and 2 bits) are fed as arrays of the package ml_dtypes, or as wider
        ones whose floats are rounded; such outputs are arrays of ml_dtypes where it is installed, else float32, int8
        or uint8. Sequences are lists of arrays, and None is fed to an optional that has no value.
        Inputs of Core ML models take what the model's description says: images, and nothing where there is a default;
        class labels are str or int, and dictionaries dict.

        `outputs`: names of those to give, in that order (default: all; all are computed). `out`: arrays of the outputs'
        element types and shapes, by name, which results are written into and which are given back; with no `outputs`,
        the others are not given. Large ones of floats are made there: after a run that raises, and for other threads
        before it ends, these arrays may hold anything. Memory of large results that nobody holds any more is that of
        later ones.

        `timeout`: seconds, 0 or more, that the whole call may take, with waiting for other threads' runs; RunTimeout
        when they are over. Ctrl-C raises KeyboardInterrupt. Both stop a run between two steps, nodes or rounds of a
        loop; states are then all as they were before the run (or, after Ctrl-C in its last moment, all as after it),
        and the model can be run again.
        """
        if others:
            raise InputError(
                f"run takes inputs by name, and gives all outputs by name: model.run({example(self._graph)})"
            )
        results = self._results(feeds, timeout, out)
        return results if outputs is None and out is None else picked(results, outputs, out)

    def _results(self, feeds: Mapping[str, Any], timeout: float | None, out: Any) -> dict[str, Any]:
        """All results by name. Those that were written to arrays of `out`, which are unchecked, are these."""
        if self._lock._is_owned():  # `held`, without its call
            raise FastgraphError("the handler of a signal can't run the model within whose run it was called")
        with self._lock if timeout is None else self._within(timeout):
            current = self._plans.current
            try:
                if current is None or not current.feed(feeds, out):
                    arrays = without_overlap(checked_feeds(self._graph, feeds), self._written())
                    current = self._planner.chosen(arrays)
                    self._keep_plans()
                    current.take(arrays, out)
                if timeout is None:
                    current.execute()
                else:
                    current.execute_timed()
                results = current.results(self._planner.reuse if current.large else None, out)
            finally:
                if current is not None:
                    current.let_go()
        for name, show in self._shows.items():
            results[name] = show(results[name])
        return results

    @contextmanager
    def _within(self, timeout: float) -> Iterator[None]:
        """Holds the model's lock, within a deadline."""
        with deadline.within(timeout):
            try:
                if not self._lock.acquire(timeout=deadline.seconds_left()):
                    raise RunTimeout
                deadline.check()
                yield
            except RunTimeout:
                name = self._graph.source or self._graph.name or "model"
                raise RunTimeout(f"{name}: stopped, as the run took longer than timeout={timeout} s") from None
            finally:
                if held(self._lock):
                    self._lock.release()

    def __call__(self, *arrays: Any, timeout: float | None = None) -> np.ndarray | Any:
        """Positional `run`: one array when the model has one output, else a tuple."""
        if len(arrays) == 1 and isinstance(arrays[0], Mapping) and any(v.name in arrays[0] for v in self.inputs):
            raise InputError("a dict of inputs by name was given: call model.run(feeds), or model(*feeds.values())")
        if len(arrays) != len(self.inputs):
            raise InputError(
                f"the model takes {counted(len(self.inputs), 'input')} ({input_types(self._graph)}), "
                f"{len(arrays)} were given"
            )
        outputs = self.run({spec.name: array for spec, array in zip(self.inputs, arrays, strict=True)}, timeout=timeout)
        return next(iter(outputs.values())) if len(outputs) == 1 else tuple(outputs.values())

    def resize(self, shapes: Mapping[str, Sequence[int]]) -> None:
        """Plan for these input shapes, so that `input`, `execute` and `output` can be used with them.

        Inputs are then zeros, unless they had these shapes before; outputs are those of the next run. For an input
        whose value decides shapes, a NumPy array is that value: the plan is for it, and the input holds it.
        """
        with self._lock:
            before = self._plans.current
            chosen = self._use(wanted(self._graph, self._keys, "resize", shapes))
            if chosen is not before:
                chosen.clear()

    def prepare(self, shapes: Sequence[Mapping[str, Sequence[int]]]) -> None:
        """Plan ahead for several sets of input shapes, so that their first runs take no longer than others.

        The plan in use stays in use. For an input whose value decides shapes, a NumPy array is that value, as it will
        be fed. InputError when shapes don't fit the model, or its `plans` don't keep them all.
        """
        if isinstance(shapes, Mapping) or not isinstance(shapes, Sequence) or isinstance(shapes, str):
            raise InputError("prepare takes a list of dicts of shapes by input name: prepare([{name: shape}, ...])")
        with self._lock:
            asked = [wanted(self._graph, self._keys, "prepare", each) for each in shapes]
        for each in asked:
            with self._lock, self._planner.enough(each):
                self._plans.prepare(each, self._planner.made)
        with self._lock:
            self._plans.bind(each for each in asked if each in self._plans)
        missing = sum(each not in self._plans for each in set(asked))
        if missing:
            raise InputError(
                f"prepare: {missing} of the plans for {len(set(asked))} sets of shapes are not kept, within "
                f"{self._plans.limits}: prepare fewer, or load the model with plans= for more"
            )

    def input(self, name: str) -> np.ndarray:
        """The plan's own memory of an input: write into it, then `execute`. Valid until the input shapes change, or a
        value that decides shapes; the memory of such a value itself until its own shape changes. Runs with feeds may
        leave those there, or not: write all inputs again after one.

        What is assigned there NumPy converts as it does for any array: floats lose their fractions in an input of
        integers, and numbers out of range wrap. `np.copyto(model.input(name), x, casting="safe")` refuses that.
        """
        return self._at_rest().view(name, inputs=True)

    def output(self, name: str) -> np.ndarray:
        """The plan's own memory of an output, as `execute` leaves it: valid until the next run, or until the input
        shapes change.
        """
        return self._at_rest().view(name, inputs=False)

    @property
    def execute(self) -> Callable[[], object]:
        """Call it to run once on what lies in the inputs' memory. Keep the bound callable in a hot loop, as long as the
        input shapes don't change.

        Where values of inputs decide shapes, it is the plan for those that lie there when it is called which runs, and
        then in use; other inputs keep what they hold.
        """
        current = self._at_rest()
        return self._execute if current.decided else current.execute

    def _execute(self) -> None:
        with self._lock:
            current, key = self._planned(), self._plans.key
            assert key is not None
            values = tuple((name, place.tobytes()) for name, place in current.decided.items())
            if values != key.values:
                feeds = current.fed()
                current = self._use(Key(key.shapes, values))
                current.fill(feeds)
            current.execute()

    def reset_states(self) -> None:
        """Let the variables that live from run to run have their first values again."""
        with self._lock:
            if self._plans.current is not None:
                self._plans.current.reset_states()

    # -- what is known before the first run

    @property
    def planned(self) -> bool:
        """Whether there is a plan: else the first run makes one, or `resize`."""
        return self._plans.current is not None

    @property
    def threads(self) -> int:
        """How many run the current plan: as asked for, or fewer where a saved program's plan is for fewer."""
        return self._threads if self._plans.current is None else self._plans.current.threads

    @property
    def arena_bytes(self) -> int:
        """Bytes of activation memory of the current plan."""
        return self._planned().arena_bytes

    @property
    def metadata(self) -> Metadata:
        """What the file says of itself: description, author, producer, opsets, custom entries and so on."""
        with undisturbed():
            from .metadata import Metadata
        return Metadata.of(self._graph.interface.metadata)

    @property
    def signature(self) -> Graph:
        """The graph as far as its inputs and outputs are concerned: of a saved program it has no nodes."""
        return self._graph

    @property
    def graph(self) -> Graph:
        """The graph as the file has it. InputError for a saved program without it."""
        return self._graph if self._stored is None else self._stored.whole

    @property
    def plan(self) -> Executable:
        """The current plan: lowered graph, steps, kernels, arena. Of a saved program it is made anew, in memory of its
        own, to be looked at.
        """
        from .executable import Executable

        current = self._planned()
        if isinstance(current, Executable):
            return current
        key = self._plans.key
        assert key is not None
        if self._looked is None or self._looked[0] != key:
            made = self._planner.new(key).bound()
            made.reset_states()
            self._looked = key, made
        return self._looked[1]

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        shapes: Sequence[Mapping[str, Sequence[int]]] | None = None,
        isa: str | Sequence[str] | None = None,
        threads: int | Sequence[int] | None = None,
        graph: bool = True,
        any_shape: bool = False,
    ) -> None:
        """Save a program that `fastgraph.load` maps and runs, without a compiler: plans, code, packed weights, graph.

        `shapes`: sets of input shapes to plan for, as in `prepare` (default: those that the model has plans for);
        `isa`: tiers, as "avx2,avx512vnni,amx" (default: this model's), which this CPU need not have; `threads`: for how
        many, of which a load takes what suits (default: this model's). `graph`: whether to keep the graph too, of which
        further shapes are planned, if they want no kernel that the file lacks, or where there is a compiler; without it
        the file is about half as large. `any_shape`: whether to keep all kernels of each tier (some 4 MB), so that any
        further shape is planned without a compiler.

        Raises InputError for what does not suit the model, UnsupportedError for what belongs to this process (operators
        of yours, isa="numpy"), FileError when the file can't be written.
        """
        from .save import origin_of, path_of, plans_of, save, threads_of, tiers_of

        path, tiers, counts = path_of(path), tiers_of(isa, self.tier), threads_of(threads, self._threads)
        graph, any_shape = boolean("graph", graph), boolean("any_shape", any_shape)
        if any_shape and not graph:
            raise InputError("save: any_shape=True plans shapes from the graph: keep it, without graph=False")
        if shapes is not None and (not isinstance(shapes, Sequence) or isinstance(shapes, str) or not shapes):
            raise InputError("save takes shapes in a list of dicts by input name: save(path, shapes=[{name: shape}])")
        with self._lock:
            asked = [wanted(self._graph, self._keys, "save", each) for each in shapes or ()]
            keys = asked or self._planner.own_keys()
            if not keys and not any_shape:
                raise InputError(
                    f"save: the model's input shapes are not fixed ({input_types(self._graph)}): say which to plan "
                    "for, save(path, shapes=[{name: shape}, ...]), or run it once with each, or keep what plans any, "
                    "save(path, any_shape=True)"
                )
            with self._planner.compiler():
                plans = plans_of(self._keys, dict.fromkeys(keys), tiers, counts, self._planner.made_plans())
            origin = (self._stored and self._stored.origin) or origin_of(self.graph)
            save(path, self._keys, self._outputs, plans, origin, graph, tiers if any_shape else ())

    def __str__(self) -> str:
        from .summary import text

        return text(self)

    def _repr_html_(self) -> str:
        from .summary import html

        return html(self)

    def __repr__(self) -> str:
        arena = f", arena {self._plans.current.arena_bytes} bytes" if self._plans.current else ", not planned yet"
        tier = units(self.tier.name, self.precision)
        return f"<fastgraph.Model {self._graph.name!r} {tier}, {counted(self.threads, 'thread')}{arena}>"

    # -- plans

    def _planned(self) -> Runnable:
        if self._plans.current is None:
            why = f" (there is no plan for those that the file names: {self.unplanned})" if self.unplanned else ""
            raise InputError(
                f"the model's input shapes are not fixed{why} ({input_types(self._graph)}): run it once, "
                "call resize({name: shape}), or load it with shapes={name: shape}"
            )
        if self._plans.key is not None and is_open(self._plans.key.opens):
            return self._use_own()
        return self._plans.current

    def _at_rest(self) -> Runnable:
        """The plan in use, whose inputs and outputs are in its own memory, though a signal's handler ended a run."""
        current = self._planned()
        if current.direct is not None and current.direct.away() and not held(self._lock):
            with self._lock:
                current.let_go()
        return current

    def _use(self, key: Key) -> Runnable:
        """Make this key's plan the current one."""
        current = self._planner.use(key)
        self._keep_plans()
        return current

    def _use_own(self) -> Runnable:
        """The plan for the shapes that were run, with the results, in place of one for many shapes."""
        with self._lock:
            assert self._plans.current is not None
            feeds = self._plans.current.fed()
            chosen = self._use(self._keys.of(feeds))
            chosen.fill(feeds)
            chosen.execute()
            return chosen

    def _written(self) -> list[np.ndarray]:
        """The memory that may be written before all feeds were read."""
        return [*self._planner.decided.values(), *self._plans.written()]

    def _keep_plans(self) -> None:
        """Let the plans be kept, once."""
        keep, self._keep = self._keep, None
        if keep is not None:
            keep(self)

    def _told(self) -> list[Value]:
        """The outputs with the types that callers are told: those of the plan in use, where they are known; of a saved
        program whose shapes are open, those that the model told which was saved.
        """
        current, outputs = self._plans.current, self._graph.outputs
        if current is None or self._stored is not None and (self._keys.open or self._keys.decide):
            return outputs
        types = current.output_types()
        if self._stored is not None:  # whose plans know no quantization
            types = [TensorType(t.dtype, t.shape, v.type.quant) for v, t in zip(outputs, types, strict=True)]
        return [Value(v.name, t) if t.concrete else v for v, t in zip(outputs, types, strict=True)]


def _part(graph: Graph, tier: Tier, threads: int, shared: Shared | None) -> Model:
    """The model of a part of a plan, as `tail.Part`."""
    return Model(graph, tier, threads, part_of=Whole(shared))


def _shown(elements: Mapping[str, str]) -> dict[str, Callable[[Any], Any]]:
    """By output name, the functions that show element types that NumPy lacks."""
    if not elements:
        return {}
    from .kinds import shown

    return {name: shown(element) for name, element in elements.items()}
