"""What this library uses of Numba's insides, and what it does without.

Three things save a user time or a wrong answer, and Numba has no public way to any:

- small functions that only kernels call are linked to these without machine code of their own, two
  seconds of a first fit (`inlined_compiler`);
- what the compiler would look up for every call and operator of a kernel is looked up once, two
  seconds more (`kernel_compiler`);
- compiled kernels on disk are those of this very version of the library, and whole
  (`protect_cache`).

`probe` tries them where this release of Numba is not known; if it fails, or where
`MVSBOOST_PLAIN_NUMBA` is set, kernels are compiled by plain `numba.njit`.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import re
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from functools import cache, partial
from glob import escape
from pathlib import Path
from typing import Any

import numba

__all__ = [
    "INLINED_OPTIONS",
    "KERNEL_OPTIONS",
    "compiled_on_disk",
    "inlined_compiler",
    "is_known",
    "kernel_compiler",
    "probe",
    "protect_cache",
    "try_out",
]

logger = logging.getLogger("mvsboost")

_KNOWN = (0, 68)
"""The last release of Numba that all tests have passed with."""

_FOLDERS = [
    Path(__file__).parents[1] / name for name in ("exact", "kernels", "runtime", "backends/cuda")
]
"""Where kernels are written."""

INLINED_OPTIONS: dict[str, Any] = {
    "_nrt": False,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
"""No kernel allocates, so none counts references; nobody calls these functions from Python or C."""

KERNEL_OPTIONS: dict[str, Any] = {"_nrt": False, "no_cfunc_wrapper": True}


@cache
def probe() -> bool:
    """Whether the insides of this release of Numba are as they are used here."""
    if os.environ.get("MVSBOOST_PLAIN_NUMBA", "0") != "0":
        return False
    return is_known(numba.__version__) or try_out()


def is_known(version: str) -> bool:
    """Whether all tests have passed with this release of Numba, or with a later one.

    Examples
    --------
    >>> is_known("0.60.1"), is_known("1.2.0rc1"), is_known("0+unknown")
    (True, False, False)
    """
    release = re.match(r"(\d+)\.(\d+)", version)
    return release is not None and tuple(map(int, release.groups())) <= _KNOWN


def try_out() -> bool:
    """Compile a kernel of one function, and look for what the cache is protected by."""
    try:
        one = numba.njit(pipeline_class=inlined_compiler(), **INLINED_OPTIONS)(lambda x: x + 1)
        compiler: Any = partial(numba.njit, pipeline_class=kernel_compiler())
        two = compiler(**KERNEL_OPTIONS)(lambda x: one(x) + 1)
        kept: Any = numba.njit(cache=True)(try_out)
        file = kept._cache._cache_file
        names = ("_index_name", "_index_path", "_cache_path", "_data_name_pattern", "_version")
        found = all(hasattr(file, name) for name in (*names, "_dump", "_load_index", "_load_data"))
        return found and two(1) == 3
    except Exception as error:
        logger.debug("plain numba.njit compiles kernels: %s", error)
        return False


# --- what is looked up once -----------------------------------------------------------------------


@cache
def kernel_compiler() -> Any:
    """Numba's compiler, which remembers signatures of operators and compares its options once."""
    from numba.core.compiler import Compiler

    class KernelCompiler(Compiler):
        def __init__(
            self,
            typing: Any,
            target: Any,
            library: Any,
            args: Any,
            result: Any,
            flags: Any,
            *rest: Any,
        ) -> None:
            typing, flags = _remembering(typing), _settled(flags)
            super().__init__(typing, target, library, args, result, flags, *rest)  # type: ignore[no-untyped-call]

    return KernelCompiler


@cache
def _remembering(typing: Any) -> Any:
    """Numba's typing, which other libraries use too, as kernels use it: with `_remember`."""
    own = copy(typing)
    own.resolve_function_type = partial(_remember, typing.resolve_function_type, {})
    return own


def _remember(
    resolve: Callable[..., Any], known: dict[Any, Any], function: Any, args: Any, kws: Any
) -> Any:
    """The signature of a function for some types; remembered of operators and built-in functions.

    Numba tries one definition after another, each time that an array is indexed or two numbers
    are added. Other functions may register something when they are typed, so they always are.
    """
    key = getattr(function, "typing_key", function)
    if kws or getattr(key, "__module__", None) not in ("_operator", "builtins"):
        return resolve(function, args, kws)
    asked = function, tuple(args)
    if known.get(asked) is None:
        known[asked] = resolve(function, args, kws)
    return known[asked]


_SETTLED: dict[Any, Any] = {}


def _settled(flags: Any) -> Any:
    """Options that nobody changes any more: Numba compares all of them for every call it types."""
    known: Any = _SETTLED.get(flags)
    kind: Any = type(flags)
    if known is None:
        known = _kind_of_settled(kind)(flags)
        known.number, known.known = hash(flags), flags.values()
        _SETTLED[flags.copy()] = known
    return known


@cache
def _kind_of_settled(kind: Any) -> Any:
    class Settled(kind):  # type: ignore[misc]
        __slots__ = ("known", "number")

        def values(self) -> Any:
            return self.known

        def __hash__(self) -> int:
            return int(self.number)

        def __eq__(self, other: object) -> bool:
            return self is other or (isinstance(other, kind) and self.known == other.values())

        def copy(self) -> Any:
            return self

    return Settled


# --- functions that are linked to kernels ---------------------------------------------------------


@cache
def inlined_compiler() -> Any:
    """A compiler of functions without machine code of their own.

    Numba would optimise each by itself, and write machine code that nobody calls.
    """
    from numba.core.codegen import JITCodeLibrary

    compiler: Any = kernel_compiler()

    class Library(JITCodeLibrary):
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

    class InlinedCompiler(compiler):  # type: ignore[misc]
        def __init__(self, typing: Any, target: Any, library: Any, *rest: Any) -> None:
            library = Library(target.codegen(), "inlined")  # type: ignore[no-untyped-call]
            super().__init__(typing, target, library, *rest)

    return InlinedCompiler


class _WithoutEnvironments:
    """A code generator for functions that have no machine code to find an environment in."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: Any) -> None:
        """Nothing: an environment is for code that calls Python, which kernels never do."""


# --- the cache on disk --------------------------------------------------------------------------


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


def protect_cache(compiled: Any) -> None:
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
    except (OSError, RuntimeError) as error:  # no room, or code that Numba cannot keep
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


def compiled_on_disk(dispatcher: Any) -> bool:
    """Whether the cache has code of this source, this release of Numba and this processor."""
    try:
        index = dispatcher._cache._cache_file._load_index()
        processor = dispatcher.targetctx.codegen().magic_tuple()
        return any(key[1] == processor for key in index)
    except Exception:
        # Numba promises nothing about these names: a fit must not fail over an announcement
        return True
