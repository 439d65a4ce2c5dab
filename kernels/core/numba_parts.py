"""Three parts of numba, called separately: the reader of bytecode, type inference, and lowering.

numba's public way to compile a function gives a library with wrappers, through contexts that know thousands of
functions. For kernels, which have integers, ranges and tuples, it takes three to four times as long as these parts do,
and a third of a second to start in each process that compiles. So private parts are used here, and only here: a new
minor version of numba is taken once `tests/kernels/test_front.py` passes with it.
"""

from __future__ import annotations

import operator
from contextlib import nullcontext
from functools import cache
from types import FunctionType
from typing import Any

from numba.core import bytecode, callconv, cpu, debuginfo, interpreter, ir, lowering, typeinfer, types, typing, utils
from numba.core.analysis import compute_cfg_from_blocks, compute_use_defs
from numba.core.compiler import Flags
from numba.core.errors import TypingError
from numba.core.ir_utils import find_const, guard
from numba.core.typing import templates

# -- bytecode to numba's IR


class Reader(interpreter.Interpreter):
    """Skips numba's searches for `with` and growing dicts, which kernels don't have."""

    def post_process(self, peepholes: Any, func_ir: Any) -> Any:
        rare = interpreter.peep_hole_delete_with_exit, interpreter.peep_hole_fuse_dict_add_updates
        return super().post_process([each for each in peepholes if each not in rare], func_ir)

    def op_TO_BOOL(self, inst: Any, val: str, res: str) -> None:
        """From Python 3.13 on `not (not x)` is this instruction, of which numba makes x itself. That does before a jump
        and a `not`; elsewhere the number matters.
        """
        if self.bytecode[inst.next].opname.startswith(("POP_JUMP", "UNARY_NOT")):
            self.store(self.get(val), res)
        else:
            self.op_UNARY_NOT(inst, val, f"{res}.not")
            self.op_UNARY_NOT(inst, f"{res}.not", res)


def read(function: FunctionType) -> Any:
    """numba's IR of a function."""
    identity = bytecode.FunctionIdentity.from_function(function)
    found = Reader(identity).interpret(bytecode.ByteCode(func_id=identity))
    found.generator_info = None
    for block in found.blocks.values():
        for inst in block.find_insts(ir.Assign):
            if isinstance(value := inst.value, ir.Expr) and value.op == "getitem":
                index = guard(find_const, found, value.index)
                if isinstance(index, int):
                    inst.value = ir.Expr.static_getitem(value.value, index, value.index, value.loc)
    return found


# -- type inference

_OPERATORS = (
    "add sub mul floordiv mod and_ or_ xor lshift rshift neg not_ eq ne lt le gt ge is_ is_not "
    "iadd isub imul ifloordiv imod iand ior ixor ilshift irshift"
)
KNOWN = {*(getattr(operator, name) for name in _OPERATORS.split()), range, bool}
KNOWN |= {"getiter", "iternext", "pair_first", "pair_second", "static_getitem"}
"""What kernel code may ask numba for."""


class Typing(typing.Context):
    """Types of the functions in `KNOWN`, cached: kernels ask the same few questions about int64s."""

    def init(self) -> None:
        self.kept: dict[Any, Any] = {}

    def refresh(self) -> None:
        few, everything = templates.Registry(), templates.builtin_registry
        few.functions += [each for each in everything.functions if getattr(each, "key", None) in KNOWN]
        few.globals += [(value, kind) for value, kind in everything.globals if value in KNOWN]
        self.install_registry(few)

    def resolve_value_type(self, value: Any) -> Any:
        if not callable(value):
            return super().resolve_value_type(value)
        if value not in self.kept:
            found = self._lookup_global(value)
            if found is None:
                raise TypingError(f"kernel code has no {getattr(value, '__name__', value)}")
            self.kept[value] = found
        return self.kept[value]

    def resolve_function_type(self, function: Any, args: Any, kws: Any) -> Any:
        if kws:
            return super().resolve_function_type(function, args, kws)
        key = function, tuple(args)
        if key not in self.kept:
            self.kept[key] = super().resolve_function_type(function, args, kws)
        return self.kept[key]


class Infer(typeinfer.TypeInferer):
    """Infers the types of a function's variables. numba fixes the type of a variable that gets a global number; here
    other numbers may follow.
    """

    def __init__(self, context: Any, func_ir: Any) -> None:
        super().__init__(context, func_ir, self)

    def catch_warnings(self, filename: Any = None, lineno: Any = None) -> Any:
        """Replaces numba's, which saves Python's warning filters around every constraint."""
        return nullcontext()

    def typeof_global(self, inst: Any, target: Any, value: Any) -> Any:
        if value.value is ir.UNDEFINED:
            raise TypingError(f"the name {value.name!r} is not defined", loc=inst.loc)
        if isinstance(value.value, int):
            self.add_type(target.name, types.literal(value.value), loc=inst.loc)
            return
        super().typeof_global(inst, target, value)


# -- typed IR to LLVM's


class _NothingRaised(callconv.MinimalCallConv):
    """Python's exceptions (for a range whose step is 0) do not occur in a kernel."""

    def return_user_exc(self, builder: Any, *args: Any, **named: Any) -> None:
        builder.unreachable()


class Target(cpu.CPUContext):
    """Lowers the functions in `KNOWN`, cached; it has no code generator, as we compile modules ourselves."""

    def init(self) -> None:
        self.is32bit = False
        self.kept: dict[Any, Any] = {}

    def load_additional_registries(self) -> None:
        from numba.cpython import builtins, iterators, numbers, rangeobj, tupleobj  # noqa: F401

    def get_function(self, function: Any, signature: Any, _firstcall: bool = True) -> Any:
        key = function, signature.args, signature.return_type
        if key not in self.kept:
            self.kept[key] = super().get_function(function, signature, _firstcall)
        return self.kept[key]

    def add_linking_libs(self, libs: Any) -> None:
        assert not libs

    @property
    def call_conv(self) -> Any:
        return _NothingRaised(self)


@cache
def contexts(kind: type[Typing]) -> tuple[Any, Any]:
    typing_context = kind()
    target = Target(typing_context)
    target.error_model = callconv.create_error_model("numpy", target)  # a division by 0 gives 0
    target.refresh()
    typing_context.refresh()
    return typing_context, target


class Lowering(lowering.Lower):
    """Lowers a function's blocks at the builder's position, and moves the builder behind them.

    `described`: numba's descriptor of the function, with its IR as `ir`; `args`: LLVM values.
    """

    def __init__(self, target: Any, builder: Any, described: Any, args: Any) -> None:
        self.context, self.builder, self.function = target, builder, builder.function
        self.fndesc, self.func_ir, self.fnargs = described, described.ir, args
        self.blocks = utils.SortedMap(described.ir.blocks.items())
        self.flags, self.generator_info, self.pyapi, self.loc = Flags(), None, None, None
        self.debuginfo = debuginfo.DummyDIBuilder(module=None, filepath="", cgctx=None, directives_only=True)
        self.blkmap: dict[int, Any] = {}
        self.varmap: dict[str, Any] = {}
        self.values: dict[str, Any] = {}
        self.returned: list[tuple[Any, Any]] = []
        self.fixed = assigned_once(described.ir.blocks)

    def run(self) -> Any:
        """The function's result."""
        b = self.builder
        for at in self.blocks:
            self.blkmap[at] = b.append_basic_block(f"B{at}")
        self.end = b.append_basic_block("end")
        b.branch(self.blkmap[min(self.blocks)])
        for at, block in self.blocks.items():
            b.position_at_end(self.blkmap[at])
            for inst in block.body:
                self.lower_inst(inst)
        b.position_at_end(self.end)
        if isinstance(self.fndesc.restype, types.NoneType):
            return self.context.get_dummy_value()
        if len(self.returned) == 1:
            return self.returned[0][0]
        found = b.phi(self.returned[0][0].type)
        for value, block in self.returned:
            found.add_incoming(value, block)
        return found

    def lower_inst(self, inst: Any) -> None:
        self.loc = inst.loc
        match inst:
            case ir.Assign():
                self.storevar(self.lower_assign(self.typeof(inst.target.name), inst), inst.target.name)
            case ir.Return():
                value = self.loadvar(inst.value.name)
                value = self.context.cast(self.builder, value, self.typeof(inst.value.name), self.fndesc.restype)
                self.returned.append((value, self.builder.block))
                self.builder.branch(self.end)
            case ir.Jump():
                self.builder.branch(self.blkmap[inst.target])
            case ir.Branch():
                kind, value = self.typeof(inst.cond.name), self.loadvar(inst.cond.name)
                value = self.context.cast(self.builder, value, kind, types.boolean)
                self.builder.cbranch(value, self.blkmap[inst.truebr], self.blkmap[inst.falsebr])
            case ir.PopBlock() | ir.Del():
                pass
            case _:
                raise TypeError(f"kernel code can't have {inst}")

    def lower_binop(self, kind: Any, expr: Any, op: Any) -> Any:
        """As numba's, without its search for operators that know one of their operands (as x ** 2)."""
        known = self.context.typing_context
        function = known.resolve_value_type(op)
        signature = known.resolve_function_type(function, self.fndesc.calltypes[expr].args, {})
        args = [
            self.context.cast(self.builder, self.loadvar(var.name), self.typeof(var.name), wanted)
            for var, wanted in zip((expr.lhs, expr.rhs), signature.args, strict=True)
        ]
        result = self.context.get_function(function, signature)(self.builder, args)
        return self.context.cast(self.builder, result, signature.return_type, kind)

    def loadvar(self, name: str) -> Any:
        return self.values[name] if name in self.values else self.builder.load(self.getvar(name))

    def storevar(self, value: Any, name: str, argidx: Any = None) -> None:
        if name in self.fixed:
            self.values[name] = value
        else:
            self.builder.store(value, self.getvar(name))

    def getvar(self, name: str) -> Any:
        """A variable's stack slot, which LLVM turns into registers."""
        if name not in self.varmap:
            with self.builder.goto_entry_block():
                self.varmap[name] = self.builder.alloca(self.context.get_value_type(self.typeof(name)))
        return self.varmap[name]


def assigned_once(blocks: dict[int, Any]) -> set[str]:
    """Variables with one assignment, which comes before all that use them: they need no memory."""
    found = compute_use_defs(blocks)
    count: dict[str, int] = {}
    for block in blocks.values():
        for inst in block.find_insts(ir.Assign):
            count[inst.target.name] = count.get(inst.target.name, 0) + 1
    where = {name: at for at, names in found.defmap.items() for name in names}
    once = {name for name, times in count.items() if times == 1}
    if len(blocks) > 1:
        dominators = compute_cfg_from_blocks(blocks).dominators()
        for at, names in found.usemap.items():  # that a block uses and has from elsewhere
            once -= {name for name in names & once if where[name] == at or where[name] not in dominators[at]}
    return once
