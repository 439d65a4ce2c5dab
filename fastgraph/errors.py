"""The exceptions of fastgraph. Each says what, where (file, node, operator), and the next step."""

from collections.abc import Iterator
from contextlib import contextmanager
from errno import EDQUOT, ENOSPC


class FastgraphError(Exception):
    """Base of everything that fastgraph raises on purpose."""


class ModelError(FastgraphError):
    """The model file is broken, incomplete, or says something that its format does not allow."""


class UnsupportedError(FastgraphError):
    """The model is valid but uses something that fastgraph does not have."""


class RoomError(UnsupportedError):
    """A plan for many lengths would cost runs more, by its padding, than a plan for each."""


class InputError(FastgraphError, ValueError):
    """The feeds of a model do not fit its inputs."""


class UnknownNameError(InputError, KeyError):
    """No input or output has the name that was asked for."""

    __str__ = Exception.__str__


class FileError(FastgraphError, OSError):
    """A file can't be read, or written."""


class MissingFileError(FileError, FileNotFoundError):
    """There is no file of that name."""


class CopyError(FastgraphError, TypeError):
    """A model was to be pickled or copied."""


class RunTimeout(FastgraphError, TimeoutError):
    """A run took longer than the `timeout` that it was given, and was stopped."""


class CompilerError(FastgraphError):
    """A kernel that the cache lacks can't be compiled, or linked, on this system."""


class GraphError(FastgraphError):
    """A graph broke one of its invariants: a defect in a pass or a frontend."""


class PlanError(FastgraphError):
    """A memory plan broke one of its invariants: a defect in the planner."""


@contextmanager
def writing(path: object) -> Iterator[None]:
    """For code that writes a file: an OSError becomes a FileError that names it, as that of a full disk has no name."""
    try:
        yield
    except (FastgraphError, BrokenPipeError):
        raise
    except OSError as error:
        if error.filename not in (None, path):
            raise
        ways = "free some room, or name another place" if is_full(error) else "name another place"
        raise FileError(f"{path}: it can't be written: {error.strerror or error}; {ways}") from error


def is_full(error: Exception) -> bool:
    """Whether a file could not be written as there is no room for it."""
    return isinstance(error, OSError) and error.errno in (ENOSPC, EDQUOT)
