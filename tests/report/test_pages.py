"""HTML pages of `run` and `validate`: sound, with the result's own figures, hostile names escaped, same bytes twice."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.commands import PlugIn, Run

import astrarium as ar
from astrarium.cli import main
from astrarium.planner.timeline import units_of
from astrarium.report.pages import stages as stages_html
from astrarium.report.pages.html import bar, note, page, table
from astrarium.report.pages.page import Page, ShownRun
from astrarium.report.pages.roofline import kernel_sums, roofline_part
from astrarium.report.pages.run import run_page
from astrarium.report.svg.charts import against, over_time
from astrarium.units import format_time

EMPTY = {"meta", "br", "rect", "path", "circle", "polyline"}
ROW = ("source,case,gpu,n_gpus,model,params_B,layers,hidden,heads,kv_heads,ffn,vocab,seq,tp,pp,dp,cp,ep,vp,mbs,gbs,"
       "recompute,precision,zero,step_s,model_tflops_gpu,tok_s_gpu,mem_GiB,note,mark")


class _Page(HTMLParser):
    """Fails where tags do not match; collects charts and widths of bars."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.widths: list[float] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in EMPTY:
            self.open.append(tag)
        style = dict(attrs).get("style") or ""
        if tag == "i" and style.startswith("width:"):
            self.widths.append(float(style[6:].split("%")[0]))

    def handle_endtag(self, tag: str) -> None:
        assert tag in EMPTY or self.open.pop() == tag


def checked(text: str) -> _Page:
    found = _Page()
    found.feed(text)
    assert found.open == []
    assert "://" not in text
    assert not re.search(r"""\b(src|href)=["'](?!#|data:)""", text)
    assert all(0 <= width <= 100.001 for width in found.widths)
    return found


def training(pp: int = 2, batch: int = 8) -> ar.Design:
    model = ar.Transformer(model="llama3-8b", tp=4, pp=pp, dp=1, micro_batch=1, seq=2048, global_batch=batch)
    dims = [ar.Switch(4 * pp, bandwidth="450 GB/s", latency="1 us")]
    return ar.Design(workload=model, compute=ar.Roofline(peak="989 TFLOP/s"), network=ar.Network(dims),
                     memory=ar.Memory(capacity="80 GiB", bandwidth="3.35 TB/s"))


def test_the_page_of_a_run() -> None:
    design = training()
    result = ar.simulate(design)
    text = run_page(design, result, "<b>&mine</b>")
    found = checked(text)
    assert "<b>&mine" not in text
    assert "&lt;b&gt;&amp;mine" in text
    assert format_time(result.makespan) in text
    assert text.count('aria-label="stage') == 2
    assert text.count('fill="#4477aa" stroke="#fff"') == 2 * 8      # eight forward passes a stage
    assert "over time" in text
    assert "capacity" in text
    rows = sorted(set(result.outcome.row.tolist()))
    share = 100 * int(result.ranks.compute[rows[0]]) / result.makespan_ps
    assert any(abs(width - share) < 1e-3 for width in found.widths)
    assert text == run_page(design, ar.simulate(design), "<b>&mine</b>")


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
    text = "".join(roofline_part(design, result))
    assert text.count("<circle") == len([each for each in sums if each.flops > 0 and each.bytes > 0])


def test_a_run_without_stages() -> None:
    network = ar.Network([ar.Switch(4, bandwidth="50 GB/s", latency="1 us")])
    design = ar.Design(workload=ar.SingleCollective("all_reduce", "1 MB"), network=network)
    text = run_page(design, ar.simulate(design), "one")
    checked(text)
    assert "Pipeline" not in text
    assert "4 ranks" in text


def test_many_passes_are_drawn_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen passes and the optimizer's on five boxes, each way as wide as its time."""
    monkeypatch.setattr(stages_html, "DRAWN", 5)
    design = training()
    result = ar.simulate(design)
    text = run_page(design, result, "many")
    checked(text)
    assert "neighbours are drawn together" in text
    assert text.count('height="18"') <= 2 * 3 * 5
    assert isinstance(design.workload, ar.Transformer)
    stage = units_of(result, design.workload)[0]
    time = sum(unit.end - unit.start for unit in stage if unit.way == "forward")
    drawn = text[text.index('aria-label="stage 0"'):text.index('aria-label="stage 1"')]
    wide = re.findall(r'fill="#4477aa" stroke="#fff" stroke-width="0.4" width="([0-9.]+)"', drawn)
    assert sum(map(float, wide)) == pytest.approx(1e6 * time / result.makespan_ps, abs=0.05)


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


def test_charts_are_sound_and_stay_inside() -> None:
    for chart in (against([("a<b", [(1.0, 1.1), (1.0, 0.9)]), ("c", [(5.0, 50.0)])], "x", "y & z", 0.1),
                  over_time([("rank 0", [5.0, 6.0, 70.0], [0.0, 3.0, 1.0])], "ms", "GiB", {"capacity": 80.0})):
        root = ET.fromstring(chart)
        for each in root.iter("circle"):
            assert 80 <= float(each.attrib["cx"]) <= 500
            assert 14 <= float(each.attrib["cy"]) <= 276


def test_parts_are_shares_and_text_is_escaped() -> None:
    text = bar("<x>", "&", {"a": 1.0, "b": 3.0, "none": 0.0}, 4.0, {"a": "#111", "b": "#222"}, mark=2.0)
    assert [piece in text for piece in ("width:25.000%", "width:75.000%", "left:50.000%", "&lt;x&gt;")] == [True] * 4
    assert "<td>" not in table(("<h>",), [("<c>",)], "<")
    assert page("t", "l", ["<p>x</p>"]).count("<p>x</p>") == 1


def test_the_page_of_a_run_on_a_fabric_shows_it() -> None:
    numbers = {"bandwidth": "50 GB/s", "latency": "500 ns"}
    clos = ar.blueprint("clos", hosts=4, ports=4, links={"access": numbers, "spine": numbers})
    design = ar.Design(workload=ar.SingleCollective("all_reduce", "1 MB"),
                       network=ar.Network(fabric=clos, backend="packets"))
    text = run_page(design, ar.simulate(design), "on a fabric").partition("<main")[2]
    assert text.index("The fabric") < text.index("access 50 GB/s") < text.index("longest queues")
