"""Messages that share links (fluid): each leaves over its first link and crosses the links behind it, at max-min rates.

Progress is counted in parts of a byte (`UNIT` of them) and ps. Shares are rounded down, so no link carries more than
its bandwidth, and results do not depend on the order of arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct, field

from astrarium.engine.activities import UNIT
from astrarium.oracle.clock import NEVER

__all__ = ["Crossing", "Shares"]

Link = TypeVar("Link")

FEW, MOST_ASKED, PARTS_OF_A_MESSAGE = 32, 4, 16


class Crossing(Struct, Generic[Link], eq=False):
    """A message under way."""

    serial: int
    size: int
    way: tuple[Link, ...]
    left: Callable[[], None]
    crossed: Callable[[], None]
    to_leave: int           # parts, at `since`
    to_cross: int
    since: int
    leaving: bool = True
    crossing: bool = False
    leaves: int = 0         # rates
    crosses: int = 0


class _Share(Struct, Generic[Link]):
    """A link."""

    number: int
    capacity: int
    drawn: int = 0
    due: int = 0            # not shared again before
    touched: bool = False
    users: list[Crossing[Link]] = field(default_factory=list)


class Shares(Generic[Link]):
    """Times in ps. `spent(link, begin, end, rate)` hears what a message did on a link at one rate, in parts per ps."""

    def __init__(self, spent: Callable[[Link, int, int, int], None] | None = None) -> None:
        self.now, self._spent, self._serial = 0, spent, 0
        self._links: dict[Link, _Share[Link]] = {}
        self._under_way: dict[int, Crossing[Link]] = {}

    def set_parts(self, link: Link, parts: int) -> None:
        """Set what a link carries from now on, in parts per ps. 0: its messages stand still."""
        if link not in self._links:
            self._links[link] = _Share(len(self._links), parts)
            return
        share = self._links[link]
        share.capacity, share.due, share.touched = parts, self.now, bool(share.users)

    def drawn(self) -> set[Link]:
        """The links that messages use now."""
        return {link for link, share in self._links.items() if share.users}

    def idle(self) -> bool:
        """Whether nothing is under way."""
        return not self._under_way

    def leave(self, size: int, way: Sequence[Link], left: Callable[[], None],
              crossed: Callable[[], None]) -> Crossing[Link]:
        """Begin to leave over the first link of `way`. `left()` and, after `cross`, `crossed()` run when it has."""
        self._serial += 1
        made = Crossing(self._serial, size, tuple(way), left, crossed, size * UNIT, size * UNIT, self.now)
        self._under_way[self._serial] = made
        first = self._links[way[0]]
        made.leaves = self._left_over(first)
        first.drawn += made.leaves
        self._join(made, first)
        return made

    def cross(self, crossing: Crossing[Link]) -> None:
        """Begin to cross the links behind the first."""
        self._progress(crossing)
        links = self._behind(crossing)
        rates = [self._left_over(link) for link in links]
        crossing.crossing, crossing.crosses = True, min([*rates, crossing.leaves] if crossing.leaving else rates)
        for link in links:
            link.drawn += crossing.crosses
            self._join(crossing, link)

    def next_time(self) -> int:
        """When `advance` is due."""
        self._settle()
        ends = (_ends(each) for each in self._under_way.values())
        return min(min(ends, default=NEVER),
                   min((link.due for link in self._links.values() if link.touched), default=NEVER))

    def advance(self, to: int) -> None:
        """Go on to time `to`, at most `next_time()`; what has left or crossed by then, by time and start."""
        self._settle()
        self.now = to
        while done := [each for each in self._under_way.values() if _ends(each) <= to]:
            first = min(done, key=lambda each: (_ends(each), each.serial))
            self._progress(first)
            left = first.leaving and first.to_leave <= 0
            crossed = first.crossing and first.to_cross <= 0
            if left:
                self._stop_leaving(first, crossed)
            if crossed:
                self._stop_crossing(first)
            if crossed or len(first.way) == 1:
                del self._under_way[first.serial]
            if left:
                first.left()
            if crossed:
                first.crossed()

    def _behind(self, crossing: Crossing[Link]) -> list[_Share[Link]]:
        return [self._links[link] for link in crossing.way[1:]]

    @staticmethod
    def _left_over(link: _Share[Link]) -> int:
        rate = link.capacity - link.drawn
        return 0 if rate < link.capacity >> 10 else rate

    @staticmethod
    def _join(crossing: Crossing[Link], link: _Share[Link]) -> None:
        link.users.append(crossing)
        link.touched = link.touched or len(link.users) > 1

    @staticmethod
    def _part(crossing: Crossing[Link], link: _Share[Link], rate: int) -> int:
        """The place that it had. The last one has it now."""
        link.drawn -= rate
        place = link.users.index(crossing)
        link.users[place] = link.users[-1]
        link.users.pop()
        link.touched = bool(link.users)
        return place

    def _stop_leaving(self, crossing: Crossing[Link], crossed: bool) -> None:
        """A message that crossed as fast as it left may cross faster from now on."""
        rate, crossing.leaves, crossing.leaving = crossing.leaves, 0, False
        self._part(crossing, self._links[crossing.way[0]], rate)
        if not crossing.crossing or crossed or crossing.crosses != rate:
            return
        links = self._behind(crossing)
        if any(len(link.users) > 1 for link in links):
            links[0].touched = True
            return
        crossing.crosses = min(link.capacity for link in links)
        for link in links:
            link.drawn = crossing.crosses

    def _stop_crossing(self, crossing: Crossing[Link]) -> None:
        """Until links are shared again, others that cross there have what it leaves over: few are asked."""
        links, crossing.crossing = self._behind(crossing), False
        places = [self._part(crossing, link, crossing.crosses) for link in links]
        crossing.crosses = 0
        for link, place in zip(links, places, strict=True):
            users = len(link.users)
            for k in range(min(users, MOST_ASKED) if link.due > self.now else 0):
                asked = link.users[(place + k) % users]
                if self._left_over(link) and self._links[asked.way[0]] is not link:
                    self._speed_up(asked)

    def _speed_up(self, crossing: Crossing[Link]) -> None:
        rates = [self._left_over(link) for link in self._behind(crossing)]
        more = min([*rates, crossing.leaves - crossing.crosses] if crossing.leaving else rates)
        if more:
            self._progress(crossing)
            crossing.crosses += more
            for link in self._behind(crossing):
                link.drawn += more

    def _progress(self, crossing: Crossing[Link]) -> None:
        """What it did at the rates that it has had."""
        time = self.now - crossing.since
        if self._spent is not None and time:
            for number, link in enumerate(crossing.way):
                if rate := crossing.crosses if number else crossing.leaves:
                    self._spent(link, crossing.since, self.now, rate)
        crossing.to_leave -= crossing.leaves * time
        crossing.to_cross -= crossing.crosses * time
        crossing.since = self.now

    def _settle(self) -> None:
        """Share links anew that are due, with all that messages connect to them."""
        for link in list(self._links.values()):
            if link.touched and link.due <= self.now:
                self._share(link)

    def _share(self, first: _Share[Link]) -> None:
        links, messages = self._connected(first)
        found = _fill(links, messages, self._links)
        for each in messages.values():
            rates = found[each.serial, True], found[each.serial, False]
            if rates != (each.leaves, each.crosses):
                self._progress(each)
                each.leaves, each.crosses = rates
        whole = sum(each.crosses if each.crossing else each.leaves for each in messages.values())
        sizes = sum(each.size for each in messages.values())
        few = whole == 0 or len(messages) <= FEW
        for link in links.values():
            link.due = self.now + (0 if few else sizes * UNIT // (PARTS_OF_A_MESSAGE * whole))
            link.drawn = sum(each.leaves if self._links[each.way[0]] is link else each.crosses for each in link.users)
            link.touched = False

    def _connected(self, first: _Share[Link]) -> tuple[dict[int, _Share[Link]], dict[int, Crossing[Link]]]:
        """A link and all that messages connect to it, by number."""
        links, messages, ahead = {first.number: first}, dict[int, Crossing[Link]](), [first]
        while ahead:
            for user in ahead.pop().users:
                if user.serial in messages:
                    continue
                messages[user.serial] = user
                for link in _uses(user, self._links):
                    if link.number not in links:
                        links[link.number] = link
                        ahead.append(link)
        return links, messages


def _uses(crossing: Crossing[Link], links: dict[Link, _Share[Link]]) -> list[_Share[Link]]:
    way = crossing.way[:1] * crossing.leaving + crossing.way[1:] * crossing.crossing
    return [links[link] for link in way]


def _ends(crossing: Crossing[Link]) -> int:
    """When it has left or crossed, as things stand."""
    time = NEVER
    for under_way, left, rate in ((crossing.leaving, crossing.to_leave, crossing.leaves),
                                  (crossing.crossing, crossing.to_cross, crossing.crosses)):
        if under_way and (rate or left <= 0):
            time = min(time, -(-left // rate) if left > 0 else 0)
    return min(NEVER, crossing.since + time)


def _fill(links: dict[int, _Share[Link]], messages: dict[int, Crossing[Link]],
          known: dict[Link, _Share[Link]]) -> dict[tuple[int, bool], int]:
    """Rates by message, of leaving (True) and crossing, by progressive filling: the tightest link first, of equal ones
    the oldest. A message crosses no faster than it leaves."""
    spare = {number: link.capacity for number, link in links.items()}
    users = {number: len(link.users) for number, link in links.items()}
    found: dict[tuple[int, bool], int] = {}

    def fix(message: Crossing[Link], leaves: bool, rate: int) -> None:
        if (message.serial, leaves) in found or not (message.leaving if leaves else message.crossing):
            return
        found[message.serial, leaves] = rate
        for link in message.way[:1] if leaves else message.way[1:]:
            spare[known[link].number] -= rate
            users[known[link].number] -= 1

    def serve(number: int, rate: int) -> None:
        for message in links[number].users:
            if message.leaving and known[message.way[0]].number == number:
                if (message.serial, True) in found:
                    continue
                fix(message, True, rate)
            fix(message, False, rate)

    for number, link in links.items():
        if not link.capacity:
            serve(number, 0)
    while able := [number for number, left in users.items() if left]:
        tightest = min(able, key=lambda number: (spare[number] // users[number], number))
        serve(tightest, max(spare[tightest] // users[tightest], 1))
    for message in messages.values():
        found.setdefault((message.serial, True), 0)
        found.setdefault((message.serial, False), 0)
    return found
