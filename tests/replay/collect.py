"""Write the IR of a tier's kernels into a zip: `python -P collect.py OUT TIER [PREFIX ...]`.

PYTHONPATH names the source tree. This one file runs on sources of another commit, too: it knows of them what has been
the same for long.
"""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import llvmlite.binding as llvm

FAILED = "; no kernel: "
"""What a text begins with where a kernel can't be built, before what was wrong."""


class _Found(Exception):
    """Carries an IR text out of a build."""


@contextmanager
def parsing(parse: Callable[..., Any]) -> Iterator[None]:
    """Let builds give their IR text to `parse` instead of to LLVM."""
    usual, llvm.parse_assembly = llvm.parse_assembly, parse
    try:
        yield
    finally:
        llvm.parse_assembly = usual


def text_of(make: Callable[[], Any], tier: Any) -> str:
    """The IR of the kernel that `make` makes, behind a line that names its CPU and the flags that it needs."""
    from fastgraph.kernels.core.build import build

    def give(text: str, *_: Any, **more: Any) -> None:
        raise _Found(text)

    try:
        function = make()
        with parsing(give):
            build(function, "kernel", tier)
    except _Found as found:
        needs = sorted({*tier.needs, *getattr(function, "needs", ())})
        return f"; cpu={tier.cpu} needs={','.join(needs)}\n{found}"
    except Exception as error:
        return f"{FAILED}{type(error).__name__}: {error}".replace("\n", " ")
    raise AssertionError("builds don't go through llvmlite.binding.parse_assembly any more")


def collect(out: str, name: str, prefixes: list[str]) -> None:
    """Of all kernels, or those whose names begin with one of the prefixes. A tier that there isn't has none."""
    from fastgraph.kernels.core.table import kernels_of, row
    from fastgraph.kernels.isa.tiers import BY_NAME

    gc.freeze()
    gc.disable()  # looking for garbage among what lives on takes a third of the time
    with ZipFile(out, "w", ZIP_DEFLATED, compresslevel=1) as file:
        tier = BY_NAME.get(name)
        for count, kernel in enumerate(kernels_of(tier) if tier else ()):
            if not prefixes or str(kernel).startswith(tuple(prefixes)):
                made = row(kernel.name).make
                file.writestr(str(kernel), text_of(lambda: made()(tier, **dict(kernel.params)), tier))  # noqa: B023
            if count % 16 == 15:
                gc.collect()


if __name__ == "__main__":
    collect(sys.argv[1], sys.argv[2], sys.argv[3:])
