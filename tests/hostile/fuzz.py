"""The checks of hostile tables, led by what code they reach (needs atheris and clang's libFuzzer).

    pip install atheris
    python -m tests.hostile.fuzz -max_total_time=600 corpus/

Kernels are left alone: Numba compiles the bytecode that atheris would change.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from random import Random

PACKAGE = Path(__file__).parents[2] / "src"
COMPILED = [
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    for path in PACKAGE.rglob("*.py")
    if "mvsboost.runtime" in path.read_text() or path.parent.name in ("runtime", "exact")
]


class OfBytes(Random):
    """Choices by the bytes of a fuzzer, and zeros after them."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._data, self._at = data, 0

    def getrandbits(self, k: int) -> int:
        n = (k + 7) // 8
        taken = self._data[self._at : self._at + n]
        self._at += n
        return int.from_bytes(taken, "little") & ((1 << k) - 1)

    def random(self) -> float:
        return self.getrandbits(16) / 2**16


def main() -> None:
    import atheris

    with atheris.instrument_imports(include=["mvsboost"], exclude=COMPILED):
        from tests.hostile import checks
    checks.silent()
    folder = Path(tempfile.mkdtemp())
    atheris.Setup(sys.argv, lambda data: checks.outcome(OfBytes(data), folder) and None)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
