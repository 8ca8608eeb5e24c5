"""Named tuples that kernels hand on by reference.

Numba passes a tuple of arrays as the dozens of numbers that its arrays consist of: taken apart
at every call, and put together again in the function. In a kernel of many functions that is a
third of all instructions, which LLVM removes, but which take time to write and to read. A
reference is one number, and its fields are read as those of the tuple.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.imputils import impl_ret_borrowed
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic, register_model

from mvsboost.runtime.intrinsics import PLAIN

__all__ = ["by_reference"]


class Reference(types.Type):
    """The type of a reference to a named tuple in memory."""

    def __init__(self, to: types.NamedTuple) -> None:
        self.to = to
        super().__init__(name=f"Reference({to})")

    def field(self, name: str) -> tuple[int, types.Type]:
        """Number and type of a field; to a tuple inside the tuple there is a reference again."""
        number = self.to.fields.index(name)
        kind = self.to.types[number]
        return number, Reference(kind) if isinstance(kind, types.NamedTuple) else kind


register_model(Reference)(models.OpaqueModel)


@infer_getattr
class _Fields(AttributeTemplate):
    key = Reference

    def generic_resolve(self, reference: Any, name: str) -> Any:  # type: ignore[override]
        return reference.field(name)[1] if name in reference.to.fields else None


def _load_field(context: Any, builder: Any, reference: Any, value: Any, name: str) -> Any:
    i32 = ir.IntType(32)
    number, kind = reference.field(name)
    place = builder.bitcast(value, context.get_value_type(reference.to).as_pointer())
    place = builder.gep(place, [i32(0), i32(number)])
    if isinstance(kind, Reference):
        return builder.bitcast(place, value.type)
    # where references are counted, who reads a field has one more
    return _borrowed(context, builder, kind, builder.load(place))


_lower: Any = lower_getattr_generic
_borrowed: Any = impl_ret_borrowed
_lower(Reference)(_load_field)


@intrinsic
def _reference_to(_context: Any, values: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        store: Any = cgutils.alloca_once_value
        return builder.bitcast(store(builder, arguments[0]), ir.IntType(8).as_pointer())

    return Reference(values)(values), codegen


def _same(values: Any) -> Any:
    return values


by_reference: Any = _same if PLAIN else _reference_to
"""``by_reference(values)``: a reference to a named tuple, good until the calling kernel returns."""
