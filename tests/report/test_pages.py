"""HTML pages of `run` and `validate`: sound, with the result's own figures, hostile names escaped, same bytes twice."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.commands import PlugIn, Run

import astrarium as ar
from astrarium.cli import main
from astrarium.report.pages.html import note, page
from astrarium.report.pages.page import Page, ShownRun
from astrarium.report.pages.run import kernel_part, run_page
from astrarium.report.plot.plots.roofline import kernel_sums
from astrarium.units import format_time

EMPTY = {"meta", "br", "wbr", "rect", "path", "circle", "polyline"}
ROW = ("source,case,gpu,n_gpus,model,params_B,layers,hidden,heads,kv_heads,ffn,vocab,seq,tp,pp,dp,cp,ep,vp,mbs,gbs,"
       "recompute,precision,zero,step_s,model_tflops_gpu,tok_s_gpu,mem_GiB,note,mark")


class _Page(HTMLParser):
    """Fails where tags do not match."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert tag in EMPTY or self.open.pop() == tag


def checked(text: str) -> _Page:
    found = _Page()
    found.feed(text)
    assert found.open == []
    assert "://" not in text.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"""\b(src|href)=["'](?!#|data:)""", text)
    return found


def training(pp: int = 2, batch: int = 8) -> ar.Design:
    model = ar.Transformer(model="llama3-8b", tp=4, pp=pp, dp=1, micro_batch=1, seq=2048, global_batch=batch)
    dims = [ar.Switch(4 * pp, bandwidth="450 GB/s", latency="1 us")]
    return ar.Design(workload=model, compute=ar.Roofline(peak="989 TFLOP/s"), network=ar.Network(dims),
                     memory=ar.Memory(capacity="80 GiB", bandwidth="3.35 TB/s"))


def shown(design: ar.Design, title: str) -> ShownRun:
    return ShownRun(design, ar.simulate(design), title)


def test_the_page_of_a_run() -> None:
    found = shown(training(), "<b>&mine")
    text = run_page(found)
    checked(text)
    assert "<b>&mine" not in text
    assert "&lt;b&gt;&amp;mine" in text
    assert format_time(found.result.makespan) in text
    for words in ("Pipeline", "Parts of the time", "Memory over time", "Roofline", "Critical path",
                  "<dd>llama3-8b</dd>", "<dd>tp 4, pp 2, mb 1</dd>"):
        assert words in text
    assert text == run_page(shown(training(), "<b>&mine"))


def test_kernels_reach_what_a_roofline_allows() -> None:
    """The roofline's own model lies on the lines, kernel by kernel; sums are those of all compute nodes."""
    design = training()
    result = ar.simulate(design)
    sums = kernel_sums(result)
    assert {"gemm bf16", "attention bf16", "optimizer fp32"} <= {each.name for each in sums}
    rows = [int(row) for row in dict.fromkeys(result.outcome.row.tolist())]
    assert sum(each.time for each in sums) == pytest.approx(sum(int(result.ranks.compute[row]) for row in rows) / 1000)
    for each in sums:
        assert each.flops / each.time <= 989_000 * 1.0001
        assert each.bytes / each.time <= 3350 * 1.0001
    text = "".join(kernel_part(result))
    assert text.count("<tr>") == 1 + len(sums)


def test_a_run_without_stages() -> None:
    network = ar.Network([ar.Switch(4, bandwidth="50 GB/s", latency="1 us")])
    design = ar.Design(workload=ar.SingleCollective("all_reduce", "1 MB"), network=network)
    text = run_page(shown(design, "one"))
    checked(text)
    assert "Pipeline" not in text
    assert "4 ranks" in text
    assert "collective all_reduce 1 MB" in text


def test_cli_writes_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = tmp_path / "run.html"
    design = tmp_path / "d.yaml"
    ar.dump_design(training(), design)
    assert main(["run", str(design), "--html", str(shown), "--json"]) == 0
    assert capsys.readouterr().out.startswith("{")
    checked(shown.read_text())
    assert main(["run", str(design), "--html", str(tmp_path / "no" / "run.html")]) == 1
    assert "no folder" in capsys.readouterr().err
    rows = tmp_path / "rows.csv"
    rows.write_text(ROW + "\n<i>Megatron</i>,a,A100-80G Selene,32,GPT,1.7,24,2304,24,24,9216,51200,2048,1,1,32,1,1,,,"
                    "512,full,fp16,0,3.53,137,,,,\n")
    assert main(["validate", str(rows), "--html", str(shown)]) == 0
    text = shown.read_text()
    checked(text)
    assert "<i>Megatron" not in text
    assert "&lt;i&gt;Megatron" in text


def _ends(found: ShownRun) -> str:
    return page(found.title, f"{len(found.result.outcome.row)} ranks", [note(f"ends at {found.result.makespan}")])


ENDS = Page("run", _ends)
RAISES, NUMBER = Page("run", lambda found: found.nothing), Page("run", lambda found: 7)     # type: ignore[arg-type,return-value]


def test_a_plug_in(plug_in: PlugIn, run: Run, tmp_path: Path) -> None:
    plug_in({"page.ends": f"{__name__}:ENDS"})
    assert "ends" in run("list", "page").out
    design, shown = tmp_path / "d.yaml", tmp_path / "run.html"
    ar.dump_design(training(), design)
    said = run("run", design, "--html", shown, "--page", "ends")
    assert (said.code, str(ar.simulate(training()).makespan) in shown.read_text()) == (0, True)
    checked(shown.read_text())
    for name, message in (("plan", "--page plan: shows what plan finds; expected a page of run"),
                          ("endss", "'endss' is not known; expected one of run")):
        said = run("run", design, "--html", shown, "--page", name)
        assert (said.code, message in said.err) == (1, True), said.err
    assert "--page: has no effect here; expected --html FILE" in run("run", design, "--page", "ends").err
    plug_in({"page.raises": f"{__name__}:RAISES", "page.number": f"{__name__}:NUMBER"})
    for name, message in (("raises", "raised AttributeError: "), ("number", "gave an object of int, not a text")):
        said = run("run", design, "--html", shown, "--page", name)
        assert (said.code, f"page plug-in {name}: {message}" in said.err) == (1, True), said.err


def test_the_page_of_a_run_on_a_fabric_shows_it() -> None:
    numbers = {"bandwidth": "50 GB/s", "latency": "500 ns"}
    clos = ar.blueprint("clos", hosts=4, ports=4, links={"access": numbers, "spine": numbers})
    design = ar.Design(workload=ar.SingleCollective("all_reduce", "1 MB"),
                       network=ar.Network(fabric=clos, backend="packets"))
    text = run_page(shown(design, "on a fabric")).partition("<main")[2]
    assert text.index("The fabric") < text.index("access") < text.index("Longest queues")


def test_the_page_of_a_trace_draws_its_graph(run: Run, tmp_path: Path) -> None:
    from astrarium.trace import TraceBuilder

    small, large = TraceBuilder(), TraceBuilder()
    last = small.comp("forward", 50, num_ops=10**6, tensor_size=10**3)
    small.comp("<update>", 3, after=[last])
    for place in range(90):
        large.comp(f"layer.{place % 45}.mm", 5 + place, num_ops=1, tensor_size=1)
    for name, trace, words in (("s", small, "1 &lt;update&gt;"), ("l", large, "in place of 90 nodes")):
        trace.write(tmp_path / f"{name}.0.et")
        shown = tmp_path / f"{name}.html"
        assert run("trace", "show", tmp_path / f"{name}.0.et", "--html", shown).code == 0
        text = shown.read_text()
        checked(text)
        assert "What waits for what" in text
        assert words in text
