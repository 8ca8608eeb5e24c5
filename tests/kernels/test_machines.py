"""No processor may compute a kernel's numbers in a way of its own.

A multiplication and an addition in one instruction round once instead of twice. LLVM makes such
instructions only where flags or intrinsics allow them. So the code of every kernel is searched for
these, and some kernels are compiled for processors that have the instructions.
"""

from __future__ import annotations

import re

import llvmlite.binding as llvm
import pytest

from mvsboost.backends.cpu.compilation import jit_enabled
from mvsboost.kernels import gradients, sampling, split
from mvsboost.runtime.jit import KERNELS
from mvsboost.warmup import warm_up

pytestmark = pytest.mark.skipif(not jit_enabled(), reason="nothing is compiled")

ARITHMETIC = [gradients.logistic, gradients.poisson, sampling.mvs_scores, split.best_splits]
"""Kernels that multiply and add."""

EXACT = r"llvm\.(rint|floor|ceil|fabs|sqrt|masked|is|vector|copysign|minnum|maxnum)\b|sqrtf?$"
"""Functions whose result IEEE 754 says, or that only move numbers."""

FREE = re.compile(
    r"= (?:tail )?f?\w+ .*?\b(fast|contract|reassoc|afn|arcp)\b|llvm\.(fma|fmuladd)\b"
)
FUSED = re.compile(r"^\s+(v?fn?m(?:add|sub|la|ls)\w*)\s", re.MULTILINE)
MACHINES = {"aarch64": "neoverse-v1", "x86_64": "skylake-avx512"}


@pytest.fixture(scope="module")
def compiled():
    """Every kernel in LLVM's language, once for each signature."""
    warm_up()
    return {
        kernel: [str(one.library._get_module_for_linking()) for one in kernel.overloads.values()]
        for kernel in KERNELS
        if kernel.overloads
    }


def assembly(code: str, machine: str) -> str:
    """Some code as one of `MACHINES` runs it."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        target = llvm.Target.from_triple(f"{machine}-linux-gnu")
    except RuntimeError:
        pytest.skip(f"this LLVM has no {machine}")
    made = target.create_target_machine(cpu=MACHINES[machine], opt=3, codemodel="default")
    # what is said of the machine here, and what only it has: counts of references, and pauses
    own = r"^(\s*%\S+ =) .*call (i\d+) @llvm\.(x86|aarch64)\..*$"
    code = re.sub(own, r"\1 add \2 0, 0", code, flags=re.M)
    code = re.sub(r"^target .*\n|^.*llvm\.(x86|aarch64)\..*\n", "", code, flags=re.M)
    module = llvm.parse_assembly(code)
    module.triple, module.data_layout = target.triple, str(made.target_data)
    written: str = made.emit_assembly(module)
    return written


def test_no_instruction_may_be_computed_in_another_way(compiled):
    assert len(compiled) > 40
    for kernel, codes in compiled.items():
        assert [found for code in codes for found in FREE.findall(code)] == [], kernel.__name__


def test_no_function_of_a_library_computes_numbers(compiled):
    asked = re.compile(r"^declare [^@]*\b(?:float|double)\b[^@]*@([\w.]+)\(", re.MULTILINE)
    # arguments that Python gives
    others = {name for codes in compiled.values() for name in asked.findall("".join(codes))}
    others -= {"PyFloat_AsDouble"}
    assert "llvm.rint.f64" in others
    assert [name for name in sorted(others) if not re.match(EXACT, name)] == []


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kernel", ARITHMETIC, ids=lambda kernel: kernel.__name__)
def test_nothing_is_multiplied_and_added_in_one(kernel, machine, compiled):
    assert not FUSED.search(assembly(compiled[kernel][0], machine))


@pytest.mark.parametrize("machine", MACHINES)
def test_it_would_be_seen(machine, compiled):
    code = compiled[gradients.logistic][0]
    free = re.sub(r" = (fmul|fadd|fsub) ", r" = \1 contract ", code)
    assert FREE.search(free)
    assert FUSED.search(assembly(free, machine))
