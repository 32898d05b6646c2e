"""A run of the kit: in order, within its time, and gone on with."""

from __future__ import annotations

from pathlib import Path

import pytest

from astrarium.compute.kit.cases import Case, cpu_cases, gpu_cases
from astrarium.compute.kit.run import Skipped, Took
from astrarium.compute.kit.session import Progress, measure, rows_of
from astrarium.compute.timings import read_timings
from astrarium.errors import InputError

CASES = [Case("gemm", "", "NT", m=m, n=128, k=64) for m in (16, 32, 48, 64)]


def ran(case: Case) -> Took:
    """A time by the rows; a device that has no room for 48."""
    if case.m == 48:
        raise Skipped("takes 80.0 GiB, 3.1 GiB are free")
    return Took(1000.0 * case.m, clock=1400.0)


def test_a_second_run_goes_on_where_the_time_of_the_first_ended(tmp_path: Path) -> None:
    path, told, now = str(tmp_path / "rows.csv"), list[Progress](), iter(range(0, 1000, 3))
    first = measure(CASES, path, "a GPU", ran, 8.0, told.append, lambda: float(next(now)))
    assert (first.measured, first.before, first.left) == (1, 0, 3)
    assert [each.done for each in told] == [1]
    with open(path, "a") as file:
        file.write("gemm,,NT,bf16,32,12")       # an interrupt
    second = measure(CASES, path, "a GPU", ran, 600.0, told.append)
    assert (second.measured, second.before, second.left) == (2, 1, 0)
    assert second.skipped == {"takes 80.0 GiB, 3.1 GiB are free": 1}
    third = measure(CASES, path, "a GPU", ran, 600.0, told.append)
    assert (third.measured, third.before, third.skipped) == (0, 4, second.skipped)
    assert [(case, ns, clock) for case, ns, clock, _ in rows_of(path)] == [
        (case, 1000.0 * case.m, 1400.0) for case in CASES if case.m != 48]
    assert [each.kernel.shape for each in read_timings(path)] == [(1, m, 128, 64) for m in (16, 32, 64)]


def test_a_file_of_another_device_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "rows.csv")
    measure(CASES, path, "a GPU", ran, 600.0, lambda _: None)
    with pytest.raises(InputError, match="has rows of a GPU"):
        measure(CASES, path, "another GPU", ran, 600.0, lambda _: None)
    whole = (tmp_path / "rows.csv").read_text()
    for text, words in (("kind,us\n", "is no file of rows"), ("# device: a GPU\n", "is no file of rows"),
                        (whole + "\0\n", "row 4 is none that"), (whole.replace(",128,", ",x,", 1), "row 1 is none"),
                        (whole + "gemm,,NT\n", "row 4 is none"), (whole.replace("gemm", "\xe9"), "cannot be read")):
        (tmp_path / "rows.csv").write_text(text, encoding="latin-1")
        with pytest.raises(InputError, match=words):
            measure(CASES, path, "a GPU", ran, 600.0, lambda _: None)
    (tmp_path / "rows.csv").write_text(whole, newline="\r\n")        # by an editor of another system
    assert measure(CASES, path, "a GPU", ran, 600.0, lambda _: None).before == 4


def test_every_part_of_the_kit_has_its_share_of_each_kind() -> None:
    cases = gpu_cases(fp8=True)
    kinds = [(case.kind, case.op if case.kind != "stream" else "", case.layout) for case in cases[6:]]
    assert len({case.key for case in cases}) == len(cases)
    for kind in set(kinds):
        half = kinds[:len(kinds) // 2].count(kind)
        assert 0.4 < half / kinds.count(kind) < 0.6, kind
    assert {"dgrad", "wgrad"} < {case.layout for case in cpu_cases()}


def test_the_kit_measures_a_cpu_with_torch() -> None:
    torch = pytest.importorskip("torch")
    from astrarium.compute.kit.probe import driver_of, probed
    from astrarium.compute.kit.run import run_case

    found = probed(torch)
    driver = driver_of(torch, found)
    for case in {(case.kind, case.op, case.layout): case for case in reversed(cpu_cases())}.values():
        assert run_case(torch, case, found, driver).ns > 0
    with pytest.raises(Skipped, match="are free"):
        run_case(torch, CASES[0]._replace(m=2**24, n=2**24), found, driver)
