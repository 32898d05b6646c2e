#!/usr/bin/env bash
# Tests of the compiled core under ASan and UBSan: builds it into build/sanitize, apart, and runs pytest there.
# In: PYTHON (with nanobind and the tests' extra), CMAKE_JOBS; arguments go to pytest (default: tests of the engine).
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(realpath -s "$(command -v "${PYTHON:-python3}")")
cmake="$(dirname "$python")/cmake"
[ -x "$cmake" ] || cmake=cmake
build=build/sanitize
package="$PWD/$build/package"
mkdir -p "$package"
cp -r src/astrarium "$package"
rm -f "$package"/astrarium/_core*.so
"$cmake" -S . -B "$build" -DPython_EXECUTABLE="$python" -DASTRARIUM_OUT="$package/astrarium" \
    -DASTRARIUM_SANITIZE=address,undefined -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1"
"$cmake" --build "$build" --parallel "${CMAKE_JOBS:-2}"

libraries=""      # libstdc++ too, or ASan does not see exceptions; Python itself is not instrumented, and leaks
for name in libasan.so libubsan.so libstdc++.so; do libraries+="$("${CXX:-g++}" -print-file-name="$name") "; done
export LD_PRELOAD="$libraries" PYTHONPATH="$package" PYTHONMALLOC=malloc
export ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
[ $# -gt 0 ] || set -- tests/engine
exec "$python" -m pytest -q -p no:cacheprovider "$@"
