#!/bin/sh
# The golden models on arm64, emulated: the same bytes as those of the record?
#
#     sh tests/machines/arm64.sh [folder]     # as root on Debian or Ubuntu; an hour on one core
#
# A Debian for arm64 is unpacked in the folder, not installed, with wheels for arm64 beside it. Its
# Python runs under qemu, which asks nothing of the kernel, and compiles the kernels for arm64: for
# any, or for the one that NUMBA_CPU_NAME says, such as neoverse-v1.
set -eu
cd "$(dirname "$0")/../.."
folder=${1:-/tmp/arm64}
root=$folder/root
python=3.13

if [ ! -e "$folder/ready" ]; then
    apt-get install -y --no-install-recommends debootstrap qemu-user-static
    debootstrap --foreign --arch=arm64 --variant=minbase --include=python3 trixie "$root"
    for package in "$root"/var/cache/apt/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$root"
    done
    "${UV:-.venv/bin/uv}" pip install --target "$folder/site" --only-binary :all: \
        --python-version $python --python-platform aarch64-manylinux_2_28 \
        numba scikit-learn narwhals pandas polars pyarrow hypothesis pytest
    touch "$folder/ready"
fi

unset PYTHONDONTWRITEBYTECODE || true # modules take minutes without
export PYTHONPATH="src:$folder/site" NUMBA_CACHE_DIR="$folder/kernels"
run="qemu-aarch64-static -cpu max -L $root $root/usr/bin/python$python"
exec timeout "${LIMIT:-7200}" $run -m pytest -p no:cacheprovider -v \
    tests/combinations/test_golden.py tests/model/test_golden.py
