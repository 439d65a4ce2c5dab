"""InferenceSession: a fastgraph model behind the methods of onnxruntime's."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from ..errors import FastgraphError, ModelError
from ..loading import load
from ..runtime.model import Model
from . import options, providers
from .binding import IOBinding
from .described import Described, ModelMetadata, NodeArg, completed, describe
from .errors import Fail, InvalidArgument, ModelLoadCanceled, NotImplemented, OrtError, failed, lacking, loading
from .feeds import Inputs
from .options import RunOptions, SessionOptions
from .profile import Profile
from .state import needless
from .values import OrtMemoryInfo, OrtValue


class Session:
    """The base of sessions: see `InferenceSession`."""

    _model: Model
    _inputs: Inputs
    _described: Described
    _sess_options: SessionOptions
    _profile: Profile | None
    _output_names: list[str]
    _scalar_names: list[str]

    # -- running

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: RunOptions | None = None
    ) -> list[Any]:
        """The outputs of these names (all, for None or none), as arrays of the caller's own, or lists of them.

        ValueError for an input that is not fed, InvalidArgument for a name that there is not and for a feed of another
        element type, rank or extent, Fail where operators can't be computed with these shapes or values.
        """
        self._inputs.missing(input_feed)
        return self._run(output_names, input_feed, run_options)

    def _run(
        self, names: Sequence[str] | None, fed: Mapping[str, Any], run_options: RunOptions | None,
        out: Mapping[str, Any] | None = None,
    ) -> list[Any]:  # fmt: skip
        """`run`. Results that can be made in arrays of `out` as they are are these."""
        wanted = self._wanted(names)
        feeds = self._inputs.checked(fed)
        if run_options is not None:
            _check_terminated(run_options)
        try:
            if self._profile is None:
                results = self._model._results(self._scalars(feeds), None, out)
            else:
                with self._profile.event("model_run"):
                    results = self._model._results(self._scalars(feeds), None, out)
        except FastgraphError as error:
            raise failed(error) from error
        if run_options is not None:
            _check_terminated(run_options)
        return [results[name] for name in wanted]

    def _wanted(self, names: Sequence[str] | None) -> Sequence[str]:
        if not names:
            return self._output_names
        wrong = [name for name in names if name not in self._output_names]
        if isinstance(names, str) or not all(isinstance(name, str) for name in wrong):
            raise TypeError(f"run(): output_names is a list of names, or None for all, found {names!r}")
        if wrong:
            raise InvalidArgument(f"Invalid output name:{wrong[0]}")
        return names

    def _scalars(self, feeds: dict[str, Any]) -> dict[str, Any]:
        """Arrays of one element as the scalars that the file declares."""
        for name in self._scalar_names:
            value = feeds[name]
            if type(value) is np.ndarray and value.ndim:
                if value.size != 1:
                    raise InvalidArgument(
                        f"Invalid rank for input: {name} Got: {value.ndim} Expected: 0 "
                        "Please fix either the inputs/outputs or the model."
                    )
                feeds[name] = value.reshape(())
        return feeds

    def run_async(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], None], user_data: Any, run_options: RunOptions | None = None,
    ) -> None:  # fmt: skip
        """Run in a thread, which then calls callback(results, user_data, what went wrong or "")."""
        self._inputs.missing(input_feed)

        def work() -> None:
            results: list[Any] = []
            error = ""
            try:
                results = self._run(output_names, input_feed, run_options)
            except OrtError as raised:
                error = raised.text
            except Exception as raised:
                error = str(raised) or type(raised).__name__
            callback(results, user_data, error)

        threading.Thread(target=work, name="fastgraph.onnxruntime.run_async", daemon=True).start()

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """`run`, with OrtValues."""
        self._inputs.missing(input_dict_ort_values)
        fed = {name: value._get_c_value()._value for name, value in input_dict_ort_values.items()}
        return [OrtValue(result) for result in self._run(output_names, fed, run_options)]

    def run_with_ortvaluevector(
        self, run_options: RunOptions | None, feed_names: Sequence[str], feeds: Sequence[OrtValue],
        fetch_names: Sequence[str], fetches: list[OrtValue], fetch_devices: Any,
    ) -> None:  # fmt: skip
        """`run_with_ort_values`, with results appended to `fetches`."""
        fed = dict(zip(feed_names, feeds, strict=True))
        fetches.extend(self.run_with_ort_values(fetch_names, fed, run_options))

    def io_binding(self) -> IOBinding:
        """What inputs are read from and outputs written to, for `run_with_iobinding`."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Run on what is bound. RuntimeError where that does not fit, as with onnxruntime."""
        if iobinding._session is not self:
            raise ValueError("IOBinding must be used with the session that created it.")
        iobinding._run(lambda names, fed, out: self._run(names, fed, run_options, out))

    # -- what there is

    def get_inputs(self) -> list[NodeArg]:
        return self._described.inputs

    def get_outputs(self) -> list[NodeArg]:
        return self._described.outputs

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Initializers that the file lets callers replace; fastgraph takes them for constants."""
        return self._described.overridable

    def get_modelmeta(self) -> ModelMetadata:
        return self._described.meta

    def get_session_options(self) -> SessionOptions:
        return self._sess_options

    def get_providers(self) -> list[str]:
        return list(providers.used())

    def get_provider_options(self) -> dict[str, Any]:
        return providers.used()

    def set_providers(self, providers: Any = None, provider_options: Any = None) -> None:
        """Warns of those that there are not; the CPU stays."""
        _check_providers(providers, provider_options)

    enable_fallback = disable_fallback = set_tuning_results = release_captured_graph = needless

    def get_input_memory_infos(self) -> list[OrtMemoryInfo]:
        return [OrtMemoryInfo.cpu() for _ in self._described.inputs]

    def get_output_memory_infos(self) -> list[OrtMemoryInfo]:
        return [OrtMemoryInfo.cpu() for _ in self._described.outputs]

    def get_input_epdevices(self) -> list[Any]:
        return [None for _ in self._described.inputs]

    def get_provider_graph_assignment_info(self) -> list[Any]:
        return []

    get_tuning_results = get_provider_graph_assignment_info

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        lacking("dynamic options of execution providers", "load another session with what is to change")

    def create_ortvalue_from_shape_and_type(
        self, shape: Sequence[int], element_type: Any, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type, device_type, device_id, vendor_id)

    def end_profiling(self) -> str:
        """The path of the trace file, "" where `enable_profiling` was not set."""
        profile, self._profile = self._profile, None
        return "" if profile is None else profile.write()

    def get_profiling_start_time_ns(self) -> int:
        return 0 if self._profile is None else self._profile.begin

    # -- names of onnxruntime's own insides that packages use

    _sess = property(lambda self: self)
    _inputs_meta = property(lambda self: self._described.inputs)
    _outputs_meta = property(lambda self: self._described.outputs)
    _model_meta = property(lambda self: self._described.meta)
    _providers = property(lambda self: list(providers.used()))
    _provider_options = property(lambda self: providers.used())


class InferenceSession(Session):
    """A network that is ready to run: see onnxruntime.InferenceSession."""

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str],
        sess_options: SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Mapping[Any, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        """Read and plan an ONNX file, or its bytes (or what else `fastgraph.load` reads, a saved program too).

        `providers`: one that is not there gives a warning, and the CPU. Further arguments change nothing. NoSuchFile,
        InvalidProtobuf, InvalidGraph, InvalidArgument, NotImplemented or Fail where the model can't be loaded.
        """
        if path_or_bytes and isinstance(path_or_bytes, str | os.PathLike):
            self._model_path: str | None = os.fspath(path_or_bytes)
        elif isinstance(path_or_bytes, bytes):
            self._model_path = None
        else:
            found = "an empty path" if isinstance(path_or_bytes, str) else f"type '{type(path_or_bytes)}'"
            raise TypeError(f"Unable to load from {found}")
        if not isinstance(sess_options, SessionOptions | None):
            raise TypeError(f"sess_options: expected SessionOptions, found {type(sess_options).__name__}")
        self._sess_options = sess_options or SessionOptions()
        options.check(self._sess_options)
        _check_providers(providers, provider_options)
        self._profile = Profile(self._sess_options.profile_file_prefix) if self._sess_options.enable_profiling else None
        with nullcontext() if self._profile is None else self._profile.event("model_loading"):
            self._load(path_or_bytes)

    def _load(self, source: str | bytes | os.PathLike[str]) -> None:
        chosen = self._sess_options
        if chosen._canceled:
            raise ModelLoadCanceled("Loading was canceled due to user request.")
        source = source if isinstance(source, bytes) else os.fspath(source)
        where = "" if isinstance(source, bytes) else source
        _refuse_ort(source)
        with loading(where):
            described = _outlined(source)
            override(described.inputs, chosen._dimensions, chosen._denotations)
            fixed: dict[str, Any] = {a.name: a.shape for a in described.inputs if _override_decides(a, chosen)}
            self._model = load(source, threads=max(chosen.intra_op_num_threads, 0) or None, shapes=fixed or None)
        self._described = completed(described, self._model)
        self._inputs = Inputs(self._described.inputs, self._described.overridable)
        self._output_names = [arg.name for arg in self._described.outputs]
        self._scalar_names = [spec.name for spec in self._model.inputs if spec.shape == () and spec.dtype is not None]


def _outlined(source: str | bytes) -> Described:
    """The file's description. For a broken file `load` raises the error, which says more."""
    try:
        return describe(source)
    except (FileNotFoundError, ValueError) as error:
        load(source)
        raise ModelError(f"not an ONNX model, or cut short ({error})") from None


def _refuse_ort(source: str | bytes) -> None:
    head = source[:8] if isinstance(source, bytes) else b""
    if head[4:] == b"ORTM" or isinstance(source, str) and source.endswith(".ort") and os.path.exists(source):
        raise NotImplemented(  # noqa: F901  # onnxruntime's
            "a model in onnxruntime's own format (.ort), which its conversion made of an ONNX file: give that .onnx"
        )


def override(inputs: Sequence[NodeArg], named: Mapping[str, int], marked: Mapping[str, int]) -> None:
    """Give open axes the extents that the options say, by their names or denotations in the file."""
    for arg in inputs:
        marks = arg._marks or ("",) * len(arg.shape)
        shape = [d if isinstance(d, int) else marked.get(mark, d) for d, mark in zip(arg.shape, marks, strict=True)]
        arg.shape = [named.get(d, d) if isinstance(d, str) else d for d in shape]


def _override_decides(arg: NodeArg, chosen: SessionOptions) -> bool:
    overrides = bool(chosen._dimensions or chosen._denotations)
    known = bool(arg.shape) and all(isinstance(d, int) for d in arg.shape)
    return overrides and known and arg.type.startswith("tensor(")


def _check_providers(names: Any, given: Any) -> None:
    providers.check(names, given)


def _check_terminated(run_options: RunOptions) -> None:
    if run_options.terminate:
        raise Fail("Exiting due to terminate flag being set to true.")
