"""Network plug-ins behind the C ABI."""

from __future__ import annotations

import ctypes
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest

import astrarium as ar
from astrarium.engine import HAVE_CORE, execute
from astrarium.engine.plugins import Library, Plugins, load
from astrarium.engine.plugins.exams import EXAM_FABRIC, exam_network
from astrarium.engine.plugins.library import VERSION, _Dim, _Fabric, _Host, _Table
from astrarium.errors import InputError, PluginError, StallError

from .common import EXAMPLES, HEADER, compiled, environment, example, mixed_plan, pair_plan

ENGINES = [pytest.param(False, marks=pytest.mark.skipif(not HAVE_CORE, reason="no compiled core here"), id="core"),
           pytest.param(True, id="pure")]


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """The example in C."""
    return load(compiled(EXAMPLES / "network_c" / "toy.c", tmp_path_factory.mktemp("toy") / "libtoy.so"))


@pytest.fixture(scope="module")
def clockless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The network that lives on the host's clock."""
    return compiled(Path(__file__).parent / "clockless.c", tmp_path_factory.mktemp("clockless") / "libclockless.so")


def test_the_example_in_c_passes_the_exam(toy: Library) -> None:
    assert toy.name == "toy"
    exam_network(lambda: toy.open(EXAM_FABRIC), latency=500_000)


def test_a_network_without_a_clock_passes_the_exam(clockless: Path) -> None:
    library = load(clockless)
    exam_network(lambda: library.open(EXAM_FABRIC), latency=2000)


@pytest.mark.parametrize("pure", ENGINES)
@pytest.mark.parametrize("algorithm", ["ring", "direct", "double_binary_tree"])
def test_c_and_python_give_the_same_integers(toy: Library, algorithm: str, pure: bool) -> None:
    plan = mixed_plan(8, algorithm)
    twin = execute(plan, plugins=Plugins(network=example("toy").Toy), record=True, pure=pure)
    own = execute(plan, plugins=Plugins(network=toy), record=True, pure=pure)
    assert own.end.tolist() == twin.end.tolist()


@pytest.mark.parametrize("pure", ENGINES)
def test_the_hosts_clock(clockless: Path, pure: bool) -> None:
    plugins = Plugins(network=load(clockless))
    assert execute(pair_plan(), plugins=plugins, pure=pure).finish.tolist() == [2000, 2000]
    assert execute(mixed_plan(4), plugins=plugins, pure=pure).makespan > 2000


@pytest.mark.parametrize("pure", ENGINES)
@pytest.mark.parametrize(("options", "error", "words"), [
    ("fail", PluginError, "network plug-in clockless: sim_send() failed: the cable is out"),
    ("past", PluginError, "network plug-in clockless: schedules a callback -5 ps from now"),
    ("unknown", PluginError, "network plug-in clockless: called a callback that it does not have"),
    ("twice", PluginError, "network plug-in clockless: called a callback that it does not have, or called it twice"),
    ("refuse", PluginError, "network plug-in clockless: create() failed: not with these options"),
    ("lose", StallError, "network plug-in clockless: the callback of sim_send never came (64 bytes from NPU 0 to 1"),
])
def test_failures_are_named(clockless: Path, options: str, error: type[Exception], words: str, pure: bool) -> None:
    with pytest.raises(error, match=re.escape(words)):
        execute(pair_plan(), plugins=Plugins(network=load(clockless, options)), pure=pure)


def test_what_is_not_a_plug_in_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.so: is not a network plug-in"):
        load(tmp_path / "absent.so")
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(InputError, match="astrarium_network_v1"):
        load(tmp_path / "text.so")
    (tmp_path / "empty.c").write_text("int nothing(void);\nint nothing(void) { return 0; }\n")
    with pytest.raises(InputError, match="exports astrarium_network_v1"):
        load(compiled(tmp_path / "empty.c", tmp_path / "libempty.so"))


def test_another_version_is_refused(tmp_path: Path) -> None:
    source = (Path(__file__).parent / "clockless.c").read_text()
    (tmp_path / "next.c").write_text("#define VERSION 2\n" + source)
    with pytest.raises(InputError, match=r"its table has version 2 .*expected version 1"):
        load(compiled(tmp_path / "next.c", tmp_path / "libnext.so"))


def test_the_python_side_lays_out_the_structs_as_the_header_does(tmp_path: Path) -> None:
    (tmp_path / "sizes.c").write_text(
        '#include "astrarium_network.h"\n'
        "int sizes(int);\n"
        "int sizes(int which) {\n"
        "    const int all[] = {sizeof(astrarium_dim), sizeof(astrarium_fabric), sizeof(astrarium_host),\n"
        "                       sizeof(astrarium_network), ASTRARIUM_NETWORK_VERSION};\n"
        "    return all[which];\n}\n")
    library = ctypes.CDLL(str(compiled(tmp_path / "sizes.c", tmp_path / "libsizes.so")))
    assert [library.sizes(i) for i in range(5)] == [*map(ctypes.sizeof, (_Dim, _Fabric, _Host, _Table)), VERSION]


def test_the_header_is_c_plus_plus_too(tmp_path: Path) -> None:
    import shutil

    if shutil.which("c++") is None:
        pytest.skip("no C++ compiler here (c++)")
    (tmp_path / "x.cpp").write_text('#include "astrarium_network.h"\nstatic_assert(ASTRARIUM_NETWORK_VERSION == 1);\n')
    command = ["c++", "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", f"-I{HEADER}"]
    subprocess.run([*command, str(tmp_path / "x.cpp")], check=True)


def test_a_design_names_a_library(toy: Library, tmp_path: Path) -> None:
    (tmp_path / "libtoy.so").write_bytes(Path(toy.path).read_bytes())
    (tmp_path / "design.yaml").write_text(
        "workload: {source: collective, op: all_reduce, payload: 1 MB}\n"
        "network: {dims: [{shape: ring, npus: 8, bandwidth: 50 GB/s, latency: 500 ns}], backend: library, "
        "library: libtoy.so}\n")
    result = ar.simulate(ar.load_design(tmp_path / "design.yaml"))
    network = ar.Network([ar.Ring(8, bandwidth="50 GB/s", latency="500 ns")])
    design = ar.Design(workload=ar.SingleCollective("all_reduce", "1 MB"), network=network)
    assert result.makespan == ar.simulate(design, plugins=Plugins(network=example("toy").Toy)).makespan
    (tmp_path / "bad.yaml").write_text((tmp_path / "design.yaml").read_text().replace(", library: libtoy.so", ""))
    with pytest.raises(InputError, match=r"network\.library.*is missing"):
        ar.load_design(tmp_path / "bad.yaml")


def test_what_a_library_logs_reaches_pythons_logging(toy: Library, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="astrarium.plugins.toy"):
        execute(pair_plan(), plugins=Plugins(network=toy))
    assert "a toy network was made" in caplog.text


def test_the_example_script(toy: Library) -> None:
    run = subprocess.run([sys.executable, "run_toy.py", toy.path], cwd=EXAMPLES, env=environment(),
                         capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert lines[:2] == (EXAMPLES / "expected" / "run_toy.txt").read_text().splitlines()
    assert lines[3].split()[1:] == lines[1].split()[1:]
