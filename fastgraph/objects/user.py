"""Users' functions as kernels: compiled once per process, kept while a plan calls them."""

from __future__ import annotations

from typing import Any

from ..errors import CompilerError
from ..locks import logs, undisturbed
from .cache import compiling


def compile_once(kernel: Any, what: str) -> int:
    """The address of a kernel (plan.program.UserKernel), which keeps the compiled function alive as its `entry`.

    CompilerError, which begins with `what`, where numba is missing or refuses the function.
    """
    logs()  # the compiler does
    with undisturbed(), compiling:
        if kernel.entry is None:
            try:
                from .entry import entry_of
            except (ImportError, OSError) as error:
                raise CompilerError(
                    f"{what} is compiled by numba, which can't be imported ({type(error).__name__}: {error}): install "
                    "it again (pip install --force-reinstall numba), register the operator with native=False, or load "
                    "with isa='numpy'"
                ) from error
            kernel.entry = entry_of(kernel.op.kernel, kernel.op.options, kernel.forms, what)
        address: int = kernel.entry.address
        return address


def assembly(kernel: Any) -> str:
    """The machine code of a kernel's function as assembly text."""
    (text,) = kernel.entry.code().values()
    return str(text)
