"""Every bad trace times every verb that reads one: an answer or one clear message, soon, and nothing half-written."""

from __future__ import annotations

import json
import resource
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import pytest

from astrarium.cli import main
from astrarium.cli.chakra import run_command
from astrarium.errors import AstrariumError, InputError
from astrarium.profile.execute import program
from astrarium.trace import read_traces
from astrarium.trace.node import Node

from .bad import BAD, BESIDE, FOLDER, file_of, good

PARTS = 9               # of the verbs
SECONDS = 60            # of the processor, for one verb on one trace; the slowest takes a few
VERBS = {
    "check": ("check", "{prefix}"),
    "check_json": ("check", "{prefix}", "--dependencies", "data", "--json"),
    "show": ("show", "{prefix}"),
    "show_nodes": ("show", "{file}", "--nodes"),
    "run": ("run", "--trace", "{prefix}.*.et", "--json"),
    "run_timeline": ("run", "--trace", "{file}", "--timeline", "{out}/timeline.json"),
    "run_pure": ("run", "--trace", "{file}", "--pure", "--nodes", "--json"),
    "run_design": ("run", "{design}", "--trace", "{file}"),
    "run_roofline": ("run", "{design}", "--trace", "{file}", "--set", "compute={{model: roofline, peak: 1 TFLOP/s}}",
                     "--set", "memory={{capacity: 80 GB, bandwidth: 1 TB/s}}", "--json"),
    "convert": ("convert", "--to", "jsonl", "{file}", "-o", "{out}/t.jsonl"),
    "trace_show": ("trace", "show", "{file}"),
    "trace_show_json": ("trace", "show", "{file}", "--json"),
    "trace_show_html": ("trace", "show", "{file}", "--html", "{out}/page.html"),
    "diff": ("trace", "diff", "{good}", "{file}"),
    "diff_json": ("trace", "diff", "{file}", "{good}", "--json"),
    "diff_itself": ("trace", "diff", "{file}", "{file}"),
    "graph_svg": ("trace", "graph", "{file}", "-o", "{out}/g.svg"),
    "graph_dot": ("trace", "graph", "{file}", "-o", "{out}/g.dot", "--depth", "2"),
    "graph_graphml": ("trace", "graph", "{file}", "-o", "{out}/g.graphml", "--most", "5"),
    "anonymise": ("trace", "anonymise", "{prefix}", "-o", "{out}/a", "--seed", "1", "--sizes", "5", "--names",
                  "{out}/names.json"),
    "merge_ranks": ("trace", "transform", "{file}", "{good}", "-o", "{out}/t"),
    "merge_time": ("trace", "transform", "{good}", "{file}", "--merge", "time", "-o", "{out}/t", "--gzip"),
    **{step.partition(":")[0]: ("trace", "transform", "{prefix}", "-o", "{out}/t", "--step", step) for step in (
        "cut_ranks:ranks=0", "cut_steps:steps=0,mark=step*", "drop:name=*host", "rename:to={{name}}_{{id}}",
        "strip:attrs=[unread],tensors=true", "scale_durations:by=1.5", "scale_sizes:by=3", "scale_ops:by=0.5",
        "coalesce:below=100 us", "roofline:num_ops=1000,tensor_size=10", "grow_dp:factor=2,over=[all]",
        "grow_tp:factor=2,over=[all]")},
    "learn": ("trace", "synthesise", "learn", "{prefix}", "-o", "{out}/model"),
    "as_text": ("trace", "convert", "{file}", "--npus", "2", "-o", "{out}/c"),
    "as_profile": ("trace", "link", "{file}", "-o", "{out}/l"),
    "as_script": ("trace", "synthesise", "sample", "{file}", "--ranks", "1", "-o", "{out}/s"),
}
BESIDES = {
    "check_groups": ("check", "{prefix}", "--groups", "{beside}"),
    "own_groups": ("run", "--trace", "{prefix}.*.et", "--json"),
    "anonymise": ("trace", "anonymise", "{prefix}", "-o", "{out}/a", "--seed", "1"),
    "merge": ("trace", "transform", "{prefix}", "{prefix}", "-o", "{out}/t"),
    "grow": ("trace", "transform", "{prefix}", "-o", "{out}/t", "--step", "grow_dp:factor=2,over=[all]"),
    "table": ("trace", "transform", "{prefix}", "-o", "{out}/t", "--step", "roofline:table={beside}"),
    "learn": ("trace", "synthesise", "learn", "{prefix}", "-o", "{out}/m"),
    "conditions": ("trace", "synthesise", "learn", "{good}", "-o", "{out}/m"),
    "sample": ("trace", "synthesise", "sample", "{beside}", "--ranks", "1", "-o", "{out}/s"),
    "jsonl": ("convert", "--to", "et", "{beside}", "-o", "{out}/t.et"),
}
DESIGN = """workload: {source: trace, path: t}
compute: {model: replay, missing: 1 us}
network:
  dims:
    - {shape: ring, npus: 1, bandwidth: 50 GB/s, latency: 500 ns}
"""


class TooSlow(BaseException):
    """A verb that does not come back."""


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    def late(_number: int, _frame: FrameType | None) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def strict(text: str | bytes) -> None:
    """JSON without NaN and infinities, which is none."""
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} in JSON")

    json.loads(text, parse_constant=refuse)


def whole(path: Path) -> None:
    """A file that was written is one that can be read."""
    data = path.read_bytes()
    if path.suffix == ".et":
        try:
            read_traces(str(path))
        except InputError as error:
            raise AssertionError(f"{path.name}: {error}") from None
    elif path.suffix == ".json":
        strict(data)
    elif path.suffix in (".svg", ".html", ".graphml", ".dot"):
        assert data.rstrip().endswith((b">", b"}"))


@pytest.fixture(params=list(BAD))
def bad(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    data = BAD[request.param]()
    if data == FOLDER:
        (tmp_path / "t.0.et").mkdir()
    else:
        (tmp_path / "t.0.et").write_bytes(data)
    (tmp_path / "t.conditions.json").write_text('{"tp": 1, "dp": 1, "pp": 1}')
    (tmp_path / "good.et").write_bytes(good())
    (tmp_path / "design.yaml").write_text(DESIGN)
    return str(request.param)


def attempt(verb: str, arguments: Sequence[str], words: Mapping[str, str], tmp_path: Path,
            capfd: pytest.CaptureFixture[str], bad: str) -> None:
    """One verb on one input, in a folder of its own."""
    out = tmp_path / f"out_{verb}"
    out.mkdir()
    with limited(SECONDS):
        code = main([each.format(out=out, **words) for each in arguments])
    said = capfd.readouterr()
    where = f"{verb} on {bad}: code {code}, {said.err[-500:]}"
    assert code in (0, 1), where
    assert "Traceback" not in said.err + said.out, where
    left = sorted(out.iterdir())
    if code == 1 and not verb.startswith("check"):
        lines = [line for line in said.err.splitlines() if not line.startswith("astrarium: note:")]
        assert len(lines) == 1, where
        assert said.err.startswith("astrarium: "), where
        assert len(said.err) < 2_000, where
        assert not left, where
    if "--json" in arguments and code == 0:
        strict(said.out)
    assert not [path for path in left if path.name.startswith(".")], where
    for path in left:
        whole(path)


@pytest.mark.parametrize("part", ["some", pytest.param("all", marks=pytest.mark.exam)])
def test_every_verb_on_every_bad_trace(part: str, bad: str, tmp_path: Path,
                                       capfd: pytest.CaptureFixture[str]) -> None:
    """`some`: each verb meets every ninth bad trace, each bad trace every ninth verb."""
    first = list(BAD).index(bad) % PARTS
    names = {"prefix": "t", "file": "t.0.et", "good": "good.et", "design": "design.yaml"}
    words = {key: str(tmp_path / name) for key, name in names.items()}
    for verb in list(VERBS)[first::PARTS] if part == "some" else VERBS:
        attempt(verb, VERBS[verb], words, tmp_path, capfd, bad)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 4_000_000, "KB"


@pytest.mark.parametrize("part", ["some", pytest.param("all", marks=pytest.mark.exam)])
def test_execution_and_chakra_s_commands_on_every_bad_trace(part: str, bad: str, tmp_path: Path,
                                                            capfd: pytest.CaptureFixture[str]) -> None:
    """`some`: each bad trace meets one or two of the three commands."""
    trace, out = tmp_path / "t.0.et", tmp_path / "out"
    with limited(SECONDS), suppress(AstrariumError):
        assert program(read_traces(str(trace)), 0).ranks == 1       # what `trace replay` does before it starts
    commands = {
        "chakra_visualizer": ("--input_filename", trace, "--output_filename", out / "t.dot"),
        "chakra_converter": ("PyTorch", "--input", trace, "--output", out / "t.et", "--simulate"),
        "chakra_trace_link": ("--rank", 0, "--chakra-host-trace", trace, "--chakra-device-trace", trace,
                              "--output-file", out / "l.et")}
    every, first = list(commands.items()), list(BAD).index(bad) % 2
    for command, arguments in every[first::2] if part == "some" else every:
        out.mkdir()
        with limited(SECONDS):
            code = run_command(command, [str(each) for each in arguments])
        said = capfd.readouterr()
        where = f"{command} on {bad}: code {code}, {said.err[-500:]}"
        assert code in (0, 1), where
        assert "Traceback" not in said.err, where
        assert bool(list(out.iterdir())) == (code == 0), where
        shutil.rmtree(out)


@pytest.mark.parametrize(("arguments", "words"), [
    (("trace", "show", "t"), "did you mean 't.0.et'?"),
    (("trace", "graph", "t", "-o", "g.svg"), "did you mean 't.0.et'?"),
    (("trace", "convert", "t.0.et", "--npus", "2", "-o", "c"), "--npus: has no effect here"),
    (("trace", "anonymise", "t", "-o", "a", "--seed", "1", "--durations", "80"), "0 to 0.5 (50%)"),
    (("trace", "transform", "t", "-o", "b", "--step", "rename:to={nme}"), "{nme} is unknown"),
])
def test_what_newcomers_get_wrong(arguments: tuple[str, ...], words: str, tmp_path: Path,
                                  capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.0.et").write_bytes(file_of(*(Node(each, "é", 4) for each in range(300))))
    assert main(list(arguments)) == 1
    assert words in capfd.readouterr().err


@pytest.mark.parametrize("name", list(BESIDE))
def test_what_lies_beside_a_trace(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    names = {"prefix": "t", "good": "good", "beside": "beside"}
    words = {key: str(tmp_path / each) for key, each in names.items()}
    for prefix in ("t", "good"):
        (tmp_path / f"{prefix}.0.et").write_bytes(good())
    for path in ("t.groups.json", "good.conditions.json", "beside"):
        (tmp_path / path).write_bytes(BESIDE[name])
    (tmp_path / "t.conditions.json").write_text('{"tp": 1, "dp": 1, "pp": 1}')
    for verb, arguments in BESIDES.items():
        attempt(verb, arguments, words, tmp_path, capfd, name)
