"""IOBinding: arrays that a session reads its inputs from and writes its outputs to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import OrtError
from .state import needless
from .values import OrtDevice, OrtValue, OrtValueVector, at_address, on_cpu

if TYPE_CHECKING:
    from .session import Session

Run = Callable[[Sequence[str], Mapping[str, Any], Mapping[str, Any]], list[Any]]


class IOBinding:
    """The inputs and outputs of a session that are bound to arrays: each run reads and writes these."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._given: dict[str, Any] = {}
        self._wanted: dict[str, OrtValue | None] = {}
        self._results: dict[str, OrtValue] = {}

    _iobinding = property(lambda self: self)

    def bind_cpu_input(self, name: str, arr_on_cpu: np.ndarray) -> None:
        """RuntimeError for a name that there is not, and for what is no array."""
        if not isinstance(arr_on_cpu, np.ndarray):
            raise RuntimeError("Unable to create OrtValue from the given python object: bind a numpy.ndarray")
        self._given[self._known(name)] = arr_on_cpu

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """An array in the caller's memory, which must live as long as it is bound."""
        on_cpu(device_type, f"binding input {name!r}")
        self._given[self._known(name)] = at_address(buffer_ptr, element_type, shape)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        self._given[self._known(name)] = ortvalue

    def _known(self, name: str) -> str:
        if name not in self._session._inputs.args:
            raise RuntimeError(f"Failed to find NodeArg with name: {name} in the def list")
        return name

    def bind_output(
        self, name: str, device_type: str = "cpu", device_id: int = 0, element_type: Any = None,
        shape: Sequence[int] | None = None, buffer_ptr: int | None = None,
    ) -> None:  # fmt: skip
        """The caller's memory, or with no `buffer_ptr` a new array in each run."""
        if buffer_ptr is None:
            OrtDevice.make(device_type, device_id)  # as with onnxruntime, the result then lies on the CPU
            self._wanted[name] = None
            return
        if element_type is None or shape is None:
            raise ValueError("`element_type` and `shape` are to be provided if pre-allocated memory is provided")
        on_cpu(device_type, f"binding output {name!r}")
        self._wanted[name] = OrtValue(at_address(buffer_ptr, element_type, shape))

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        self._wanted[name] = ortvalue

    synchronize_inputs = synchronize_outputs = needless

    def get_outputs(self) -> list[OrtValue]:
        """The results of the last run, in the order in which outputs were bound."""
        return list(self._results.values())

    def get_outputs_as_ortvaluevector(self) -> OrtValueVector:
        return OrtValueVector(self._results.values())

    def copy_outputs_to_cpu(self) -> list[Any]:
        """The results as arrays of the caller's own."""
        return [_copied(result._value) for result in self._results.values()]

    def clear_binding_inputs(self) -> None:
        self._given.clear()

    def clear_binding_outputs(self) -> None:
        self._wanted.clear()
        self._results.clear()

    def _run(self, run: Run) -> None:
        """RuntimeError where an array that is bound does not fit; its text begins as onnxruntime's does."""
        try:
            if not self._wanted:
                raise RuntimeError("Error in execution: At least one output should be requested.")
            missing = [name for name in self._session._inputs.required if name not in self._given]
            if missing:
                raise RuntimeError(f"Error in execution: Missing Input: {', '.join(missing)}")
            out = {name: place._value for name, place in self._wanted.items() if place is not None}
            results = run(list(self._wanted), self._given, out)
        except OrtError as error:
            raise RuntimeError(f"Error in execution: {error.text}") from error
        pairs = zip(self._wanted.items(), results, strict=True)
        self._results = {name: _written(name, place, result) for (name, place), result in pairs}


def _written(name: str, place: OrtValue | None, result: Any) -> OrtValue:
    """The result, in the place that is bound to it."""
    if place is None or not isinstance(result, np.ndarray):
        return OrtValue(result)
    if result is place._value:
        return place
    bound = place.numpy()
    if bound.dtype != result.dtype:
        found, made = place.data_type(), OrtValue(result).data_type()
        raise RuntimeError(f"Error in execution: Unexpected output data type. Actual: ({found}) , expected: ({made})")
    if bound.shape != result.shape:
        raise RuntimeError(
            f"Error in execution: what is bound to output {name!r} has shape {list(bound.shape)}, this run's has "
            f"{list(result.shape)}: bind it without memory (bind_output({name!r})), or memory of that shape"
        )
    bound[...] = result
    return place


def _copied(value: Any) -> Any:
    return [each.copy() for each in value] if isinstance(value, list) else value.copy()
