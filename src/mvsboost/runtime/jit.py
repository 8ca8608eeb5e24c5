"""How kernels are compiled: one place for the options of Numba.

Every kernel is a serial loop that releases the GIL, and runs on slices of rows; most
call other threads for the rest (`runtime.pool`). No parallel transform is compiled,
which keeps the first fit short, and no threading layer is shared with other libraries.

No kernel allocates: arrays come from the caller, or lie on the stack
(`runtime.intrinsics.stack_array`). So none of them counts references, and the
code for that, an eighth of the compilation, is left out.

Compilers and caches are private parts of Numba, and most of them are used only when something is
compiled: an import would not show that they have changed. So `pyproject.toml` allows no later
release of Numba than was tested.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from functools import cache, partial
from glob import escape
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, Flags
from numba.core.compiler_machinery import PassManager

F = TypeVar("F", bound=Callable[..., Any])

logger = logging.getLogger("mvsboost")

_OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False}

_FOLDERS = [Path(__file__).parents[1] / name for name in ("exact", "kernels", "runtime")]
"""Where kernels are written."""

KERNELS: list[Any] = []
"""Every compiled kernel, in order of definition."""

_NOT_KEPT: list[str] = []
"""Names of kernels that no folder can keep."""


def kernel(function: F) -> F:
    """Compile a function of scalars and arrays, cached on disk, free of the GIL."""
    # an entry point for C would be compiled as well, and nobody calls it
    options = {**_OPTIONS, "nogil": True, "no_cfunc_wrapper": True}
    compiler = partial(numba.njit, pipeline_class=_KernelCompiler, **options)
    try:
        compiled = compiler(cache=True)(function)
        _stamp_cache(compiled)
    except RuntimeError as error:  # no folder can be written to
        _say_not_kept(function.__name__, error)
        compiled = compiler()(function)
    KERNELS.append(compiled)
    return cast(F, compiled)


def kernels_are_kept() -> bool:
    """Whether there is a folder on disk in which other processes find what this one compiles."""
    return not _NOT_KEPT


def _say_not_kept(name: str, error: Exception) -> None:
    """Log one line a process."""
    if kernels_are_kept():
        logger.warning(
            "compiled kernels cannot be kept, so every process compiles them anew (%s); "
            "NUMBA_CACHE_DIR may name a folder that can be written to",
            error,
        )
    _NOT_KEPT.append(name)


@cache
def _digest(module: Path) -> bytes:
    """Hash of a module's bytes: archives, images and copies change its time."""
    return hashlib.blake2b(module.read_bytes(), digest_size=8).digest()


@cache
def _package_stamp() -> bytes:
    """Numba's version, and name and hash of every module that kernels are written in."""
    modules = sorted(module for folder in _FOLDERS for module in folder.glob("*.py"))
    found = [module.name.encode() + _digest(module) for module in modules]
    return b"".join([numba.__version__.encode(), *found])


@cache
def _stamp(module: Path, otherwise: str) -> str:
    """Hash of the package and of a module of kernels; of `otherwise` where there is no file."""
    try:
        own = _digest(module)
    except OSError:
        own = otherwise.encode()
    return hashlib.blake2b(_package_stamp() + own, digest_size=8).hexdigest()


def _stamp_cache(compiled: Any) -> None:
    """Let a change in any kernel's module make the cache of all of them stale.

    Numba looks at the kernel's own file only, and would go on with old code of the
    functions that it calls in others.

    The stamp is part of the files' names as well. Numba writes the index before the code, and
    gives code of a new version the names of the old: a process that is killed in between would
    leave the old code for the new index.
    """
    kept = getattr(compiled, "_cache", None)
    file = getattr(kept, "_cache_file", None)
    if kept is None or file is None:
        return
    path = Path(compiled.py_func.__code__.co_filename)
    stamp = _stamp(path, repr(file._source_stamp))
    base = file._index_name.removesuffix(".nbi")
    file._source_stamp = stamp
    file._index_name = f"{base}.{stamp}.nbi"
    file._index_path = os.path.join(file._cache_path, file._index_name)
    file._data_name_pattern = f"{base}.{stamp}.{{number:d}}.nbc"
    _seal_cache(file)
    python = base.rpartition(".")[2]
    tidy = partial(_remove_others, Path(file._cache_path), path.stem, python, stamp)
    kept.save_overload = partial(_save_or_leave, kept.save_overload, tidy)


def _seal_cache(file: Any) -> None:
    """Let a damaged file of the cache be like one that is not there: its code is compiled anew.

    Numba forgives a file that is missing, and not one that is torn; and a wrong byte in machine
    code may end the process. So both kinds of files end with a digest. Numba does not see it: a
    pickle says itself where it ends.
    """
    dump = file._dump
    file._dump = lambda content: _seal(dump(content))
    file._load_index = partial(_load_index_or_forget, file, file._load_index)
    file._load_data = partial(_load_data_or_forget, file, file._load_data)


def _load_index_or_forget(file: Any, load: Callable[[], dict[Any, Any]]) -> dict[Any, Any]:
    """The index of the cache, or an empty one where it is not whole."""
    try:
        head = pickle.dumps(file._version, protocol=-1)  # Numba writes it by itself
        return load() if _is_sealed(Path(file._index_path), head) else {}
    except Exception:
        return {}


def _load_data_or_forget(file: Any, load: Callable[[str], Any], name: str) -> Any:
    """Compiled code from the cache, or None where it is not whole."""
    try:
        return load(name) if _is_sealed(Path(file._data_path(name))) else None
    except Exception:
        return None


def _seal(content: bytes) -> bytes:
    """Some bytes, and then their digest."""
    return content + hashlib.sha256(content).digest()


def _is_sealed(path: Path, head: bytes = b"") -> bool:
    """Whether a file holds a head, and then what `_seal` made."""
    found = path.read_bytes()
    end = max(len(head), len(found) - hashlib.sha256().digest_size)
    return found.startswith(head) and _seal(found[len(head) : end]) == found[len(head) :]


def _save_or_leave(
    save: Callable[[Any, Any], None], tidy: Callable[[], None], signature: Any, result: Any
) -> None:
    """Keep compiled code on disk if there is room: the fit that waits for it has it already."""
    try:
        save(signature, result)
        tidy()
    except OSError as error:
        logger.debug("a compiled kernel is not kept: %s", error)


@cache
def _remove_others(folder: Path, module: str, python: str, stamp: str) -> None:
    """Remove what other versions of a module left in the cache, once a process.

    Numba never does. Another process may have been faster, or may still read.
    """
    stamps = "[0-9a-f]" * len(stamp)
    for file in folder.glob(f"{escape(module)}.*.{python}.{stamps}.*"):
        if f".{python}.{stamp}." not in file.name:
            with suppress(OSError):
                file.unlink()


def kernel_and_inlined(function: F) -> tuple[F, F]:
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


_NEEDLESS = {
    "InlineClosureLikes",
    "InlineOverloads",
    "NopythonRewrites",
    "NoPythonSupportedFeatureValidation",
}
"""Passes of Numba for closures, for overloads to inline, for expressions of whole arrays, and one
that only forbids: among other things a `view` of a scalar that NumPy allows (`numerics`)."""


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
