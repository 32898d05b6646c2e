"""Processes of one small DDP job, each started by the test, with its own rank."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[3] / "src"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def run_ranks(script: str, folder: Path, ranks: int, *, address: str = "127.0.0.1",
              before: tuple[tuple[str, ...], ...] = (), more: dict[int, dict[str, str]] | None = None,
              timeout: int = 240) -> list[dict]:
    """Runs `script` once per rank and returns what each wrote to `times.<rank>.json`; `before` are words in front of
    the command of each rank."""
    (folder / "script.py").write_text(script)
    port, started = str(free_port()), []
    for rank in range(ranks):
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank),
               "MASTER_ADDR": address, "MASTER_PORT": port, "OMP_NUM_THREADS": "1",
               "PYTHONPATH": os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")]),
               **(more or {}).get(rank, {})}
        words = before[rank] if before else ()
        started.append(subprocess.Popen([*words, sys.executable, "script.py"], cwd=folder, env=env,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    try:
        outputs = [process.communicate(timeout=timeout)[0] for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    for process, output in zip(started, outputs):
        assert process.returncode == 0, output[-4000:]
    return [json.loads((folder / f"times.{rank}.json").read_text()) for rank in range(ranks)]
