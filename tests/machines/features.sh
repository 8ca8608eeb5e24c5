#!/bin/sh
# The golden models with parts of this x86-64 processor switched off: the same bytes?
#
#     sh tests/machines/features.sh [python]     # some minutes: kernels are compiled for each
#
# "least" switches off whatever Numba, NumPy, the C library and OpenBLAS choose by the processor.
set -eu
cd "$(dirname "$0")/../.."
python=${1:-.venv/bin/python}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PYTHONPATH=src
failed=0

try() {
    name=$1
    shift
    env NUMBA_CACHE_DIR="$folder/$name" "$@" "$python" tests/combinations/golden.py \
        > "$folder/said" 2>&1 || failed=1
    echo "$name: $(tail -n 1 "$folder/said")"
}

numpy=$("$python" -c '
from numpy._core._multiarray_umath import __cpu_dispatch__ as names
print(*names)')
try whole NUMBA_OPT=3
try haswell NUMBA_CPU_NAME=haswell
try no-avx NUMBA_ENABLE_AVX=0
try generic NUMBA_CPU_NAME=generic
try numpy NPY_DISABLE_CPU_FEATURES="$numpy"
try least NUMBA_CPU_NAME=generic NPY_DISABLE_CPU_FEATURES="$numpy" OPENBLAS_CORETYPE=Prescott \
    GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F,-AVX2,-FMA,-AVX2_Usable,-FMA_Usable
exit $failed
