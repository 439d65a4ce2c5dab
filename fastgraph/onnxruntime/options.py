"""SessionOptions and RunOptions: attributes of onnxruntime's names, types and defaults."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from .enums import ExecutionMode, ExecutionOrder, GraphOptimizationLevel
from .errors import Fail, lacking, say_once
from .state import needless

T = TypeVar("T")


class Option(Generic[T]):
    """An attribute that takes values of its default's type. TypeError for others."""

    def __init__(self, default: T) -> None:
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, options: Any, owner: type) -> T:
        return self.default if options is None else options._values.get(self.name, self.default)

    def __set__(self, options: Any, value: Any) -> None:
        options._values[self.name] = self._checked(value)

    def _checked(self, value: Any) -> Any:
        kind: Any = type(self.default)
        try:
            if kind in (bool, int):
                return kind(operator.index(value))
        except TypeError:
            pass
        if isinstance(value, kind):
            return value
        raise TypeError(f"{self.name} takes values of type {kind.__name__}, found {value!r}")


class _Options:
    __slots__ = ("_entries", "_values")

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._entries: dict[str, str] = {}

    def _add(self, key: str, value: str) -> None:
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"configuration entries are texts, found {key!r}: {value!r}")
        self._entries[key] = value

    def _entry(self, key: str) -> str:
        if key not in self._entries:
            raise RuntimeError(f"{type(self).__name__} does not have configuration with key: {key}")
        return self._entries[key]


class SessionOptions(_Options):
    """Options of a session. `intra_op_num_threads` is fastgraph's `threads` (0: one per CPU). Options of how
    onnxruntime computes (levels of optimization, order, arenas, log levels) are accepted, and change nothing.
    """

    __slots__ = ("_canceled", "_denotations", "_dimensions", "_providers")

    enable_cpu_mem_arena = Option(True)
    enable_mem_pattern = Option(True)
    enable_mem_reuse = Option(True)
    enable_profiling = Option(False)
    execution_mode = Option(ExecutionMode.ORT_SEQUENTIAL)
    execution_order = Option(ExecutionOrder.DEFAULT)
    graph_optimization_level = Option(GraphOptimizationLevel.ORT_ENABLE_ALL)
    inter_op_num_threads = Option(0)
    intra_op_num_threads = Option(0)
    log_severity_level = Option(-1)
    log_verbosity_level = Option(0)
    logid = Option("")
    optimized_model_filepath = Option("")
    profile_file_prefix = Option("onnxruntime_profile_")
    use_deterministic_compute = Option(False)
    use_per_session_threads = Option(True)

    def __init__(self) -> None:
        super().__init__()
        self._dimensions: dict[str, int] = {}
        self._denotations: dict[str, int] = {}
        self._providers: list[tuple[str, dict[str, str]]] = []
        self._canceled = False

    add_session_config_entry, get_session_config_entry = _Options._add, _Options._entry

    def add_free_dimension_override_by_name(self, name: str, extent: int) -> None:
        """Let the axes of inputs that the file names so have this extent."""
        self._dimensions[name] = operator.index(extent)

    def add_free_dimension_override_by_denotation(self, denotation: str, extent: int) -> None:
        """Let the axes of inputs that the file marks so (as "DATA_BATCH") have this extent."""
        self._denotations[denotation] = operator.index(extent)

    def add_provider(self, name: str, options: dict[str, str]) -> None:
        self._providers.append((name, dict(options)))

    def add_provider_for_devices(self, devices: Sequence[Any], options: dict[str, str]) -> None:
        self._providers.append(("CPUExecutionProvider", dict(options)))

    def has_providers(self) -> bool:
        return bool(self._providers)

    set_provider_selection_policy = set_provider_selection_policy_delegate = needless

    def set_load_cancellation_flag(self, canceled: bool) -> None:
        self._canceled = bool(canceled)

    def register_custom_ops_library(self, path: str) -> None:
        """Fail: such a library is written for onnxruntime."""
        raise Fail(
            f"{path}: a library of custom operators is written for onnxruntime, and can't be loaded by fastgraph: "
            "write its operators in Python with fastgraph.register_custom_op (docs/custom.md)"
        )

    def add_initializer(self, name: str, value: Any) -> None:
        lacking("SessionOptions.add_initializer", "write the initializer into the file (onnx.numpy_helper.from_array)")

    def add_external_initializers(self, *given: Any) -> None:
        lacking("SessionOptions.add_external_initializers", "load the file from its path, with its data beside it")

    add_external_initializers_from_files_in_memory = add_external_initializers


class RunOptions(_Options):
    """The options of a run. `terminate` ends a run before it starts, and has no effect within it."""

    __slots__ = ()

    log_severity_level = Option(-1)
    log_verbosity_level = Option(0)
    logid = Option("")
    only_execute_path_to_fetches = Option(False)
    terminate = Option(False)

    add_run_config_entry, get_run_config_entry = _Options._add, _Options._entry

    def add_active_adapter(self, adapter: Any) -> None:
        lacking("LoRA adapters", "merge the adapter's weights into the file")


def check(options: SessionOptions) -> None:
    """Warns, once, of each option that was set and that a session can't follow."""
    if options.optimized_model_filepath:
        say_once(
            f"optimized_model_filepath={options.optimized_model_filepath!r}: no optimized model is written, as "
            "fastgraph has no ONNX form of what it plans; fastgraph.load(...).save('net.fgm') keeps the plan itself"
        )
