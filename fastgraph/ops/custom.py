"""Operators that users add by `register_custom_op`: names, types of the results, and the function that computes them.

A node of one has the attributes `custom`, its `CustomOp`; `attributes`, those of the file by name; and `tensors`, the
names of those that are arrays, which are constants behind its operands.
"""

from __future__ import annotations

import inspect
import operator
import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, NoReturn

import numpy as np

from ..errors import InputError, ModelError
from ..ir import UNKNOWN, Node, TensorType, Value
from .registry import OPS, USER, USERS, Quant, define, fail
from .work import in_python

Infer = Callable[[list[Any], dict[str, Any]], Sequence[TensorType]]
"""(types of the operands, None where one is absent; attributes) -> types of the results."""


class OperandType(TensorType):
    """The type of an operand, for `infer`. `data`: the array of a constant, None for all others."""

    __slots__ = ("data",)

    def __init__(self, type: TensorType, data: np.ndarray | None) -> None:
        super().__init__(type.dtype, type.shape, type.quant)
        self.data = data


class CustomOp:
    """An operator of a user's. `kernel`: the Python function; `options`: how numba is to compile it; `text`: what plans
    call it.
    """

    def __init__(self, domain: str, name: str, infer: Infer, kernel: Callable[..., Any], native: bool) -> None:
        self.domain, self.name, self.native, self.infer = domain, name, native, infer
        self.kernel: Callable[..., Any] = getattr(kernel, "py_func", kernel)
        self.options: Mapping[str, Any] = getattr(kernel, "targetoptions", {})
        self.signature = inspect.signature(self.kernel)
        self.text = f"{domain or USER}.{name}"
        self.kernels: dict[Any, Any] = {}
        """The compiled kernels, by the forms of their arguments."""

    @property
    def where(self) -> str:
        """The file and the line of its function."""
        code = getattr(self.kernel, "__code__", None)
        return repr(self.kernel) if code is None else f"{code.co_name} ({code.co_filename}, line {code.co_firstlineno})"

    def operands(self, attributes: Mapping[str, Any]) -> list[str] | None:
        """The parameters that take operands, and then results; None where it takes any number."""
        found = []
        for name, each in self.signature.parameters.items():
            if each.kind is each.VAR_POSITIONAL:
                return None
            plain = each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) and each.default is each.empty
            if plain and name not in attributes:
                found.append(name)
        return found

    def __repr__(self) -> str:
        return getattr(self.kernel, "__name__", type(self.kernel).__name__)


def register_custom_op(
    domain: str | None, name: str, *, infer: Infer, kernel: Callable[..., Any], native: bool = True,
    replace: bool = False,
) -> None:  # fmt: skip
    """Let `kernel` compute the operators called `name`: those of ONNX files in this domain (None, "": the standard one,
    if that has none of the name), custom operators of .tflite and .circle files with this custom code, and custom
    layers of this class in Core ML programs, whatever the domain.

        def squash(x, y):                                  # operands, then results, as arrays; attributes as keywords
            for i in range(x.size):
                y.flat[i] = x.flat[i] / (1.0 + abs(x.flat[i]))

        fg.register_custom_op("my.domain", "Squash", infer=lambda types, attrs: [types[0]], kernel=squash)

    `infer(types, attrs)` gives a `TensorType` for each result. `kernel` is a Python function that numba can compile, or
    one that it has (`numba.njit`): it writes all results, which are zeros at first, and reads operands, which it can't
    write; an operand that is absent is None. native=False: a function that only Python can run, between native calls.
    It holds for loads from here on. replace: take the place of one that is registered already.

    Raises InputError for arguments of another kind, and where the name is taken. docs/custom.md says more.
    """
    if not isinstance(domain, str | None) or not isinstance(name, str) or not name:
        raise InputError(f"expected a domain (or None) and the name of an operator, found {domain!r} and {name!r}")
    key = ("" if domain in (None, "ai.onnx") else domain, name)
    text = f"custom operator {name!r} of domain {key[0]!r}"
    for what, given in (("infer", infer), ("kernel", kernel)):
        if not callable(given):
            raise InputError(f"{text}: expected {what} to be a function, found {given!r}")
    if native and not isinstance(getattr(kernel, "py_func", kernel), FunctionType):
        raise InputError(
            f"{text}: expected its kernel to be a Python function or one of numba.njit, found {kernel!r}: numba "
            "compiles no other; with native=False it may be anything that can be called"
        )
    function = getattr(kernel, "py_func", kernel)
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        raise InputError(
            f"{text}: its kernel {kernel!r} yields or awaits: expected a function that is done when it returns"
        )
    if key in USERS and not replace:
        raise InputError(
            f"{text} is registered already, as {USERS[key].where}: register it with replace=True to change that"
        )
    try:
        found = CustomOp(*key, infer, kernel, bool(native))
    except (TypeError, ValueError) as error:
        raise InputError(f"{text}: the parameters of its kernel {kernel!r} can't be known ({error})") from error
    OPS.name_too(found.text, USER)
    USERS[key] = found


def of_name(name: str) -> CustomOp | None:
    """The user's operator of a name, in formats that know no domains. ModelError where there are several."""
    found = [each for (_, own), each in USERS.items() if own == name]
    if len(found) > 1 and ("", name) not in USERS:
        domains = ", ".join(repr(each.domain) for each in found)
        raise ModelError(
            f"custom operator {name!r} is registered for the domains {domains}: register the one that is "
            "meant for this file for the domain None, too"
        )
    return USERS.get(("", name), found[0] if found else None)


# -- nodes

LONG = 16
"""Longer lists become arrays, as numba compiles a kernel for each length of a tuple."""


def node_of(
    op: CustomOp, operands: Sequence[Value | None], outputs: list[Value], attributes: Mapping[str, Any],
    name: str, const: Callable[[np.ndarray], Value],
) -> Node:  # fmt: skip
    """A node of the operator; `const` makes constants. ModelError where the kernel's parameters don't fit operands,
    results and attributes."""
    plain: dict[str, Any] = {}
    tensors: dict[str, Value] = {}
    for key, item in attributes.items():
        item = _as_array(item)
        if isinstance(item, np.ndarray):
            tensors[key] = const(item)
        else:
            plain[key] = _plain(op, key, item)
    inputs = list(operands)
    wanted = op.operands(attributes)
    if wanted is not None:
        inputs += [None] * (len(wanted) - len(outputs) - len(inputs))
    own = {USER: op, "attributes": plain, "tensors": tuple(tensors)}
    node = Node(op.text, [*inputs, *tensors.values()], outputs, own, name)
    arguments(node)
    return node


def _as_array(item: Any) -> Any:
    """Bytes, and long lists of numbers, as arrays: for each length of a tuple numba compiles another kernel."""
    if isinstance(item, bytes):
        return np.frombuffer(item, np.uint8)
    if isinstance(item, list | tuple) and len(item) > LONG and all(type(each) in (int, float) for each in item):
        return np.array(item, np.int64 if all(type(each) is int for each in item) else np.float64)
    return item


def _leaves(item: Any) -> int:
    return sum(map(_leaves, item)) if isinstance(item, list | tuple) else 1


def _plain(op: CustomOp, name: str, item: Any) -> Any:
    """An attribute as kernels take it; ModelError for what has no such form."""
    if isinstance(item, np.generic):
        item = item.item()
    if isinstance(item, list | tuple):
        if op.native and _leaves(item) > LONG:
            raise ModelError(
                f"{op.text}: its attribute {name!r} is a list of {_leaves(item)} items that are not all "
                f"numbers: numba takes {LONG} at most, kernels with native=False any number"
            )
        return tuple(_plain(op, name, each) for each in item)
    if item is None or isinstance(item, bool | float | str) or isinstance(item, int) and -(2**63) <= item < 2**63:
        return item
    if not op.native and isinstance(item, int | dict):
        return item
    raise ModelError(
        f"{op.text}: its attribute {name!r} is a {type(item).__name__}: expected numbers, text, arrays or "
        "lists of them; kernels with native=False take maps, too"
    )


def arguments(node: Node) -> dict[str, Any]:
    """The arguments of a node's kernel by its parameters' names, in order: values for operands, results and tensors,
    and other attributes. ModelError where they don't fit."""
    op, count = node.attrs[USER], len(node.inputs) - len(node.attrs["tensors"])
    arrays = [*node.inputs[:count], *node.outputs]
    more = {**node.attrs["attributes"], **dict(zip(node.attrs["tensors"], node.inputs[count:], strict=True))}
    try:
        bound = op.signature.bind(*arrays, **more)
    except TypeError as error:
        _misfits(node, op, count, more, str(error))
    given = op.operands(more)
    if given is not None and len(given) != len(arrays):
        _misfits(node, op, count, more, f"{len(given)} parameters without a default are no attributes")
    bound.apply_defaults()
    found: dict[str, Any] = {}
    for name, item in bound.arguments.items():
        kind = op.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            found.update((f"{name}{i}", each) for i, each in enumerate(item))
        else:
            found.update(item if kind is inspect.Parameter.VAR_KEYWORD else {name: item})
    if not op.native:
        return found
    return {name: item if isinstance(item, Value) else _plain(op, name, item) for name, item in found.items()}


def _misfits(node: Node, op: CustomOp, count: int, more: Mapping[str, Any], why: str) -> NoReturn:
    while count and node.inputs[count - 1] is None:
        count -= 1
    wanted = f"{count} + {len(node.outputs)} arrays and {', '.join(more) or 'no attributes'}"
    rule = f"its kernel {op.where} takes operands, results, and attributes as keywords"
    fail(node, f"{rule}: expected {wanted}, found {op.signature} ({why})")


def _all_attributes(node: Node) -> dict[str, Any]:
    """The attributes of the file, arrays among them."""
    names = node.attrs["tensors"]
    arrays = [None if v is None else v.data for v in node.inputs[len(node.inputs) - len(names) :]]
    return {**node.attrs["attributes"], **dict(zip(names, arrays, strict=True))}


# -- types


def _infer(node: Node, types: list[Any]) -> list[TensorType]:
    op = node.attrs[USER]
    count = len(types) - len(node.attrs["tensors"])
    own = [t and OperandType(t, _constant(node, i)) for i, t in enumerate(types[:count])]
    known = all(t is None or t.concrete for t in own)
    try:
        found = op.infer(own, _all_attributes(node))
    except Exception as error:
        if not known:  # it counts on extents that are not known yet
            return [UNKNOWN] * len(node.outputs)
        fail(node, f"its infer raised {error_text(error)}")
    if not isinstance(found, list | tuple) or not all(isinstance(t, TensorType) for t in found):
        fail(node, f"its infer gives {found!r}: expected a list of fastgraph.TensorType, one for each result")
    if len(found) != len(node.outputs):
        fail(node, f"its infer gives {len(found)} types: expected {len(node.outputs)}, as the file has results")
    return [_result(node, t, known) for t in found]


def _constant(node: Node, i: int) -> np.ndarray | None:
    """The array of an operand that is constant, for reading only."""
    found = node.const(i)
    return None if found is None else _frozen(found)


def _result(node: Node, given: TensorType, known: bool) -> TensorType:
    """A type that `infer` gives, as the graph has them."""
    shape: Any = None
    try:
        dtype = None if given.dtype is None else np.dtype(given.dtype)
        if given.shape is not None:
            shape = tuple(d if d is None or isinstance(d, str) else operator.index(d) for d in given.shape)
        if dtype is not None and (dtype.names or dtype.kind in "mM" or not dtype.isnative):
            raise TypeError(f"no tensor has elements of {dtype}")
    except TypeError as error:
        fail(node, f"its infer gives {given!r}, which is no type ({error})")
    found = TensorType(dtype, shape, given.quant)
    if known and not found.concrete:
        rule = "a result has a shape that does not depend on data"
        remedy = "where it does, give the most that there may be, and how many there are"
        fail(node, f"its infer gives {found} though all operands' types are known: {rule}; {remedy}")
    return found


# -- the reference


def _reference(node: Node, arrays: list[Any]) -> list[Any]:
    op, count = node.attrs[USER], len(arrays) - len(node.attrs["tensors"])
    types = _infer(node, [None if a is None else TensorType.of(a) for a in arrays])
    results = [np.full(t.dims, "", object) if t.dtype == object else np.zeros(t.dims, t.dtype) for t in types]
    given = [None if a is None else _frozen(a) for a in arrays]
    tensors = dict(zip(node.attrs["tensors"], given[count:], strict=True))
    try:
        found = op.kernel(*given[:count], *results, **node.attrs["attributes"], **tensors)
    except Exception as error:
        fail(node, f"its kernel raised {error_text(error)}")
    if found is not None:
        fail(node, f"its kernel {op.where} returned a {type(found).__name__}: it is to write into its last parameters")
    return results


def _frozen(array: np.ndarray) -> np.ndarray:
    """The array, dense, for reading only."""
    found = np.asarray(array, order="C").view()
    found.flags.writeable = False
    return found


def error_text(error: Exception) -> str:
    """The text of an exception of a user's code, with the line of it that raised."""
    here = os.path.dirname(__file__)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if os.path.dirname(frame.filename) != here]
    at = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{at}"


# -- the kinds of a kernel's arguments

Form = tuple[Any, ...]
"""("array", element type, axes, whether it is written), ("int",), ("float",), ("bool",), ("none",), ("text", it), or
("tuple", forms)."""


def form_of(item: Any, results: Sequence[Value]) -> Form:
    """The form of an argument: a kernel is compiled for the forms of all."""
    if isinstance(item, Value):
        return "array", str(item.type.dtype), len(item.type.dims), any(item is v for v in results)
    if isinstance(item, tuple):
        return "tuple", tuple(form_of(each, results) for each in item)
    if isinstance(item, str):
        return "text", item
    return ("none",) if item is None else (type(item).__name__,)


def words_of(item: Any) -> list[int]:
    """The words of a record that hold an argument other than an array; floats as their bits."""
    if isinstance(item, tuple):
        return [word for each in item for word in words_of(each)]
    if isinstance(item, float):
        return [int(np.float64(item).view(np.int64))]
    return [] if item is None or isinstance(item, str) else [int(item)]


define(USER, _infer, _reference, quant=Quant.STORED, work=in_python)
