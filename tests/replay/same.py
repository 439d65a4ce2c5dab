"""Whether two IR texts are the same: as texts, after simplification, as machine code."""

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from fastgraph.kernels.core.build import assembly
from fastgraph.kernels.isa.tiers import Tier
from tests.replay.collect import FAILED, parsing

LEVELS = ("same IR", "same after simplification", "same machine code", "differs")
"""What `level` gives, as an index."""

_TOKEN = re.compile(
    r'^(?P<label>"[^"]*"|[\w.$-]+):|(?P<name>[%@](?:"[^"]*"|[\w.$-]+)|[!#]\d+)|(?P<comment>[ \t]*;.*)|"[^"]*"', re.M
)
_SHARED = re.compile(r'^(@(?:"[^"]*"|[\w.$-]+)|[!#]\d+|attributes (#\d+)) = ')
_DEFINED = re.compile(r'^define (?P<inside>internal |private )?[^@]*(?P<name>@(?:"[^"]*"|[\w.$-]+))')
_VALUE = re.compile(r'  (%(?:"[^"]*"|[\w.$-]+)) = ')
_LABEL = re.compile(r'("[^"]*"|[\w.$-]+):')
_TARGET = re.compile(r'label (%(?:"[^"]*"|[\w.$-]+))')
_INCOMING = re.compile(r"\[ [^\n]*?, %\d+ \]")
_ALLOCA = re.compile(r'  (%(?:"[^"]*"|[\w.$-]+)) = alloca ')
_ZEROED = re.compile(r'  store [^%@]*, [^%@]*\* (%(?:"[^"]*"|[\w.$-]+))$')


def level(a: str, b: str, tier: Tier) -> int:
    """The first of LEVELS that holds; what can't be built differs from what can."""
    if a == b or canonical(a) == canonical(b):
        return 0
    if a.startswith(FAILED) or b.startswith(FAILED):
        return 3
    if simplified(a) == simplified(b):
        return 1
    return 2 if machine_code(a, tier) == machine_code(b, tier) else 3


def canonical(text: str) -> str:
    """A module with local names, blocks, internal functions and metadata numbered in the order they are first met in.

    The allocas that begin a function, in any order, come in that in which they are used.
    """
    return _Module(text).text()


class _Module:
    """A module's lines by what they say, and the numbers of what functions share."""

    def __init__(self, text: str) -> None:
        self.head, *lines = text.split("\n")
        self.functions: dict[str, list[str]] = {}
        self.shared: dict[str, str] = {}
        self.rest: list[str] = []
        self.inside: set[str] = set()
        function: list[str] | None = None
        for line in lines:
            if found := _DEFINED.match(line):
                name, function = _bare(found["name"]), []
                self.functions[name] = function
                if found["inside"]:
                    self.inside.add(name)
            if function is not None:
                function.append(line)
                function = None if line == "}" else function
            elif found := _SHARED.match(line):
                name = _bare(found[2] or found[1])
                self.shared[name] = line
                if " internal " in line or " private " in line:
                    self.inside.add(name)
            elif line.strip():
                self.rest.append(line)
        self.numbers: dict[str, str] = {}
        self.met: list[str] = []

    def text(self) -> str:
        """What is exported, then what it uses, as it is met."""
        written = [self._function(lines) for name, lines in self.functions.items() if name not in self.inside]
        for name in self.met:  # which grows meanwhile
            if name in self.functions:
                written.append(self._function(self.functions[name]))
            elif name in self.shared:
                written.append(self._renamed([self.shared[name]], {}))
        for name in self.shared:
            if name[0] == "@" and name not in self.inside:
                written.append(self._renamed([self.shared[name]], {}))
        rest = sorted(filter(str.strip, (self._renamed([line], {}) for line in self.rest)))
        return "\n".join([self.head, *written, *rest])

    def _function(self, lines: list[str]) -> str:
        """What a body defines is numbered first, allocas where the body has them first, then those it doesn't have."""
        slots, body = _allocas(lines)
        numbers: dict[str, str] = {}
        begin = next(at for at, line in enumerate(body, 1) if line.endswith("{"))
        first = self._renamed(body[:begin], numbers)
        body = _ordered(body[begin:-1])
        for line in body:
            if label := _LABEL.match(line):
                numbers.setdefault("%" + label[1].strip('"'), f"%{len(numbers)}")
            elif value := _VALUE.match(line):
                numbers.setdefault(_bare(value[1]), f"%{len(numbers)}")
        text = "\n".join(map(_phi_sorted, self._renamed(body, numbers).split("\n")))
        unused = {name: "%unused" for name, _ in slots if name not in numbers}
        return "\n".join([first, *sorted(self._renamed(unit, {**numbers, **unused}) for _, unit in slots), text])

    def _renamed(self, lines: list[str], numbers: dict[str, str]) -> str:
        def new(found: re.Match[str]) -> str:
            if label := found["label"]:
                return numbers.setdefault("%" + label.strip('"'), f"%{len(numbers)}") + ":"
            if name := found["name"]:
                name = _bare(name)
                return numbers.setdefault(name, f"%{len(numbers)}") if name[0] == "%" else self._shared(name)
            return "" if found["comment"] else found[0]

        return _TOKEN.sub(new, "\n".join(lines))

    def _shared(self, name: str) -> str:
        if name[0] == "#":
            return self.shared[name].partition(" = ")[2]
        if name[0] == "@" and name not in self.inside:
            return name
        if name not in self.numbers:
            self.numbers[name] = f"{name[0]}{len(self.numbers)}"
            self.met.append(name)
        return self.numbers[name]


def _bare(name: str) -> str:
    return name[0] + name[1:].strip('"')


def _allocas(lines: list[str]) -> tuple[list[tuple[str, list[str]]], list[str]]:
    """The allocas of a function's first block, each with the constant that is stored right after it, and the others."""
    slots: list[tuple[str, list[str]]] = []
    body: list[str] = []
    entry, at = iter(lines), None
    for line in entry:
        if found := _ALLOCA.match(line):
            at = _bare(found[1])
            slots.append((at, [line]))
        elif at and (found := _ZEROED.match(line)) and _bare(found[1]) == at:
            slots[-1][1].append(line)
            at = None
        else:
            body.append(line)
            at = None
            if line.startswith(("  br ", "  ret ", "  switch ", "  unreachable")):
                break
    return slots, body + list(entry)


def _ordered(body: list[str]) -> list[str]:
    """Blocks in the order in which they are reached, depth first: their own order means nothing. Others are dropped."""
    blocks: dict[str, list[str]] = {}
    block: list[str] = []
    for line in body:
        if label := _LABEL.match(line):
            block = blocks.setdefault("%" + label[1].strip('"'), [])
        elif not blocks:
            block = blocks.setdefault("%", [])
        block.append(line)
    ordered: dict[str, None] = {}
    waiting = list(blocks)[:1]
    while waiting:
        if (name := waiting.pop()) not in ordered:
            ordered[name] = None
            targets = [_bare(found) for line in blocks[name] for found in _TARGET.findall(line)]
            waiting += reversed(targets)
    return [line for name in ordered for line in blocks[name]]


def _phi_sorted(line: str) -> str:
    """Where a phi's values come from has no order."""
    if " = phi " not in line:
        return line
    incoming = sorted(_INCOMING.findall(line))
    return f"{line.partition('[ ')[0]}{', '.join(incoming)}"


def simplified(text: str) -> str:
    """What is left of a module when its memory became values, and what is computed twice or never used is gone."""
    llvm.initialize_native_target()
    module = llvm.parse_assembly(text)
    builder = llvm.create_pass_builder(_any_machine(), llvm.create_pipeline_tuning_options(speed_level=1))
    passes = llvm.create_new_function_pass_manager()
    for _ in range(2):  # whose address lay in memory itself is seen the second time
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        passes.add_instruction_combine_pass()
    passes.add_new_gvn_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.add_aggressive_dce_pass()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)
    return canonical(f"{text.partition(chr(10))[0]}\n{module}")


@cache
def _any_machine() -> Any:
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine()


def machine_code(text: str, tier: Tier) -> str:
    """What `assembly` makes of such a module, for the CPU that its first line names, with labels numbered."""
    cpu, needs = re.match(r"; cpu=(.*) needs=(.*)", text).groups()  # type: ignore[union-attr]
    tier = tier._replace(cpu=cpu, needs=tuple(filter(None, needs.split(","))))
    parse: Callable[..., Any] = llvm.parse_assembly
    with parsing(lambda _, *context: parse(text, *context)):
        return "\n".join(_instructions(assembly(_nothing, tier)))


def _nothing(args: int, thread: int, threads: int) -> None:
    return None


def _instructions(text: str) -> Iterator[str]:
    numbers: dict[str, str] = {}
    for line in text.split("\n"):
        line = line if '"' in line else line.partition("#")[0].rstrip()
        if line and not line.startswith(("\t.cfi", "\t.file", "\t.ident")):
            yield re.sub(r"\.L[\w.$]+", lambda found: numbers.setdefault(found[0], f".L{len(numbers)}"), line)
