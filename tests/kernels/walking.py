"""Tables of chains for kernels that a test calls itself: words with the addresses of what lies in this process."""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from fastgraph.ir.types import BFLOAT16
from fastgraph.kernels.core.kernel import Kernel
from fastgraph.kernels.core.table import row
from fastgraph.kernels.pointwise.elementwise_shape import Loops
from fastgraph.kernels.pointwise.rows import FORMS, NO_EPILOGUE
from fastgraph.plan.lower.epilogue import ending
from fastgraph.plan.lower.registry import Emit
from fastgraph.plan.lower.walk import Out, Read, f32_bits, table
from fastgraph.plan.program import Ref
from tests.kernels.harness import compiled, noise, run
from tests.kernels.meanings import eval_chain

ROW = row("elementwise")
TYPES = {"f32": np.float32, "bf16": BFLOAT16, "u8": np.uint8, "s8": np.int8, "i16": np.int16, "u16": np.uint16,
         "i32": np.int32, "bool": np.bool_}  # fmt: skip
AS_IT_IS = Out()


def kernel_address(kernel: Kernel, tier: Any) -> int:
    """The address of a kernel's machine code."""
    native = compiled(row(kernel.name).make(), kernel.params, tier)
    return cast(int, ctypes.cast(native, ctypes.c_void_p).value)


class Constants:
    """In place of Emit, for `table`: keeps what a table refers to."""

    def __init__(self, tier: Any) -> None:
        self.tier, self.arrays = tier, list[np.ndarray]()

    def packed(self, make: Callable[..., np.ndarray], *parts: Any) -> Ref:
        return self.add(make(*parts))

    def add(self, array: np.ndarray) -> Ref:
        self.arrays.append(array)
        return Ref(len(self.arrays) - 1)

    def word(self, arg: Any) -> Any:
        """What a record or a table holds for an argument: a number, or an array that it is the address of."""
        if isinstance(arg, Ref):
            assert isinstance(arg.base, int)
            array = self.arrays[arg.base]
            return array.ctypes.data + arg.offset if arg.offset else array
        return kernel_address(arg, self.tier) if isinstance(arg, Kernel) else int(arg)


def table_of(constants: Constants, chain: tuple, operands: Sequence[Read | None], out: Out = AS_IT_IS) -> list[Any]:
    """The words of a chain's table."""
    return [constants.word(word) for word in table(cast(Emit, constants), chain, operands, out).words]


def walk_of(chain: tuple, tier: Any) -> dict[str, Any]:
    """The slots WALK for a chain over nothing but results."""
    if not chain:
        return {"walk": 0, "table": 0}
    return {"walk": kernel_address(Kernel("chain"), tier), "table": table_of(Constants(tier), chain, [None])}


def elementwise(
    chain: tuple, plan: Loops, y: np.ndarray, xs: Sequence[np.ndarray], tier: Any, threads: int = 1, offset: int = 4,
    out: Out = AS_IT_IS,
) -> np.ndarray:  # fmt: skip
    """y after the elementwise kernel for a chain over inputs that lie as the plan says."""
    names = {np.dtype(v): k for k, v in TYPES.items()}
    constants = Constants(tier)
    reads = [
        Read(constants.add(x), *(x.itemsize * step for step in strides), element=names[x.dtype])  # type: ignore[misc]
        for x, strides in zip(xs, plan.xs, strict=True)
    ]
    words = table_of(constants, chain, reads, out)
    walk = {"walk": kernel_address(Kernel("chain"), tier), "table": words}
    return run(ROW, {}, ROW.args.filled(**plan.args(y), item=y.itemsize, **walk), tier, threads, offset)[0]


def strided(constants: Constants, array: np.ndarray, broadcast: Sequence[str] = ()) -> Read:
    """How an operand [image, row, column] is read; "image", "row" and "column" are those that it is the same for."""
    names = ("image", "row", "column")[-array.ndim :]
    steps = {name: step for name, step in zip(names, array.strides, strict=True) if name not in broadcast}
    return Read(constants.add(array), **steps)


def ended(
    constants: Constants, chain: tuple, operands: Sequence[np.ndarray], forms: Sequence[str] = FORMS
) -> dict[str, Any]:
    """The slots of EPILOGUE for a chain over sums and operands [image, row, column], 1 where all are the same."""
    found = ending(chain, len(operands))
    if found is None or found.form not in forms:
        names = ("image", "row", "column")
        reads = [
            strided(constants, x, [name for name, size in zip(names, x.shape, strict=True) if size == 1])
            for x in operands
        ]
        words = table_of(constants, chain, [None, *reads])
        return {**NO_EPILOGUE, "walk": kernel_address(Kernel("chain"), constants.tier), "table": words}
    slots = {"form": forms.index(found.form), "low": f32_bits(found.low), "high": f32_bits(found.high)}
    if found.addend is None:
        return {**NO_EPILOGUE, **slots}
    assert isinstance(found.addend, int)
    x = operands[found.addend - 1]
    image, row, _ = (size // 4 * (n > 1) for size, n in zip(x.strides, x.shape, strict=True))
    return {**NO_EPILOGUE, **slots, "addend": x, "addend_image": image, "addend_row": row}


ENDINGS: dict[str, tuple[tuple[str, ...], tuple]] = {
    "plain": ((), ()),
    "bounds": ((), (("clip", 0, -0.5, 1.0),)),
    "addend": (("full",), (("add", 1, 0), ("clip", 2, -0.5, 6.0))),
    "scale and shift": (("channel", "scalar"), (("mul", 0, 1), ("add", 3, 2))),
    "leaky": ((), (("leaky_relu", 0, 0.3),)),
    "hard swish": ((), (("hard_sigmoid", 0, 0.3, 0.4), ("mul", 0, 1))),
    "gate": (("full", "image"), (("sigmoid", 0), ("mul", 3, 2), ("add", 4, 1))),
    "all": (("full", "image", "channel", "scalar"), (("mul", 0, 2), ("add", 5, 1), ("add", 6, 3), ("max", 7, 4))),
    "sigmoid_mul": ((), (("sigmoid", 0), ("mul", 0, 1))),
    "swish": ((), (("swish", 0, 0.7),)),
    "gelu": ((), (("gelu", 0),)),
    "gelu_tanh": ((), (("gelu_tanh", 0),)),
}
"""Kinds of operands, and a chain over sums and them."""
SHORT = ("plain", "bounds", "addend", "leaky", "hard swish", "scale and shift", "gate", "all")


class Ending:
    """How a kernel ends: `slots` of its record, and what becomes of sums [images, rows, columns]."""

    def __init__(self, tier: Any, name: str, shape: tuple[int, int, int], forms: Sequence[str] = FORMS) -> None:
        kinds, self.chain = ENDINGS[name]
        images, rows, columns = self.shape = shape
        shapes = {"full": shape, "channel": (1, 1, columns), "image": (images, 1, columns), "scalar": (1, 1, 1)}
        self.operands, self.constants = [noise(*shapes[kind]) for kind in kinds], Constants(tier)
        self.slots = ended(self.constants, self.chain, self.operands, forms)

    @property
    def ways(self) -> list[dict[str, Any]]:
        """The slots of a product: its chain, if there is one, is walked by tile or `later`."""
        return [{**self.slots, "later": later} for later in ((0, 1) if self.slots["walk"] else (0,))]

    def of(self, sums: np.ndarray) -> np.ndarray:
        """In f64, in the shape of the sums."""
        values = [sums.reshape(self.shape), *(x.astype(np.float64) for x in self.operands)]
        return np.asarray(eval_chain(self.chain, values)).reshape(sums.shape)
