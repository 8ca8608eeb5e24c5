"""How kernels are compiled: one place for the options of Numba.

Every kernel is a serial loop that releases the GIL, and runs on slices of rows; most
call other threads for the rest (`backends.cpu.crew`). No parallel transform is compiled,
which keeps the first fit short, and no threading layer is shared with other libraries.

No kernel allocates: arrays come from the caller, or lie on the stack
(`backends.cpu.machine.stack_array`). So none of them counts references, and the
code for that, an eighth of the compilation, is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, Flags
from numba.core.compiler_machinery import PassManager

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False}

KERNELS: list[Any] = []
"""Every compiled kernel, in order of definition."""


def kernel(function: F) -> F:
    """Compile a function of scalars and arrays, cached on disk, free of the GIL."""
    # an entry point for C would be compiled as well, and nobody calls it
    options = {**_OPTIONS, "cache": True, "nogil": True, "no_cfunc_wrapper": True}
    compiled = numba.njit(pipeline_class=_KernelCompiler, **options)(function)
    _stamp_cache(compiled)
    KERNELS.append(compiled)
    return cast(F, compiled)


@cache
def _package_stamp() -> tuple[tuple[str, int, float], ...]:
    """Name, size and time of every module that kernels are written in."""
    package = Path(__file__).parent
    modules = [*package.glob("*.py"), *package.glob("backends/cpu/*.py")]
    found = [(module.name, module.stat()) for module in sorted(modules)]
    return tuple((name, stat.st_size, stat.st_mtime) for name, stat in found)


def _stamp_cache(compiled: Any) -> None:
    """Let a change in any kernel's module make the cache of all of them stale.

    Numba looks at the kernel's own file only, and would go on with old code of the
    functions that it calls in others.
    """
    file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if file is not None:
        file._source_stamp = (file._source_stamp, _package_stamp())
        file._load_index = partial(_load_or_forget, file._load_index)


def _load_or_forget(load: Callable[[], dict[Any, Any]]) -> dict[Any, Any]:
    """The index of the cache, or an empty one where an earlier release wrote it.

    Numba unpickles it before it looks at the stamp, and types that are gone raise.
    """
    try:
        return load()
    except Exception:
        return {}


def twice(function: F) -> tuple[F, F]:
    """The same function for Python to call, and for kernels to call; each compiled at need."""
    return kernel(function), inlined(function)


def inlined(function: F) -> F:
    """Compile a small function that only kernels call; LLVM inlines it.

    It gets no entry points for Python or C, which would be a third of its compilation, and is
    optimised with the kernels only, which is another fifth.
    """
    options = {**_OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return cast(F, numba.njit(pipeline_class=_InlinedCompiler, **options)(function))


class _InlinedLibrary(JITCodeLibrary):
    """Code that is linked to kernels, and never runs by itself.

    Numba would optimise it, and write machine code that nobody calls.
    """

    def finalize(self) -> None:
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        return 0

    @property
    def codegen(self) -> Any:
        return _WithoutEnvironments(self._codegen)


class _WithoutEnvironments:
    """A code generator for functions that have no machine code to find an environment in."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: Any) -> None:
        """Nothing: an environment is for code that calls Python, which kernels never do."""


_NEEDLESS = {"InlineClosureLikes", "InlineOverloads", "NopythonRewrites"}
"""Passes of Numba for closures, for overloads to inline, and for expressions of whole arrays."""


class _KernelCompiler(CompilerBase):
    """Numba's compiler without what loops over scalars need not, and with some things remembered.

    A fifth of the compilation.
    """

    def __init__(
        self, typing: Any, target: Any, library: Any, args: Any, result: Any, flags: Any, names: Any
    ) -> None:
        typing.refresh()
        typing, flags = _remembering(typing), _SettledFlags(flags)
        super().__init__(typing, target, library, args, result, flags, names)  # type: ignore[no-untyped-call]
        context = self.state.targetctx  # of this compilation
        context.get_abi_sizeof = cache(context.get_abi_sizeof)
        # they were just loaded, and are again for every array that is indexed
        context.load_additional_registries = lambda: None

    def define_pipelines(self) -> list[PassManager]:
        passes: Any = PassManager("kernels")  # type: ignore[no-untyped-call]
        usual: Any = DefaultPassBuilder.define_nopython_pipeline(self.state)  # type: ignore[no-untyped-call]
        for one, description in usual.passes:
            if one.__name__ not in _NEEDLESS:
                passes.add_pass(one, description)
        passes.finalize()
        return [passes]


_RESOLVED: dict[Any, Any] = {}


def _remember(resolve: Callable[..., Any], function: Any, args: Any, kws: Any) -> Any:
    """The signature of a function for some types; remembered of operators and built-in functions.

    Numba tries one definition after another, each time that an array is indexed or two numbers
    are added. Other functions may register something when they are typed, so they always are.
    """
    key = getattr(function, "typing_key", function)
    if kws or getattr(key, "__module__", None) not in ("_operator", "builtins"):
        return resolve(function, args, kws)
    asked = function, tuple(args)
    if _RESOLVED.get(asked) is None:
        _RESOLVED[asked] = resolve(function, args, kws)
    return _RESOLVED[asked]


@cache
def _remembering(typing: Any) -> Any:
    """Numba's typing, which other libraries use too, as kernels use it: with `_remember`."""
    own = copy(typing)
    own.resolve_function_type = partial(_remember, typing.resolve_function_type)
    return own


class _SettledFlags(Flags):
    """Options that nobody changes any more; Numba compares all of them for every call it types."""

    def __init__(self, flags: Flags) -> None:
        super().__init__(flags)  # type: ignore[no-untyped-call]
        self._settled: dict[str, Any] = {}

    def values(self) -> dict[str, Any]:
        self._settled = self._settled or super().values()  # type: ignore[no-untyped-call]
        return self._settled


class _InlinedCompiler(_KernelCompiler):
    def __init__(self, typing: Any, target: Any, library: Any, *rest: Any) -> None:
        library = _InlinedLibrary(target.codegen(), "inlined")  # type: ignore[no-untyped-call]
        super().__init__(typing, target, library, *rest)
