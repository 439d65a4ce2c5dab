"""Kernels' objects are linked without LLVM as LLVM links them; others are told apart, and damage is noticed."""

import ctypes
import platform
import struct
import sys
from contextlib import suppress
from typing import Any

import llvmlite.binding as llvm
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastgraph.kernels.isa.tiers import BY_NAME, TIERS, cpu_flags
from fastgraph.objects import elf, link

HERE = sys.platform == "linux" and platform.machine() == "x86_64"
pytestmark = pytest.mark.skipif(not HERE, reason="ELF for x86-64")

SOURCES = {
    "constants": """
        @table = internal constant [4 x double] [double 1.5, double 2.5, double 4.0, double 8.0]
        define double @constants(double %x, i64 %n) {
          %at = getelementptr [4 x double], [4 x double]* @table, i64 0, i64 %n
          %y = load double, double* %at
          %z = fmul double %y, %x
          ret double %z
        }""",
    "calls": """
        declare double @exp2(double)
        declare double @log1p(double)
        define double @calls(double %x, i64 %n) {
          %y = call double @exp2(double %x)
          %z = call double @log1p(double %y)
          ret double %z
        }""",
    "addresses": """
        declare double @sinh(double)
        declare double @cosh(double)
        define double @addresses(double %x, i64 %n) {
          %first = icmp eq i64 %n, 0
          %f = select i1 %first, double (double)* @sinh, double (double)* @cosh
          %y = call double %f(double %x)
          ret double %y
        }""",
    "jumps": """
        define double @jumps(double %x, i64 %n) {
          switch i64 %n, label %rest [i64 0, label %a i64 1, label %b i64 2, label %c i64 3, label %d i64 4, label %e]
        a: %va = call double @llvm.sqrt.f64(double %x)
           ret double %va
        b: %vb = fadd double %x, 3.25
           ret double %vb
        c: %vc = fmul double %x, %x
           ret double %vc
        d: %vd = fdiv double 7.0, %x
           ret double %vd
        e: %ve = fsub double %x, 11.0
           ret double %ve
        rest: ret double %x
        }
        declare double @llvm.sqrt.f64(double)""",
}


def assembled(source: str) -> bytes:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic", codemodel="default")
    obj: bytes = machine.emit_object(llvm.parse_assembly(source))
    return obj


def relocations(obj: bytes) -> set[int]:
    found = set()
    for section in elf.sections(obj):
        if section.kind == 4:
            for at in range(section.start, section.start + section.size, 24):
                found.add(struct.unpack_from("<QQq", obj, at)[1] & 0xFFFFFFFF)
    return found


def test_linked_as_llvm_links() -> None:
    """Constants by distance, calls through stubs, addresses of functions, tables of jumps; several objects at once."""
    objects = {name: assembled(source) for name, source in SOURCES.items()}
    assert set().union(*map(relocations, objects.values())) >= {2, 4, 42}, "what they are here to try"
    ours, theirs = elf.load(objects), link._load_with_llvm(objects)
    kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_int64)
    for name in SOURCES:
        for n in range(4):
            for x in (0.3, 2.0, -0.125):
                found, expected = kind(ours[name])(x, n), kind(theirs[name])(x, n)
                assert struct.pack("d", found) == struct.pack("d", expected), (name, n, x)


def test_what_is_linked_is_no_longer_written() -> None:
    address = elf.load({"calls": assembled(SOURCES["calls"])})["calls"]
    with open("/proc/self/maps") as maps:
        lines = [line.split() for line in maps]
    (rights,) = [
        rights for span, rights, *_ in lines if int(span.split("-")[0], 16) <= address < int(span.split("-")[1], 16)
    ]
    assert rights == "r-xp"


@pytest.mark.parametrize(
    "source",
    ["@kept = global i64 1\ndefine i64 @f() { %v = load i64, i64* @kept\n ret i64 %v }",
     "@kept = thread_local global i64 1\ndefine i64 @f() { %v = load i64, i64* @kept\n ret i64 %v }",
     "declare i64 @no_library_has_this()\ndefine i64 @f() { %v = call i64 @no_library_has_this()\n ret i64 %v }"],
)  # fmt: skip
def test_other_objects_are_left_to_llvm(source: str) -> None:
    """Memory that is written, of all threads or of each; functions that this process has not."""
    with pytest.raises(elf.Foreign):
        elf.load({"f": assembled(source)})


def test_other_machines_are_told_apart() -> None:
    obj = bytearray(assembled(SOURCES["constants"]))
    obj[18] = 183
    with pytest.raises(elf.Foreign):
        elf.load({"constants": bytes(obj)})


OBJECT = assembled(SOURCES["jumps"]) if HERE else b""


@given(st.data())
def test_damage_is_an_error_and_no_crash(data: Any) -> None:
    """Nothing outside of the pages is written, whatever the tables say. Whether code is right, a checksum tells."""
    damaged = bytearray(OBJECT)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(16, len(damaged) - 1))
        damaged[at] = data.draw(st.integers(0, 255))
    with suppress(elf.Foreign, struct.error, LookupError, ValueError, OverflowError, MemoryError, OSError):
        elf.load({"jumps": bytes(damaged)})


def test_the_systems_flags_are_llvms() -> None:
    """Of those that tiers and lowerings ask for."""
    asked = {flag for tier in TIERS for flag in tier.needs} | {"avx512vbmi"}
    theirs = {flag for flag, on in llvm.get_host_cpu_features().items() if on}
    assert cpu_flags() & asked == theirs & asked
    assert BY_NAME["avx2"].needs, "something is asked for"
