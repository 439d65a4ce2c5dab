"""Reading a file of anyone's: within a budget, and whatever is wrong with it ends as a FastgraphError."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

from ...errors import FastgraphError, ModelError, UnsupportedError
from ...ir import Graph
from ...limits import current, spending


def guarded(read: Callable[[], Graph], source: str | os.PathLike[str] | bytes, name: str) -> Graph:
    """What `read` gives, with the limits it was read within and the bytes that were read.

    OSError is let through. What no reader expects (a KeyError, say) is a ModelError that names it and has it as its
    cause: a defect of the reader, but first of all one of the file. NumPy does not warn of the file's numbers.
    """
    is_path = isinstance(source, str | os.PathLike)
    where = name or (str(source) if is_path else "model")
    with spending(current().limits) as budget, np.errstate(all="ignore"):
        if not is_path:
            budget.store(None, len(source))  # type: ignore[arg-type]
        try:
            graph = read()
        except (FastgraphError, OSError):
            raise
        except ImportError as error:
            raise UnsupportedError(
                f"{where}: what reads this format can't be imported ({error}): install fastgraph with its dependencies "
                "(pip install fastgraph-runtime), or bring a program that was saved where they are (fastgraph compile)"
            ) from error
        except RecursionError as error:
            raise ModelError(f"{where}: graphs, functions, blocks or lists lie too deep in one another") from error
        except MemoryError as error:
            raise ModelError(f"{where}: it is too large for this machine's memory ({error})") from error
        except Exception as error:
            raise ModelError(
                f"{where}: it is damaged in a way that its reader does not expect ({type(error).__name__}: {error}); "
                "check that it was written and copied completely; if other programs can read it, report it"
            ) from error
        graph.limits, graph.stored, graph.beside = budget.limits, budget.stored, budget.beside
        return graph
