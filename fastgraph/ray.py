"""Networks on Ray: a callable for batches of Ray Data, and a deployment of Ray Serve (docs/scale-out.md).

    ds.map_batches(
        fastgraph.ray.Predictor, fn_constructor_kwargs={"path": "net.onnx"}, batch_size=32, concurrency=4, num_cpus=1
    )
    serve.run(fastgraph.ray.deployment("net.onnx", max_batch_size=8))

An actor runs its network on one thread, on a CPU of its own. The first actor of a machine makes a saved program, which
all of them map: weights are in memory once, and the others neither plan nor compile.
"""

from __future__ import annotations

import os
import socket
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np

from .errors import FastgraphError, InputError, UnsupportedError
from .kernels.isa.tiers import choose
from .loading import load
from .objects.store import prepare
from .objects.toolchain import directory
from .objects.trust import Untrusted
from .runtime.feeds import array_of, instance
from .runtime.kept import digest, find, stands_alone, versions
from .runtime.model import Model, TensorSpec
from .saved.source import saved_in

Row = Mapping[str, Any]
Columns = dict[str, np.ndarray]
HOLDS = "fastgraph-cpu"
"""What the sockets are called whose names say that a CPU is taken."""
OF_LOADED = ("threads", "isa", "plans", "trusted")
"""Options of `load` for a saved program; the others are for the file that it is made of."""


class Predictor:
    """A network as a callable from a batch, a dict of columns, to another, for `ray.data.Dataset.map_batches`.

    `path`: what `fastgraph.load` reads, with its `options`; on other machines it is read there. `columns` names the
    column of each input, which has its own name by default; a single input takes the only column. `results` likewise
    names the column of each output. `constants` are inputs that are the same in every run, by name. `batch_sizes`: the
    sizes to plan for at once, where the file leaves the batch open (default: that of the first batch). `threads`: what
    Ray is told as `num_cpus`; one thread gets a CPU of its own, if `pin` and there is a free one.

    A batch has a row for each result. Columns that feed no input are in the result, too. The inputs' first axis is the
    batch: where the file fixes it, parts of that size are run, and the last is filled up with zeros, whose results are
    dropped; where it is open, each size has a plan, which is kept. Inputs of one axis less than their column are run
    row by row. States begin anew with each run.

    Floats are rounded to the input's type; numbers of another type are fed as they are, if none changes by it (pixels
    of 0 to 255 stay that): a warning says so once. InputError when a batch does not fit the inputs.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, columns: Mapping[str, str] | None = None,
        results: Mapping[str, str] | None = None, constants: Mapping[str, Any] | None = None,
        batch_sizes: Sequence[int] = (), threads: int = 1, pin: bool = True, **options: Any,
    ) -> None:  # fmt: skip
        self._path, self._options = os.fsdecode(path), {"threads": threads, **options}
        self._columns, self._results = dict(columns or {}), dict(results or {})
        self._constants = {name: np.asarray(value) for name, value in (constants or {}).items()}
        self._warned: set[str] = set()
        self._cpu = _Cpu() if pin and threads == 1 else nullcontext()
        self.model = program(self._path, [], self._options)
        """The network; another object once there is a plan."""
        self._known([*self._columns, *self._constants], self.model.inputs, "input")
        self._known(self._results, self.model.outputs, "output")
        if not self.model.planned and batch_sizes:
            self.model = program(self._path, [self._open_shapes(size) for size in batch_sizes], self._options)

    def __call__(self, batch: Mapping[str, Any]) -> Columns:
        """The outputs of a batch, and its columns that were not fed."""
        names = {spec.name: self._source(spec, batch) for spec in self._fed}
        rest = {name: column for name, column in batch.items() if name not in names.values()}
        arrays = {spec.name: self._array(spec, np.asarray(batch[names[spec.name]])) for spec in self._fed}
        found = {self._results.get(name, name): column for name, column in self._all(arrays).items()}
        if both := set(found) & set(rest):
            raise InputError(f"{_listed(both)}: an output and a column have this name: rename it with results={{...}}")
        return {**rest, **found}

    def row(self, row: Row) -> Columns:
        """The inputs of one row as arrays. InputError when it does not fit: with it, a whole batch would fail."""
        wanted = {value.name: value for value in self.model.signature.inputs if value.name not in self._constants}
        if not isinstance(row, Mapping) or set(row) != set(wanted):
            found = _listed(row) if isinstance(row, Mapping) else type(row).__name__
            raise InputError(f"expected the inputs {_listed(wanted)}, found {found or 'none'}")
        arrays = {}
        for name, value in wanted.items():
            arrays[name], shape = array_of(value, row[name]), value.type.shape
            size = arrays[name].shape
            if shape is not None and not instance(shape, size) and not instance(shape[1:], size):
                raise InputError(
                    f"input {name!r} has shape {size}, the model declares {value.type}, of which a row is one"
                )
        return arrays

    def rows(self, rows: Sequence[Columns]) -> list[dict[str, Any]]:
        """The outputs of each of these rows; those of one shape are run together."""
        groups: dict[Any, list[int]] = {}
        for i, row in enumerate(rows):
            groups.setdefault(tuple(array.shape for array in row.values()), []).append(i)
        found: list[dict[str, Any]] = [{}] * len(rows)
        for places in groups.values():
            outputs = self._all({name: np.stack([rows[i][name] for i in places]) for name in rows[places[0]]})
            for k, i in enumerate(places):
                found[i] = {self._results.get(name, name): column[k] for name, column in outputs.items()}
        return found

    @property
    def _fed(self) -> list[TensorSpec]:
        return [spec for spec in self.model.inputs if spec.name not in self._constants]

    def _known(self, names: Sequence[str] | Mapping[str, str], specs: Sequence[TensorSpec], what: str) -> None:
        known = [spec.name for spec in specs]
        for name in names:
            if name not in known:
                raise InputError(f"{self._path}: no {what} is called {name!r}, there are {_listed(known)}")

    def _source(self, spec: TensorSpec, batch: Mapping[str, Any]) -> str:
        """The name of an input's column."""
        name = self._columns.get(spec.name, spec.name)
        if name not in batch and spec.name not in self._columns and len(self._fed) == len(batch) == 1:
            name = next(iter(batch))
        if name not in batch:
            advice = f"name one with columns={{{spec.name!r}: ...}}"
            raise InputError(f"no column {name!r} for input {spec.name!r}, there are {_listed(batch)}: {advice}")
        return name

    def _array(self, spec: TensorSpec, column: np.ndarray) -> np.ndarray:
        """A column in the input's type, as far as `run` would not make that of it; rows of different shapes are
        objects.
        """
        if column.dtype == object and spec.dtype != object:
            rows = [self._array(spec, np.asarray(row)) for row in column]
            return _column_of(rows) if rows else np.zeros(0, spec.dtype)
        if spec.dtype is None or column.dtype == spec.dtype:
            return column
        rounds = column.dtype.kind == spec.dtype.kind == "f" and column.itemsize > spec.dtype.itemsize
        how = "rounded" if rounds else "fed as numbers of that type, and not scaled"
        warning = f"the column of input {spec.name!r} is {column.dtype}, the input {spec.dtype}: it is {how}"
        if warning not in self._warned:
            self._warned.add(warning)
            warnings.warn(warning, stacklevel=3)
        return column.astype(spec.dtype) if rounds else column

    def _all(self, arrays: Columns) -> dict[str, Any]:
        """The outputs of all rows."""
        counts = {len(array) for array in arrays.values()}
        if len(counts) != 1:
            raise InputError(f"columns have different numbers of rows: {', '.join(map(str, sorted(counts)))}")
        (count,) = counts
        if any(spec.dtype != object and arrays[spec.name].dtype == object for spec in self._fed):
            runs = [
                self._all({name: np.asarray(array[i])[None] for name, array in arrays.items()}) for i in range(count)
            ]
            return {name: _column_of([run[name][0] for run in runs]) for name in runs[0]}
        size = self._size(arrays)
        if size == 0:
            runs = [self._run({name: array[i] for name, array in arrays.items()}) for i in range(count)]
            return {name: _column_of([run[name] for run in runs]) for name in (runs[0] if runs else ())}
        size = size or max(count, 1)
        parts = []
        for at in range(0, max(count, 1), size):
            part = {name: _filled(array[at : at + size], size) for name, array in arrays.items()}
            parts.append(self._cut(self._run(part), size, min(size, count - at)))
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _size(self, arrays: Columns) -> int | None:
        """Rows of a run, None for any number; 0 where rows are run one by one, as inputs have no axis for them."""
        sizes: set[int] = set()
        for spec in self._fed:
            array = arrays[spec.name]
            if spec.shape is None:
                continue
            if array.ndim == len(spec.shape) + 1:
                return 0
            sizes |= {each for each in spec.shape[:1] if isinstance(each, int)}
        return min(sizes, default=None)

    def _run(self, feeds: Columns) -> dict[str, Any]:
        """One run, on the CPU of this actor."""
        feeds = self._constants | feeds
        if not self.model.planned:
            self.model = program(self._path, [{name: array.shape for name, array in feeds.items()}], self._options)
        with self._cpu:
            self.model.reset_states()
            return self.model.run(feeds)

    def _cut(self, outputs: dict[str, Any], size: int, count: int) -> dict[str, np.ndarray]:
        for name, array in outputs.items():
            if not isinstance(array, np.ndarray) or array.shape[:1] != (size,):
                found = array.shape if isinstance(array, np.ndarray) else type(array).__name__
                advice = "choose others with outputs=[...]"
                raise InputError(f"output {name!r} of a batch of {size} is {found}, not a row for each: {advice}")
        return {name: array[:count] for name, array in outputs.items()}

    def _open_shapes(self, size: int) -> dict[str, tuple[int, ...]]:
        """The shapes of inputs for a batch. InputError when more than the batch is open."""
        found = {name: array.shape for name, array in self._constants.items()}
        for spec in self._fed:
            dims = (size, *spec.shape[1:]) if spec.shape else ()
            if not all(isinstance(each, int) for each in dims):
                raise InputError(f"batch_sizes: more than the batch is open in input {spec.name!r}: {spec.shape}")
            found[spec.name] = tuple(int(each) for each in dims if each is not None)
        return found


def program(path: str, shapes: Sequence[Mapping[str, Sequence[int]]], options: Mapping[str, Any]) -> Model:
    """A network of a file, with plans for these shapes beside those of the file, mapped from a saved program in the
    machine's cache. That is made if it is not there yet, while others that want it wait.

    The file itself is loaded where it is a saved program, where nothing can be planned yet, and where nothing can be
    saved: operators of users, isa="numpy", values that decide shapes, a cache that can't be written.
    """
    if saved_in(path):
        return load(path, **options)
    tier = options.get("isa") or choose().name
    wanted = tier, sorted(options.items(), key=str), list(shapes), _beside(path), list(versions())
    place = Path(directory(), "plans", f"ray-{digest(path, repr(wanted))[:40]}.fgm")
    try:
        prepare(place.parent)
    except (OSError, Untrusted):
        return load(path, **options)
    with _alone(place.with_suffix(".lock")):
        if find(str(place), path) is None:  # not there, or damaged
            model = load(path, **options)
            if not model.planned and not shapes:
                return model
            try:
                model.save(place, shapes=shapes or None)
            except (InputError, UnsupportedError):
                return model
    return load(place, **{name: value for name, value in options.items() if name in OF_LOADED})


def _beside(path: str) -> list[tuple[str, int, int]]:
    """What tells that the files are others in which some of a file's data may lie: names, sizes, times."""
    if stands_alone(path):
        return []
    places = [Path(folder, name) for folder, _, names in os.walk(os.path.dirname(path) or ".") for name in names]
    return sorted((str(place), (known := place.stat()).st_size, known.st_mtime_ns) for place in places)


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """One process of this machine at a time. Where there are no such locks, several save the same file, one by one."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with place.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class _Cpu:
    """A CPU that no other actor of this user's machine has, if there is one: within it, this thread runs there."""

    def __init__(self) -> None:
        self.number, self._held, self._before = None, None, set[int]()
        for number in _by_core():
            # A name that only one socket can have, and that ends with the process.
            with suppress(AttributeError, OSError):
                held = socket.socket(socket.AF_UNIX)
                held.bind(f"\0{HOLDS}-{number}")
                self.number, self._held = number, held
                return

    def __enter__(self) -> None:
        if self.number is not None:
            with suppress(OSError):
                self._before = os.sched_getaffinity(0)
                os.sched_setaffinity(0, {self.number})

    def __exit__(self, *_: Any) -> None:
        if self._before:
            with suppress(OSError):
                os.sched_setaffinity(0, self._before)


def _by_core() -> list[int]:
    """The CPUs that this process may use: first one of each core, then those that share it."""
    if not hasattr(os, "sched_getaffinity"):
        return []

    def turn(number: int) -> tuple[int, int]:
        place = Path(f"/sys/devices/system/cpu/cpu{number}/topology/core_cpus_list")
        with suppress(OSError, ValueError):
            first = int(place.read_text().replace("-", ",").split(",")[0])
            return int(number != first), number
        return 0, number

    return sorted(os.sched_getaffinity(0), key=turn)


def _filled(array: np.ndarray, size: int) -> np.ndarray:
    missing = size - len(array)
    return np.concatenate([array, np.zeros((missing, *array.shape[1:]), array.dtype)]) if missing else array


def _column_of(values: Sequence[Any]) -> np.ndarray:
    """Results of rows as a column: of objects, where their shapes differ."""
    if len({np.shape(each) for each in values}) == 1 and not isinstance(values[0], Mapping):
        return np.stack([np.asarray(each) for each in values])
    column = np.empty(len(values), object)
    for i, value in enumerate(values):
        column[i] = value
    return column


def _listed(names: Any) -> str:
    return ", ".join(map(repr, names))


def deployment(
    path: str | os.PathLike[str], *, max_batch_size: int = 8, batch_wait_timeout_s: float = 0.005,
    num_replicas: int | str = 1, threads: int = 1, name: str = "fastgraph", **options: Any,
) -> Any:  # fmt: skip
    """An application of Ray Serve, for `serve.run`: replicas that put requests together into batches.

    A request is one row: a dict of its inputs by name, without the batch axis, in a call of the handle; the same as
    JSON, or an .npz archive, over HTTP. So is the result, by output. What does not fit is an InputError, over HTTP 400
    with `error`, and does not touch the others of its batch. `max_batch_size` and `batch_wait_timeout_s`: how many
    requests make a batch, and how many seconds the first of them waits for others. `options`: those of `Predictor` and
    of `fastgraph.load`. Raises FastgraphError when Ray Serve is not installed.
    """
    serve = _serve()
    how = {"threads": threads, **options}

    class Network:
        def __init__(self) -> None:
            sizes = range(1, max_batch_size + 1)
            try:
                self.predictor = Predictor(path, **{"batch_sizes": sizes, **how})
            except InputError:  # more than the batch is open: plans are made for what comes
                self.predictor = Predictor(path, **how)

        @serve.batch(max_batch_size=max_batch_size, batch_wait_timeout_s=batch_wait_timeout_s)
        async def together(self, rows: list[Columns]) -> list[dict[str, Any]]:
            import asyncio

            return await asyncio.to_thread(self.predictor.rows, rows)

        async def __call__(self, request: Any) -> Any:
            from starlette.requests import Request

            if isinstance(request, Request):
                return await _answer(request, self)
            return await self.together(self.predictor.row(request))

    options_of_ray = {"num_cpus": threads}
    made = serve.deployment(Network, name=name, num_replicas=num_replicas, ray_actor_options=options_of_ray)
    return made.bind()


async def _answer(request: Any, network: Any) -> Any:
    """The response to a request over HTTP, in the form that it has."""
    import io
    import json

    from starlette.responses import JSONResponse, Response

    body = await request.body()
    try:
        if body[:2] == b"PK":
            with np.load(io.BytesIO(body), allow_pickle=False) as file:
                row = network.predictor.row(dict(file))
        else:
            row = network.predictor.row(json.loads(body))
    except (FastgraphError, ValueError, TypeError, OSError) as error:
        return JSONResponse({"error": str(error)}, status_code=400)
    found = await network.together(row)
    if body[:2] != b"PK":
        return JSONResponse({name: np.asarray(value).tolist() for name, value in found.items()})
    file = io.BytesIO()
    np.savez(file, **found)
    return Response(file.getvalue(), media_type="application/zip")


def _serve() -> Any:
    try:
        from ray import serve
    except ImportError as error:
        raise FastgraphError(f"Ray Serve ({error}): not installed: pip install 'fastgraph-runtime[ray]'") from None
    return serve
