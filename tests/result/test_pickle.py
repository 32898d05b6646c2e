"""A Result goes through a pickle with everything that it says."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import astrarium as ar
from astrarium.result import tables


@pytest.mark.parametrize("name", ["quickstart/design.yaml", "jobs/two_jobs.yaml"])
def test_a_result_comes_back_whole(root: Path, name: str) -> None:
    design = ar.load_design(root / "examples" / name)
    result = ar.simulate(design, record=True)
    back = pickle.loads(pickle.dumps(result))
    assert str(back) == str(result)
    assert repr(back) == repr(result)
    for table, columns in tables(result, nodes=True).items():
        for column, values in columns.items():
            assert list(tables(back, nodes=True)[table][column]) == list(values), (table, column)


def test_files_of_traces_are_not_in_it(root: Path) -> None:
    result = ar.simulate(ar.load_design(root / "examples" / "quickstart" / "design.yaml"))
    back = pickle.loads(pickle.dumps(result))
    assert result.traces is not None
    with pytest.raises(ar.UnsupportedError, match="a pickle holds no trace files; expected the traces, read again"):
        back.traces.file_bytes(0)
