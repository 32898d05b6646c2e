"""Every flag of every verb, in every mode of it: it takes effect or is refused, never accepted and ignored."""

from __future__ import annotations

import importlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.commands import Run, Said
from tests.newcomer.every_input import write_inputs

from astrarium.cli.arguments import Parser
from astrarium.cli.dispatch import CATALOGED, VERBS, catalog_flag
from astrarium.cli.trace import SUB_VERBS

MODES = {
    "check design": "check design.yaml", "check traces": "check et/w", "check program": "check p.xml",
    "run": "run one.yaml", "run traces": "run design.yaml", "run trace alone": "run --trace et/w.*.et",
    "run overlap": "run overlap.yaml", "run jobs": "run jobs.yaml", "run several": "run one.yaml other.yaml",
    "serve": "serve serving.yaml",
    "serve find": "serve serving.yaml --find rate --slo tpot_p99=1s",
    "search": "search space.yaml --trials 4", "search count": "search space.yaml --count",
    "search again": "search s.zip",
    "report": "report s.study", "report two": "report s.study t.study", "report csv": "report s.study --csv -",
    "report export": "report s.study --trajectory t.jsonl",
    "plan": "plan gpt2-small --device h100_sxm --gpus 2 --global-batch 8 --top 2",
    "plan from": "plan --from launch.sh --device h100_sxm --top 2",
    "plan serving": "plan gpt2-small --for serving --device h100_sxm --gpus 1 --prompt 20 --output 2 --ttft 1ms"
                    " --tpot 1ms --compute roofline --collectives simulated --stack none --fix weights=fp8",
    "validate": "validate rows.csv",
    "calibrate": "calibrate t.csv --base h100_sxm", "calibrate sheet":
        "calibrate t.csv --peak 100TFLOP/s --bandwidth 1TB/s --units 10",
    "calibrate fabric": "calibrate all_reduce_perf.log --fabric mine --link-bandwidth 450GB/s",
    "explain": "explain one.yaml other.yaml", "explain compat": "explain one.yaml --compat",
    "explain trace": "explain design.yaml --trace et/w.*.et --rank 0",
    "show": "show one.yaml", "show workload": "show train.yaml --workload", "show trace": "show et/w",
    "show nodes": "show et/w --nodes", "show fabric": "show host.xml",
    "convert design": "convert --to design --workload-configuration et/w --system-configuration system.json"
                      " --network-configuration network.yml", "convert jsonl": "convert --to jsonl et/w.0.et",
    "convert et": "convert --to et w.jsonl -o new.et",
    "list": "list", "list kind": "list shape",
    "trace link": "trace link host.json device.json -o linked", "trace write": "trace write train.yaml -o made",
    "trace convert": "trace convert text.txt --npus 8 -o made",
    "trace transform": "trace transform et/w et/w -o made",
    "trace collective": "trace collective ring --op all_reduce --npus 4 --size 1MB -o made",
    "trace collective xml": "trace collective ring --op all_reduce --npus 4 -o made.xml",
    "trace collective kernel": "trace collective kernel:all_pairs --op all_gather --npus 4 -o made.json",
    "trace anonymise": "trace anonymise et/w -o made --seed 1",
    "trace graph": "trace graph et/w.0.et -o made.svg", "trace show": "trace show et/w.0.et",
    "trace diff": "trace diff et/w.0.et et/w.1.et",
}

VALUES = {
    "--catalog": "mine.toml", "--plugin": "my_plugins.py",
    "--groups": "ranks.json", "--dependencies": "data", "--limit": "1", "--cap": "1", "--fidelity": "closed_form",
    "--trace": "et/w.*.et", "--rank": "1", "--fold": "off", "--timeline": "made.json", "--timeline-ranks": "0",
    "--parquet": "made.tables", "--html": "made.html", "--page": "run", "--plot": "breakdown=made.svg",
    "--figure": "bandwidth",
    "--minimize": "network_bandwidth",
    "--maximize": "network_bandwidth", "--require": "makespan <= 1", "--agent": "random", "--option": "batch=3",
    "--trials": "3", "--seed": "7", "--start": "one.yaml", "--jobs": "2", "--ray": "no-such-address",
    "--study": "made.study",
    "--best": "made.yaml", "--csv": "made.csv", "--trajectory": "made.jsonl", "--optuna": "sqlite:///made.db",
    "--certificate": "made.cert", "--bundle": "made.zip", "--design": "1", "--output": "3",
    "--traces": "2", "--most": "1",
    "--device": "a100_sxm_80gb", "--gpus": "4", "--objective": "cost", "--budget": "$1M", "--power": "1MW",
    "--cost": "pue=1.5", "--from": "launch.sh", "--launch": "megatron", "--seq": "512", "--global-batch": "16",
    "--precision": "fp16", "--fix": "tp=1", "--network": "dgx_h100_nvswitch", "--compute": "roofline",
    "--collectives": "simulated", "--stack": "none", "--top": "1", "--line": "2", "--out": "new",
    "--base": "a100_sxm_80gb", "--rows": "made.rows.csv", "--peak": "1TFLOP/s", "--bandwidth": "2TB/s",
    "--units": "20", "--fabric": "other", "--link-bandwidth": "400GB/s", "--inside": "dgx_h100_nvswitch",
    "--measure": "train.yaml", "--serving": "serving.yaml", "--orders": "3", "--steps": "2",
    "--names": "made.names.json", "--durations": "1",
    "--sizes": "1", "--npus": "16", "--passes": "2", "--inner": "4", "--unit": "ns", "--compute-scale": "2",
    "--comm-scale": "2", "--depth": "1", "--step": "scale-durations:by=2", "--merge": "time", "--op": "all_gather",
    "--size": "2MB", "--pipeline": "4", "--protocol": "ll", "--direction": "get", "--workgroups": "2",
    "--threads": "512", "--injection-scale": "2", "--num-queues-per-dim": "2", "--rendezvous-protocol": "true",
    "--backend": "congestion_aware", "--remote-memory-configuration": "memory.json",
    "--comm-group-configuration": "ranks.json", "--to": "et", "--workload-configuration": "et/v",
    "--system-configuration": "none.json", "--network-configuration": "none.yml", "--logging-configuration": "x",
    "--logging-folder": "x", "--set": "network.dims[0].bandwidth=100 GB/s",
    "--measured": "1s",
    "--for": "serving", "--rate": "2", "--requests": "serving.yaml", "--prompt": "30", "--ttft": "1s", "--tpot": "2ms",
    "--find": "rate", "--slo": "ttft_p99=2s",
    "--cache": "1 GB", "--lift": "zero", "--reserve": "2 GB", "--ignore": "lr",
}
OTHERS = {("check design", "--set"): "network.dims[0].npus=3",
          ("search count", "--set"): "network.dims[0].latency=-1 us",
          ("serve", "--plot"): "latency=made.svg", ("serve find", "--plot"): "queue=made.svg",
          ("search", "--plot"): "convergence=made.svg", ("report", "--plot"): "convergence=made.svg",
          ("calibrate", "--plot"): "calibrated_times=made.svg",
          ("calibrate sheet", "--plot"): "calibrated_times=made.svg",
          ("explain", "--plot"): "waterfall=made.svg", ("plan serving", "--plot"): "loads=made.svg",
          ("run overlap", "--set"): "payload=1 KiB", ("serve", "--set"): "requests.rate=1000",
          ("show fabric", "--set"): "inside=free", ("plan", "--set"): "precision.gradients=fp32",
          ("plan from", "--set"): "mask=full", ("show workload", "--set"): "workload.global_batch=8",
          ("search", "--page"): "report", ("serve", "--page"): "serve", ("serve find", "--page"): "serve",
          ("serve find", "--set"): "requests.rate=1000", ("plan serving", "--page"): "plan_serving",
          ("plan serving", "--launch"): "vllm",
          ("trace write", "--set"): "workload.global_batch=8", ("run traces", "--trace"): "et/w.0.et"}
"""(mode, flag) -> its value there, where that of VALUES would rightly change nothing."""
SAME = {
    "--jobs": "the same trials, files and layouts",
    "--processes": "the same trials",
    "--pure": "the same integers",
    "--fold": "the same integers",
    "--catalog": "rows that the command may name, or not",
    "--plugin": "things that the command may name, or not",
    "--copy": "files as they are",
    "--limit": "nothing is beyond it",
    "--most": "nothing is beyond it",
    "--cache": "the same trials",
    "--exact": "a plan so small is exact",
    "--link": "the default",
    "--symlink": "no two ranks have equal traces",
    "--remote-memory-configuration": "a file that says that there is none",
    "--dependencies": "nothing is wrong either way",
    "--seed": "nothing is drawn where few knobs differ",
    "--orders": "nothing is drawn where few knobs differ",
}
"""Flags that may leave the answer as it is, and why."""


def parser_of(mode: str, words: list[str]) -> Parser:
    """The parser of a command's verb, filled."""
    nested = words[0] == "trace"
    name, sentence = SUB_VERBS[words[1]] if nested else VERBS[words[0]]
    parser = Parser(prog=mode, description=sentence)
    importlib.import_module(f"astrarium.cli.{name}").arguments(parser)
    if words[0] in CATALOGED:
        catalog_flag(parser)
    return parser


def flags_of(mode: str) -> Iterator[tuple[str, list[str]]]:
    """(flag, what is typed) of every flag that the command of a mode does not have already."""
    words = MODES[mode].split()
    for action in parser_of(mode, words)._actions:
        flag = next((each for each in action.option_strings if each.startswith("--")), "")
        if not flag or flag == "--help" or not set(action.option_strings).isdisjoint(words):
            continue
        if action.nargs == 0:
            yield flag, [flag]
        else:
            yield flag, [flag, str(OTHERS.get((mode, flag), VALUES[flag]))]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("every")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_inputs(folder)
    return folder


def answer(said: Said, folder: Path, before: set[Path]) -> tuple[str, dict[str, bytes]]:
    """What was printed, without what a clock says, and the files that were made."""
    made = {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and path not in before}
    text = re.sub(r"[\d.,:]+ (m?s|trials/s|designs/s)\b|_s\": [\d.e-]+|\"seconds\": [\d.e-]+", "T", said.out + said.err)
    return text, made


DEAR = {"plan", "plan from", "plan serving", "report", "report csv", "report export", "search again", "run", "run jobs",
        "run several", "list", "check program", "explain", "explain compat", "trace convert", "trace anonymise",
        "trace collective kernel", "serve find"}
"""Modes that only the exam tries: a second of CPU and more, or like another."""


@pytest.mark.parametrize("mode", [pytest.param(mode, marks=[pytest.mark.exam] * (mode in DEAR)) for mode in MODES])
def test_every_flag_takes_effect_or_is_refused(mode: str, inputs: Path, run: Run, tmp_path: Path,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    answers, wrong = {}, []
    for flag, more in [("", []), *flags_of(mode)]:
        folder = tmp_path / (flag.strip("-") or "plain")
        shutil.copytree(inputs, folder)
        monkeypatch.chdir(folder)
        before = set(folder.rglob("*"))
        said = run(*MODES[mode].split(), *more)
        answers[flag] = answer(said, folder, before)
        assert said.code != 3, said.err
        if flag == "":
            assert said.code in (0, 1 if mode.startswith("search again") else 0), said.err
        elif said.code == 0 and answers[flag] == answers[""] and flag not in SAME:
            wrong.append(flag)
    assert not wrong
