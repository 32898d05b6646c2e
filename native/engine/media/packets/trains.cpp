#include "media/packets/trains.hpp"

#include <algorithm>

namespace astrarium::packets {

Trains::Trains(Net& net, Windows& windows, std::vector<Port>& ports)
    : net_(net), windows_(windows), ports_(ports), able_(net.rates.empty() && !net.rules.spray && !net.timeline),
      first_(ports.size(), none), last_(ports.size(), none), is_unit_(ports.size(), 0) {}

bool Trains::take(std::uint32_t link, Tick now) {
    const std::uint32_t train = first_[link], cargo = ports_[link].first;
    if (train != none) return trains_[train].cargo == cargo;  // waits behind one that begins here
    return cargo == ports_[link].last && begin(link, now);
}

// The first message of a port, if it can. `marked`: what happens before then needs no mark.
bool Trains::begin(std::uint32_t link, Tick marked) {
    const std::uint32_t cargo = ports_[link].first;
    const Cargo& c = net_.cargos[cargo];
    if (!able_ || c.left < fewest || c.to_send < c.size) return false;
    if (spare_.empty()) spare_.push_back(static_cast<std::uint32_t>(trains_.size())), trains_.emplace_back();
    const std::uint32_t id = spare_.back();
    Train& train = trains_[id];
    train.cargo = cargo, train.packets = c.left, train.last_bytes = c.size - (c.left - 1) * net_.rules.size, train.released = 0;
    train.legs.assign(1, {});
    train.legs[0].link = link;
    if (!find_way(train) || !has_room(train)) return false;
    spare_.pop_back(), ++running_;
    for (const Leg& leg : train.legs) {
        if (first_[leg.link] == none) first_[leg.link] = id;
        else over(trains_[last_[leg.link]], leg.link).behind = id;
        last_[leg.link] = id;
        if (leg.last.start >= marked) windows_.mark(leg.last.start, leg.link);
    }
    return true;
}

Trains::Leg& Trains::over(Train& train, std::uint32_t link) {
    return *std::find_if(train.legs.begin(), train.legs.end(), [link](const Leg& leg) { return leg.link == link; });
}

// --- times

// A packet over a link: it arrives as it left the link before.
Trains::Time Trains::cross(const Leg* before, const Time& time, std::uint32_t link, std::int64_t payload, Tick free) const {
    Time next = time;
    if (before != nullptr) {
        const Tick latency = ports_[before->link].latency;
        next.tail = add(time.free, latency);
        next.arrives = net_.cut_through ? std::min(next.tail, add(time.start, net_.head[before->link] + latency)) : next.tail;
    }
    next.start = std::max(next.arrives, free);
    next.free = std::max(add(next.start, net_.serial(link, payload)), next.tail);
    return next;
}

// Packets follow each other at the distance at which they leave the source, if every link has let go of one when the next one comes.
bool Trains::find_way(Train& train) {
    const Cargo& c = net_.cargos[train.cargo];
    std::uint32_t link = train.legs[0].link;
    Time first, last;
    for (std::size_t h = 0;; ++h) {
        if (h > 0) train.legs.emplace_back();
        Leg& leg = train.legs[h];
        const Leg* before = h > 0 ? &train.legs[h - 1] : nullptr;
        leg.link = link;
        if (!is_free(train, link)) return false;
        const Tick free = last_[link] == none ? ports_[link].free : over(trains_[last_[link]], link).last.free;
        if (h == 0) first.arrives = first.tail = c.asked;
        first = leg.first = cross(before, first, link, net_.rules.size, free);
        if (h == 0) train.step = first.free - first.start;
        if (train.step == 0 || first.free - first.start > train.step || (h > 0 && first.start > first.arrives)) return false;
        const Tick ahead = times(train.packets - 2, train.step);
        if (h == 0) last.arrives = last.tail = c.asked;
        last = leg.last = cross(before, last, link, train.last_bytes, add(first.free, ahead));
        if (h > 0 && last.arrives <= add(first.start, ahead)) return false;
        if (ports_[link].target == c.destination) return last.free < never / 2;
        link = net_.ways->next(link, c.destination, c.pair);
    }
}

// Whether nothing but trains is at a port, or on its way to it.
bool Trains::is_free(const Train& train, std::uint32_t link) const {
    const Port& port = ports_[link];
    if (port.head < port.inbox.size() || port.free == never) return false;
    if (link == train.legs[0].link) return port.first == train.cargo;
    return port.first == none && (!port.limited || first_[link] == none);
}

// Whether no packet waits for credits. Their times, too.
bool Trains::has_room(Train& train) const {
    for (std::size_t h = 0; h < train.legs.size(); ++h) {
        Leg& leg = train.legs[h];
        const Port& port = ports_[leg.link];
        const Leg* const next = h + 1 < train.legs.size() ? &train.legs[h + 1] : nullptr;
        leg.first.back = add(next ? next->first.free : add(leg.first.free, port.latency), port.latency);
        leg.last.back = add(next ? next->last.free : add(leg.last.free, port.latency), port.latency);
        if (!port.limited) continue;
        std::int64_t room = port.room;
        for (std::size_t k = port.returned; k < port.credits.size(); ++k)
            if (port.credits[k].time <= leg.first.start) room += port.credits[k].bytes;
        const std::int64_t bytes = net_.rules.size + net_.rules.header, equal = train.packets - 1;
        const Tick most = std::min<Tick>(equal, (leg.first.back - leg.first.start + train.step - 1) / train.step);
        const Tick back = leg.last.start < leg.first.back ? 0 : std::min<Tick>(equal, (leg.last.start - leg.first.back) / train.step + 1);
        if (times(most, bytes) > room || times(equal - back, bytes) + train.last_bytes + net_.rules.header > room) return false;
    }
    return true;
}

Trains::Time Trains::of(const Train& train, const Leg& leg, std::uint32_t packet) const {
    if (packet + 1 == train.packets) return leg.last;
    const Tick later = static_cast<Tick>(packet) * train.step;
    const Time& first = leg.first;
    return {first.arrives + later, first.tail + later, first.start + later, first.free + later, first.back + later};
}

// How many packets started before then.
std::uint32_t Trains::started(const Train& train, const Leg& leg, Tick before) const {
    if (leg.last.start < before) return train.packets;
    if (leg.first.start >= before) return 0;
    return static_cast<std::uint32_t>(std::min<Tick>(train.packets - 1, (before - leg.first.start + train.step - 1) / train.step));
}

// --- windows

const std::vector<std::uint32_t>& Trains::settle(const std::vector<std::uint32_t>& marked, Tick begin, Tick until) {
    units_.clear();
    for (const std::uint32_t link : marked)
        if (first_[link] != none && meets(link, until)) break_up(first_[link], begin, until);
    for (const std::uint32_t link : marked) {
        release(link, begin, until);
        if (first_[link] == none) run_later(link);
    }
    for (const std::uint32_t link : units_) is_unit_[link] = 0;
    std::sort(units_.begin(), units_.end());
    return units_;
}

void Trains::run_later(std::uint32_t link) {
    if (!std::exchange(is_unit_[link], 1)) units_.push_back(link);
}

// Whether something else is at a port that trains have.
bool Trains::meets(std::uint32_t link, Tick until) const {
    const Port& port = ports_[link];
    if (port.first != none && port.first != trains_[first_[link]].cargo) return true;
    return std::any_of(port.inbox.begin() + port.head, port.inbox.end(), [until](const Packet& packet) { return packet.time < until; });
}

// Trains whose last packet starts at this port in this window.
void Trains::release(std::uint32_t link, Tick now, Tick until) {
    Port& port = ports_[link];
    while (first_[link] != none) {
        const std::uint32_t id = first_[link];
        Train& train = trains_[id];
        const std::uint32_t h = train.released, cargo = train.cargo;
        const Leg leg = train.legs[h];
        if (leg.link != link || leg.last.start >= until) return;
        account(train, h, train.packets, train.packets, now);
        port.free = leg.last.free, port.own_before = h == 0;
        first_[link] = leg.behind;
        if (leg.behind == none) last_[link] = none;
        if (h == 0) port.leave(net_, net_.cargos[cargo].to_send);
        if (++train.released == train.legs.size()) {
            spare_.push_back(id), --running_;
            net_.cargos[cargo].left = 1;
            net_.arrived(cargo, leg.last.free + port.latency);
        }
        if (h == 0 && port.first != none && first_[link] == none) begin(link, until);
    }
}

// What so many packets did at a port; `issued`: how many left its end.
void Trains::account(const Train& train, std::size_t h, std::uint32_t packets, std::uint32_t issued, Tick now) {
    const Leg& leg = train.legs[h];
    if (packets == 0) return;
    const std::uint32_t equal = std::min(packets, train.packets - 1);
    const Tick serial = net_.serial(leg.link, net_.rules.size);
    net_.hops += packets;
    if (serial == train.step) net_.charge(leg.link, equal * net_.rules.size, leg.first.start, equal * serial);
    else
        for (std::uint32_t k = 0; k < equal; ++k) net_.charge(leg.link, net_.rules.size, of(train, leg, k).start, serial);
    if (packets > equal) net_.charge(leg.link, train.last_bytes, leg.last.start, net_.serial(leg.link, train.last_bytes));
    Port& port = ports_[leg.link];
    if (h > 0 && net_.record) port.peak = std::max(port.peak, net_.rules.size + net_.rules.header);
    if (port.limited) account_room(train, leg, packets, issued, now);
}

void Trains::account_room(const Train& train, const Leg& leg, std::uint32_t packets, std::uint32_t issued, Tick now) {
    Port& port = ports_[leg.link];
    std::vector<Credit>& all = port.credits;
    std::sort(all.begin() + port.returned, all.end(), [](const Credit& x, const Credit& y) { return x.time < y.time; });
    std::size_t taken = port.returned;
    std::uint32_t back = 0;
    for (std::uint32_t k = 0; k < packets; ++k) {
        const Tick start = of(train, leg, k).start;
        for (; taken < all.size() && all[taken].time <= start; ++taken) port.room += all[taken].bytes;
        for (; back < k && of(train, leg, back).back <= start; ++back) port.room += payload(train, back) + net_.rules.header;
        port.room -= payload(train, k) + net_.rules.header;
        port.least = std::min(port.least, port.room);
    }
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(taken));
    port.returned = port.ordered = 0;
    for (; back < issued; ++back) {
        const Credit credit{of(train, leg, back).back, payload(train, back) + net_.rules.header};
        if (credit.time < now) port.room += credit.bytes;
        else all.push_back(credit);
    }
}

// --- meetings

// A train, and all that have a port with it, directly or not.
void Trains::break_up(std::uint32_t which, Tick now, Tick until) {
    std::vector<std::uint32_t> all{which};
    for (std::size_t k = 0; k < all.size(); ++k) {
        const Train& train = trains_[all[k]];
        for (std::size_t h = train.released; h < train.legs.size(); ++h) {
            const std::uint32_t link = train.legs[h].link;
            for (std::uint32_t id = first_[link]; id != none; id = over(trains_[id], link).behind)
                if (std::find(all.begin(), all.end(), id) == all.end()) all.push_back(id);
        }
    }
    for (const std::uint32_t id : all) {
        become_packets(trains_[id], now, until);
        spare_.push_back(id), --running_;
    }
}

// What ports would have at the begin of the window, had its packets been packets.
void Trains::become_packets(const Train& train, Tick now, Tick until) {
    if (train.released > 0) revoke(train, train.legs[train.released - 1], started(train, train.legs[train.released], now));
    std::uint32_t here = train.packets;  // that have left the link before
    for (std::size_t h = train.released; h < train.legs.size(); ++h) {
        const Leg& leg = train.legs[h];
        const std::uint32_t gone = started(train, leg, now);
        Port& port = ports_[leg.link];
        account(train, h, gone, h + 1 < train.legs.size() ? started(train, train.legs[h + 1], now) : gone, now);
        if (gone > 0) port.free = of(train, leg, gone - 1).free, port.own_before = h == 0;
        if (h == 0) net_.cargos[train.cargo].to_send -= gone * net_.rules.size;
        else hand_over(train, h, gone, here, until);
        here = gone;
        first_[leg.link] = last_[leg.link] = none;
        run_later(leg.link);
    }
    net_.cargos[train.cargo].left -= here;
}

// Packets that wait at a port or are on their way to it: ahead of what came by the same link, which left it later and may be there in the
// same instant, if it has no bytes.
void Trains::hand_over(const Train& train, std::size_t h, std::uint32_t from, std::uint32_t to, Tick until) {
    const std::uint32_t link = train.legs[h].link, came = train.legs[h - 1].link;
    std::vector<Packet> packets;
    for (std::uint32_t k = from; k < to; ++k) {
        const Time time = of(train, train.legs[h], k);
        packets.push_back({time.arrives, time.tail, came, train.cargo, net_.cargos[train.cargo].destination,
                           static_cast<std::uint32_t>(payload(train, k))});
        if (time.arrives >= until) windows_.mark(time.arrives, link);
    }
    std::vector<Packet>& inbox = ports_[link].inbox;
    inbox.insert(inbox.begin() + ports_[link].sorted, packets.begin(), packets.end());
}

// Credits of packets that have not left the end of a link.
void Trains::revoke(const Train& train, const Leg& leg, std::uint32_t from) {
    Port& port = ports_[leg.link];
    if (!port.limited) return;
    for (std::uint32_t k = from; k < train.packets; ++k) {
        const Credit credit{of(train, leg, k).back, payload(train, k) + net_.rules.header};
        std::size_t at = port.returned;
        while (port.credits[at].time != credit.time || port.credits[at].bytes != credit.bytes) ++at;
        port.credits.erase(port.credits.begin() + static_cast<std::ptrdiff_t>(at));
        if (at < port.ordered) --port.ordered;
    }
}

}  // namespace astrarium::packets
