#!/usr/bin/env bash
# Incremental build of astrarium._core into src/astrarium/ with plain CMake, one build at a time (flock).
# In: PYTHON (needs nanobind), OUT, CMAKE_JOBS, CMAKE_ARGS. A failed build leaves the old module.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(realpath -s "$(command -v "${PYTHON:-python3}")")
tag=$("$python" -c 'import sys; print(f"cp{sys.version_info[0]}{sys.version_info[1]}")')
build="build/dev-$tag"
out="${OUT:-src/astrarium}"
mkdir -p build "$out"
cmake="$(dirname "$python")/cmake"
[ -x "$cmake" ] || cmake=cmake
generator=()
if [ ! -f "$build/CMakeCache.txt" ] && command -v ninja >/dev/null; then generator=(-G Ninja); fi

exec 9>build/.lock
flock 9
# shellcheck disable=SC2086
"$cmake" -S . -B "$build" ${generator[@]+"${generator[@]}"} -DPython_EXECUTABLE="$python" \
    -DASTRARIUM_LTO=OFF -DASTRARIUM_UNITY=OFF -DASTRARIUM_OUT="$(realpath "$out")" ${CMAKE_ARGS:-} >"$build.configure.log" 2>&1 \
    || { cat "$build.configure.log"; exit 1; }
"$cmake" --build "$build" --parallel "${CMAKE_JOBS:-2}"
PYTHONPATH="$(dirname "$(realpath "$out")")" "$python" -c '
import importlib.util, pathlib, sys
path = max(pathlib.Path(sys.argv[1]).glob("_core*.so"), key=lambda p: p.stat().st_mtime)
spec = importlib.util.spec_from_file_location("_core", path)
core = importlib.util.module_from_spec(spec); spec.loader.exec_module(core)
print("built", path.name, "with", len([n for n in dir(core) if not n.startswith("__")]), "names")' "$out"
