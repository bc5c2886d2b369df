#!/bin/sh
# Builds the native code for AArch64 and runs its tests under qemu's user emulation.
#
#     scripts/test_aarch64.sh [SOURCES [BUILD]]       by default native and build/aarch64
#
# Leaves out the long forms and the schedule explorer. The explorer simulates its machine: it would find the same here,
# and take ten times as long. Needs aarch64-linux-gnu-gcc with its C library, qemu-aarch64 and cmake (Debian:
# gcc-aarch64-linux-gnu, libc6-dev-arm64-cross, qemu-user). Ends with 77 if one of them is missing.

set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
sources=${1:-$root/native}
build=${2:-$root/build/aarch64}

for program in aarch64-linux-gnu-gcc qemu-aarch64 cmake; do
    if ! command -v "$program" > /dev/null; then
        echo "skipped: the tests for AArch64 need $program" >&2
        exit 77
    fi
done

cmake -S "$sources" -B "$build" -DBURSAR_TESTS=ON -DCMAKE_TOOLCHAIN_FILE="$root/native/cmake/aarch64.cmake"
cmake --build "$build" --parallel 2
ctest --test-dir "$build" --output-on-failure --no-tests=error -LE long -E '^engine/(explore|mutant)_'
