"""Files are written whole; devices, pipes and open files are written to and never replaced."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from astrarium.config.whole import write_whole
from astrarium.errors import InputError
from astrarium.trace.write import write_files

STDOUT = """
from astrarium.config.whole import write_whole
print("before")
with write_whole("/dev/stdout") as stream:
    stream.write(b"inside\\n")
print("after")
"""


def test_standard_output_sent_to_a_file_is_written_in_order(tmp_path: Path) -> None:
    with open(tmp_path / "all.txt", "wb") as file:
        subprocess.run([sys.executable, "-c", STDOUT], check=True, stdout=file)
    assert (tmp_path / "all.txt").read_text() == "before\ninside\nafter\n"
    assert os.path.islink("/dev/stdout")


@pytest.mark.parametrize("write", [lambda path: write_files([(path, b"x")]), lambda path: _whole(path, b"x")])
def test_a_pipe_is_not_replaced_by_a_file(write: Callable[[str], None], tmp_path: Path) -> None:
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write(path)
        assert os.read(reader, 9) == b"x"
        assert stat.S_ISFIFO(os.stat(path).st_mode)
        assert os.listdir(tmp_path) == ["pipe"]
    finally:
        os.close(reader)


def test_a_stream_that_is_not_open_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="/dev/fd/977: cannot be written"):
        _whole("/dev/fd/977", b"")
    with pytest.raises(InputError, match="is a folder"):
        _whole(str(tmp_path), b"")


def _whole(path: str, data: bytes) -> None:
    with write_whole(path) as stream:
        stream.write(data)
