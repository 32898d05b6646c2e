"""MSCCL programs as kernels: proved before they run; what is wrong is named by rank, thread block and step."""

from __future__ import annotations

import re
import resource
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.draws import draws
from tests.gpu.test_kernels import GPU

from astrarium.errors import InputError, UnsupportedError
from astrarium.gpu import Kernels, kernel_algo, msccl_launch
from astrarium.gpu.engine import Launch, OpKind, run_launch
from astrarium.gpu.msccl.text import algo_xml
from astrarium.gpu.msccl.xml import Algo, Block, Gpu, Step, parse_msccl
from astrarium.vocab import CommOp

ALL = """<algo name="a" coll="allreduce" ngpus="2" nchannels="1" nchunksperloop="2" inplace="1" proto="{proto}">
{gpus}</algo>"""
ONE = """<gpu id="{g}" i_chunks="2" o_chunks="0" s_chunks="1">
<tb id="0" send="{p}" recv="{p}" chan="0">
<step s="0" type="s" srcbuf="i" srcoff="{p}" dstbuf="i" dstoff="{p}" cnt="1" depid="-1" deps="-1" hasdep="0"/>
<step s="1" type="{add}" srcbuf="i" srcoff="{g}" dstbuf="i" dstoff="{g}" cnt="1" depid="-1" deps="-1" hasdep="1"/>
{sends}</tb>
<tb id="1" send="-1" recv="{p}" chan="1">
<step s="0" type="r" srcbuf="i" srcoff="{p}" dstbuf="s" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
<step s="1" type="nop" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1" cnt="0" depid="0" deps="0" hasdep="0"/>
<step s="2" type="cpy" srcbuf="s" srcoff="0" dstbuf="o" dstoff="{p}" cnt="1" depid="0" deps="1" hasdep="0"/>
</tb>
<tb id="2" send="{p}" recv="-1" chan="1">
<step s="0" type="s" srcbuf="i" srcoff="{g}" dstbuf="s" dstoff="0" cnt="1" depid="0" deps="1" hasdep="0"/>
</tb></gpu>
"""


def program(proto: str = "Simple") -> str:
    """all_reduce of two GPUs, in place, through scratch, with steps that wait for others."""
    return ALL.format(proto=proto, gpus="".join(ONE.format(g=g, p=1 - g, add="rrc", sends="") for g in range(2)))


def launched(text: str, payload: int = 4000) -> Launch:
    return msccl_launch(parse_msccl(text.encode(), path="a.xml"), payload, GPU, wavefronts=2, path="a.xml")


@pytest.mark.parametrize("proto", ["Simple", "LL"])
@pytest.mark.parametrize("payload", [100, 40_000])
def test_programs_are_proved_and_run(proto: str, payload: int) -> None:
    launch = launched(program(proto), payload)
    ran = run_launch(launch)
    chunk = -(-payload // 256)
    assert ran.port_packets[:, :, 0].sum() == 2 * 2 * chunk * (2 if proto == "LL" else 1)
    assert ran.makespan > 2 * 500_000       # two messages, one after the other


def test_sums_in_a_row_are_one() -> None:
    """Three GPUs send everything to everyone's scratch; two sums into one place load each operand once."""
    gpus = []
    for g in range(3):
        exchange = [Block(d - 1, (g + d) % 3, (g - d) % 3, 0, (
            Step("s", ("i", 0), ("s", 0), 1, None, 0), Step("r", ("s", d - 1), ("s", d - 1), 1, None, 0)), 0)
            for d in (1, 2)]
        add = (Step("nop", ("i", -1), ("o", -1), 0, (0, 1), 0), Step("re", ("s", 0), ("i", 0), 1, (1, 1), 0),
               Step("re", ("s", 1), ("i", 0), 1, None, 0))
        gpus.append(Gpu(g, {"i": 1, "o": 0, "s": 2}, (*exchange, Block(2, -1, -1, 1, add, 0))))
    text = algo_xml(Algo("a", "allreduce", 1, True, tuple(gpus)))
    launch = msccl_launch(parse_msccl(text), 4000, GPU)
    sums = [op for op in launch.grids[0][2].operations if op.kind == OpKind.REDUCE]
    assert [len(op.sources) for op in sums] == [3]
    apart = text.replace(b'srcoff="1" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1"',
                         b'srcoff="1" dstbuf="i" dstoff="0" cnt="1" depid="1" deps="1"')
    two = msccl_launch(parse_msccl(apart), 4000, GPU)           # the second one waits for something itself
    assert [len(op.sources) for op in two.grids[0][2].operations if op.kind == OpKind.REDUCE] == [2, 2]
    assert run_launch(launch).makespan < run_launch(two).makespan


def edit(old: str, new: str, count: int = 1) -> Callable[[str], str]:
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new, count)

    return change


FIRST = '<step s="0" type="s" srcbuf="i" srcoff="1"'
FAULTS: dict[str, tuple[Callable[[str], str], str]] = {
    "an unknown type": (edit('type="rrc"', 'type="rcc"'), r"a.xml:5: step type 'rcc'; expected .*did you mean"),
    "a chunk out of range": (edit('dstbuf="i" dstoff="0"', 'dstbuf="i" dstoff="2"'),
                             r"a.xml:5: rank 0, threadblock 0, step 1 \(rrc\): chunks 2 to 3 of buffer 'i'; expected "
                             "at least one, up to 2"),
    "scratch out of range": (edit('dstbuf="s" dstoff="0"', 'dstbuf="s" dstoff="1"'),
                             r"rank 0, threadblock 1, step 0 \(r\): chunks 1 to 2 of buffer 's'; .*up to 1"),
    "no chunk": (edit('cnt="1"', 'cnt="0"'), r"rank 0, threadblock 0, step 0 \(s\): chunks 1 to 1"),
    "no such peer": (edit('send="1" recv="1"', 'send="2" recv="1"'), "rank 0, threadblock 0: peer 2; expected another"),
    "itself": (edit('send="1" recv="1"', 'send="0" recv="1"'), "rank 0, threadblock 0: peer 0; expected another"),
    "a send too many": (edit("</tb>", FIRST.replace('s="0"', 's="2"', 1) + ' cnt="1"/></tb>'),
                        r"rank 0, threadblock 0, step 2 \(s\): GPU 0 sends 2 messages to GPU 1 on channel 0, which "
                        "receives 1"),
    "nobody sends": (lambda text: re.sub(r'<tb id="2" send="1".*?</tb>', "", text, count=1, flags=re.S),
                     r"rank 1, threadblock 1, step 0 \(r\): GPU 0 sends 0 messages to GPU 1 on channel 1, which "
                     "receives 1"),
    "nobody receives": (edit('type="r"', 'type="nop"'),
                        r"rank 1, threadblock 2, step 0 \(s\): GPU 1 sends 1 messages to GPU 0 on channel 1, which "
                        "receives 0"),
    "a circle": (lambda text: text.replace('cnt="1" depid="-1" deps="-1" hasdep="1"', 'cnt="1" depid="1" deps="2" '
                                           'hasdep="1"'), "deadlock: step . of thread block . of GPU"),
    "an unknown dependency": (edit('depid="0" deps="1"', 'depid="7" deps="1"'),
                              r"rank 0, threadblock 1, step 2 \(cpy\): depends on step 1 of thread block 7"),
    "unordered": (edit('depid="0" deps="1" hasdep="0"/>\n</tb></gpu>', 'depid="-1" deps="-1"/>\n</tb></gpu>'),
                  r"rank 0, threadblock ., step . \(.*\): nothing orders this step and the one on line"),
    "a wrong result": (edit('type="rrc"', 'type="r"'), "all_reduce: GPU 0's output chunk 0 lacks"),
}


@pytest.mark.parametrize("what", FAULTS)
def test_faults_are_named_before_anything_runs(what: str) -> None:
    change, words = FAULTS[what]
    with pytest.raises(InputError, match=words):
        launched(change(program()))


@pytest.mark.parametrize(("change", "words"), [
    (edit('proto="Simple"', 'proto="LL128"'), "proto='LL128'; expected Simple or LL"),
    (edit('coll="allreduce"', 'coll="broadcast"'), "no proof for broadcast"),
])
def test_what_is_beyond_the_model_is_refused(change: Callable[[str], str], words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        launched(change(program()))


def test_an_xml_bomb_is_refused_at_its_first_line() -> None:
    bomb = '<!DOCTYPE a [<!ENTITY a "ha">' + "".join(
        f'<!ENTITY {chr(98 + i)} "{("&" + chr(97 + i) + ";") * 10}">' for i in range(9)) + "]><algo>&j;</algo>"
    with pytest.raises(InputError, match=r"a.xml:1: a document type or entity declaration; expected plain elements"):
        launched(bomb)
    with pytest.raises(InputError, match="document type"):
        launched('<!DOCTYPE a SYSTEM "file:///etc/passwd"><algo/>')


@pytest.mark.parametrize("text", ["<algo>" * 5000, '<algo><gpu id="0">' + "<tb>" * 9000,
                                  '<algo ngpus="' + "9" * 200_000 + '"/>', "<algo " + 'a="b" ' * 9, "\x00", ""])
def test_deep_and_long_files_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        launched(text)


@pytest.mark.parametrize(("old", "new"), [
    ('nchunksperloop="2"', 'nchunksperloop="2147483646"'), ('s_chunks="1"', 's_chunks="2147483647"'),
    ('ngpus="2"', 'ngpus="2147483647"'), ('cnt="1"', 'cnt="2147483647"')])
def test_huge_numbers_cost_no_memory(old: str, new: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError):
        launched(program().replace(old, new), 1 << 50)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


MADE = (CommOp.ALL_REDUCE, "ring"), (CommOp.ALL_TO_ALL, "all_pairs"), (CommOp.REDUCE_SCATTER, "all_pairs")
SEEDS = [program(), program("LL"),
         *(algo_xml(kernel_algo(op, 3, Kernels(name, workgroups=2))).decode() for op, name in MADE)]
WORDS = ["-1", "0", "1", "2", "3", "99", "2147483647", "1e9", "", "s", "r", "rrc", "rrcs", "re", "cpy", "nop", "i", "o",
         "<", "&x;"]


@given(st.sampled_from(SEEDS), st.integers(0, 10_000), st.sampled_from(WORDS))
@draws(60)
def test_damaged_programs_are_refused_or_run(text: str, where: int, what: str) -> None:
    """Whatever stands as any attribute: an error of ours, or a launch that is proved and ends."""
    spots = list(re.finditer(r'"[^"]*"', text))
    spot = spots[where % len(spots)]
    damaged = f'{text[:spot.start()]}"{what}"{text[spot.end():]}'
    try:
        launch = launched(damaged, 400)
    except InputError:
        return
    assert run_launch(launch).makespan > 0


@given(st.sampled_from(SEEDS), st.integers(0, 10_000), st.booleans())
@draws(40)
def test_programs_with_a_step_less_or_more_are_refused_or_run(text: str, where: int, twice: bool) -> None:
    lines = text.splitlines(keepends=True)
    at = where % len(lines)
    lines[at:at + 1] = [lines[at]] * 2 if twice else []
    try:
        launch = launched("".join(lines), 400)
    except InputError:
        return
    assert run_launch(launch).makespan > 0
