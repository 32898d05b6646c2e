"""Plug-ins that break the contract: a clean error that names them, in both engines; and the exam sees them too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from astrarium.engine import HAVE_CORE, execute
from astrarium.engine.plan import Backend
from astrarium.engine.plugins import DelayNetwork, EventQueue, Mailbox, Plugins
from astrarium.engine.plugins.exams import ExamError, exam_network
from astrarium.errors import PluginError, StallError

from .common import mixed_plan, pair_plan

ENGINES = [pytest.param(False, marks=pytest.mark.skipif(not HAVE_CORE, reason="no compiled core here"), id="core"),
           pytest.param(True, id="pure")]


class Net:
    """A sound network of 1,000 ps, to be broken by replacing parts."""

    def __init__(self, **broken: Callable[..., Any]) -> None:
        self.events, self.mail = EventQueue(), Mailbox()
        for name, part in broken.items():
            setattr(self, name, lambda *args, part=part: part(self, *args))

    def sim_send(self, size: int, src: int, dst: int, callback: Callable[[], None], tag: int = 0) -> None:
        def arrive() -> None:
            callback()
            self.mail.delivered((src, dst, tag, size))

        self.events.schedule(1000, arrive)

    def sim_recv(self, size: int, src: int, dst: int, callback: Callable[[], None], tag: int = 0) -> None:
        self.mail.wanted((src, dst, tag, size), callback)

    def sim_schedule(self, delta: int, callback: Callable[[], None]) -> None:
        self.events.schedule(delta, callback)

    def sim_get_time(self) -> int:
        return self.events.now

    def next_event_time(self) -> int:
        return self.events.next_time()

    def advance(self, to: int) -> None:
        self.events.advance(to)


def raising(net: Net, *_: Any) -> None:
    raise KeyError("no such link")


def raising_later(net: Net, size: int, src: int, dst: int, callback: Any, tag: int) -> None:
    net.events.schedule(5, lambda: raising(net))


def twice(net: Net, size: int, src: int, dst: int, callback: Any, tag: int) -> None:
    net.events.schedule(5, callback)
    net.events.schedule(6, callback)


def twice_swallowed(net: Net, size: int, src: int, dst: int, callback: Any, tag: int) -> None:
    def both() -> None:
        callback()
        try:
            callback()
        except Exception:  # a plug-in may do this
            return

    net.events.schedule(5, both)


def past(net: Net) -> int:
    return max(0, net.events.now - 500) if net.events.now else net.events.next_time()


def stuck(net: Net, to: int) -> None:
    net.events.advance(to - 1 if to > 500 else to)


BROKEN = [
    ("raises in sim_send", {"sim_send": raising}, "raised KeyError: 'no such link'"),
    ("raises in an event", {"sim_send": raising_later}, "raised KeyError: 'no such link'"),
    ("raises in sim_recv", {"sim_recv": raising}, "raised KeyError"),
    ("raises in advance", {"advance": raising}, "raised KeyError"),
    ("calls back twice", {"sim_send": twice}, "called it twice"),
    ("swallows the refusal", {"sim_send": twice_swallowed}, "called it twice"),
    ("runs backwards", {"next_event_time": past}, "next_event_time\\(\\) says"),
    ("does not advance", {"advance": stuck}, "after advance\\(1000\\)"),
    ("late from the start", {"sim_get_time": lambda net: net.events.now + 3},
     "its clock stands at 3 ps before the run"),
    ("schedules backwards", {"sim_send": lambda net, *_: net.events.schedule(-1, lambda: None)}, "raised InputError"),
]


@pytest.mark.parametrize("pure", ENGINES)
@pytest.mark.parametrize(("parts", "words"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_a_broken_network_is_named(parts: dict[str, Any], words: str, pure: bool) -> None:
    with pytest.raises(PluginError, match=f"network plug-in Net: .*{words}") as caught:
        execute(pair_plan(), plugins=Plugins(network=lambda _: Net(**parts)), pure=pure)
    assert caught.value.exit_code == 1
    if "KeyError" in words:
        assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("pure", ENGINES)
@pytest.mark.parametrize("value", [1.5, "soon", None, 2**70])
def test_times_are_whole_numbers(value: object, pure: bool) -> None:
    with pytest.raises(PluginError, match="next_event_time"):
        execute(pair_plan(), plugins=Plugins(network=lambda _: Net(next_event_time=lambda net: value)), pure=pure)


@pytest.mark.parametrize("pure", ENGINES)
def test_messages_that_are_never_delivered_are_a_stall(pure: bool) -> None:
    lossy = Plugins(network=lambda _: Net(sim_send=lambda *_: None))
    with pytest.raises(StallError) as caught:
        execute(pair_plan(size=64, tag=5), plugins=lossy, pure=pure)
    text = "\n".join(wait.text for wait in caught.value.waits)
    assert "network plug-in Net: the callback of sim_send never came (64 bytes from NPU 0 to 1, tag 5)" in text
    assert "the callback of sim_recv never came (64 bytes from NPU 0 to 1, tag 5)" in text
    assert "rank 0: " in text
    with pytest.raises(StallError, match="of a collective"):
        execute(mixed_plan(), plugins=lossy, pure=pure)


@pytest.mark.parametrize("pure", ENGINES)
def test_a_clock_that_only_ticks_is_a_stall(pure: bool) -> None:
    def tick(net: Net, *_: Any) -> None:
        net.events.schedule(1, lambda: tick(net))

    with pytest.raises(StallError, match="its clock moved 501 times"):
        execute(pair_plan(), plugins=Plugins(network=lambda _: Net(sim_send=tick), patience=500), pure=pure)


def test_a_clock_that_ticks_after_the_run_does_not_keep_it_alive() -> None:
    def beat(net: Net) -> None:
        net.events.schedule(1000, lambda: beat(net))

    def make(_: object) -> Net:
        net = Net()
        beat(net)
        return net

    assert execute(pair_plan(), plugins=Plugins(network=make)).makespan == 1000


@pytest.mark.parametrize("pure", ENGINES)
def test_a_callback_that_outlives_the_run_is_refused(pure: bool) -> None:
    kept: list[Callable[[], None]] = []

    def keep(net: Net, size: int, src: int, dst: int, callback: Any, tag: int) -> None:
        kept.append(callback)
        Net.sim_send(net, size, src, dst, callback, tag)

    execute(pair_plan(), plugins=Plugins(network=lambda _: Net(sim_send=keep)), pure=pure)
    with pytest.raises(Exception, match="callback"):
        kept[0]()


@pytest.mark.parametrize("pure", ENGINES)
def test_ctrl_c_stays_ctrl_c(pure: bool) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(pair_plan(), plugins=Plugins(network=lambda _: Net(sim_send=interrupt)), pure=pure)


def test_a_plug_in_that_cannot_be_made_is_named() -> None:
    def bad(_: object) -> Net:
        raise ValueError("no licence")

    with pytest.raises(PluginError, match=r"network plug-in .*bad: raised ValueError: no licence"):
        execute(pair_plan(), plugins=Plugins(network=bad))


class Halfway:
    """Has a part of each protocol."""

    def sim_send(self, *message: object) -> None:
        """Nothing."""


@pytest.mark.parametrize(("plugins", "words"), [
    (Plugins(network=lambda _: None), "network plug-in .*: gave None, which has no method sim_send"),  # type: ignore[arg-type, return-value]
    (Plugins(network=lambda _: Halfway()), "gave an object of Halfway, which has no method sim_recv"),  # type: ignore[arg-type, return-value]
    (Plugins(memory=Halfway), "memory plug-in Halfway: gave .*, which has no method access_time"),  # type: ignore[arg-type, return-value]
    (Plugins(scheduling=lambda: None), "scheduling plug-in .*: gave None, which has no method pick"),  # type: ignore[arg-type, return-value]
    (Plugins(scheduling=Halfway), "gave an object of Halfway, which has no method pick"),  # type: ignore[arg-type, return-value]
])
@pytest.mark.parametrize("pure", ENGINES)
def test_a_factory_that_gives_something_else(plugins: Plugins, words: str, pure: bool) -> None:
    """None was a crash of the process, or the engine's own in silence."""
    plan = pair_plan()
    with pytest.raises(PluginError, match=words):
        execute(replace(plan, network=replace(plan.network, backend=Backend.PORTS)), plugins=plugins, pure=pure)


def ignores_tags(net: Net, size: int, src: int, dst: int, callback: Any, tag: int) -> None:
    net.mail.wanted((src, dst, 7, size), callback)


def loses_some(net: Net, size: int, src: int, dst: int, callback: Any, tag: int) -> None:
    if size != 4096:
        Net.sim_send(net, size, src, dst, callback, tag)


def receives_at_once(net: Net, size: int, src: int, dst: int, callback: Any, tag: int) -> None:
    callback()


FAILS = [
    ({"sim_send": twice}, "sim_send was called 2 times"),
    ({"sim_recv": ignores_tags}, "took a message of another tag|called 0 times"),
    ({"sim_send": loses_some}, "never called back"),
    ({"sim_recv": receives_at_once}, "receive|received"),
    ({"advance": stuck}, "after advance"),
    ({"sim_get_time": lambda net: 0}, "sim_get_time\\(\\) is 0 after advance"),
    ({"sim_schedule": lambda net, delta, callback: net.events.schedule(abs(delta), callback)}, "not refused"),
    ({"next_event_time": lambda net: 1.5}, "not an int"),
]


@pytest.mark.parametrize(("parts", "words"), FAILS)
def test_the_exam_says_what_is_broken(parts: dict[str, Any], words: str) -> None:
    exam_network(Net)
    with pytest.raises(ExamError, match=words):
        exam_network(lambda: Net(**parts))


def test_the_exam_sees_chance_and_haste() -> None:
    import itertools

    count = itertools.count()
    with pytest.raises(ExamError, match="answer at different times"):
        exam_network(lambda: DelayNetwork(lambda size, src, dst, now: 100 + next(count)))
    with pytest.raises(ExamError, match="before 1001 ps"):
        exam_network(Net, latency=1001)
