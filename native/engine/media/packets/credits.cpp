// Lossless by credits: a packet starts where the buffer at the link's end has room for it. A unit is a port. Its queue is the sorted front
// of its inbox: what came in a window is sorted once, behind what waited before.
#include <algorithm>
#include <type_traits>

#include "clock/crew.hpp"
#include "clock/interrupt.hpp"
#include "media/packets/trains.hpp"

namespace astrarium::packets {
namespace {

template <class What>
struct Entry {
    std::uint32_t link;
    What what;
};

// What ports send each other in a window is handed over a little later, when its place is in the cache.
template <class What>
struct Outbox {
    static constexpr std::size_t size = 32;
    Entry<What> entries[size];
    std::size_t made = 0, fetched = 0, given = 0;
};

// Of one thread. Where several run a window, what ports send each other is handed over after it: per part of the links.
struct alignas(64) Hand {
    Outbox<Packet> packets;
    Outbox<Credit> credits;
    std::vector<std::vector<Entry<Packet>>> packets_to;
    std::vector<std::vector<Entry<Credit>>> credits_to;
    Left left;
};

class Credits final : public Transport {
public:
    Credits(Net& net, Windows& windows)
        : net_(net), windows_(windows), ports_(net.ways->wires.size()), trains_(net, windows, ports_),
          crew_(net.rules.spray || net.epochs ? 1 : static_cast<std::size_t>(net.rules.threads)), hands_(crew_.size()),
          part_((ports_.size() / crew_.size() / 64 + 1) * 64) {
        for (Hand& hand : hands_) hand.packets_to.resize(crew_.size()), hand.credits_to.resize(crew_.size());
        for (std::size_t k = 0; k < ports_.size(); ++k) {
            ports_[k].room = ports_[k].least = net.ways->wires[k].buffer;
            ports_[k].limited = ports_[k].room > 0;
            limited_ = limited_ || ports_[k].limited;
            ports_[k].latency = net.ways->wires[k].latency, ports_[k].target = net.ways->wires[k].target;
        }
    }

    void ask(std::uint32_t cargo, std::uint32_t link, Tick now) override {
        Port& port = ports_[link];
        if (port.first == none) port.first = cargo;
        else net_.cargos[port.last].next = cargo;
        port.last = cargo;
        if (!trains_.take(link, now)) windows_.mark(now, link);
    }

    void run(const std::vector<std::uint32_t>& marked, Tick begin, Tick until) override {
        const std::vector<std::uint32_t>& units = trains_.empty() ? marked : trains_.settle(marked, begin, until);
        net_.ways->forget();
        if (crew_.size() > 1 && units.size() >= fewest) {
            net_.together = true;
            crew_.run([&](std::size_t k) { run_some(hands_[k], units, share(units, k), share(units, k + 1), begin, until); });
            crew_.run([&](std::size_t k) { hand_over(k); });
            net_.together = false;
        } else {
            run_some(hands_[0], units, 0, units.size(), begin, until);
            hand_over(hands_[0].packets, 0);
            hand_over(hands_[0].credits, 0);
        }
        for (Hand& hand : hands_) net_.take(hand.left);
    }

    void reroute(Tick now) override {
        for (std::uint32_t link = 0; link < ports_.size(); ++link)
            if (net_.epochs->dead(link) && keeps(link)) reroute_packets(link, now), reroute_own(link, now);
    }

    bool keeps(std::uint32_t link) const override { return ports_[link].head < ports_[link].inbox.size() || ports_[link].first != none; }

    void explain(std::vector<std::string>& waits) const override {
        std::vector<std::uint32_t> next(ports_.size(), none);
        for (std::uint32_t link = 0; link < ports_.size(); ++link)
            if (keeps(link) && ports_[link].free != never) next[link] = itself;
        for (std::uint32_t link = 0; link < ports_.size(); ++link)
            for (std::size_t k = ports_[link].head; k < ports_[link].inbox.size() && next[link] != none; ++k)
                if (const std::uint32_t came = ports_[link].inbox[k].came; next[came] != none) next[came] = std::min(next[came], link);
        for (const std::uint32_t link : circle_of(next)) {
            const Port& port = ports_[link];
            std::int64_t bytes = 0;
            for (std::size_t k = port.head; k < port.inbox.size(); ++k) bytes += port.inbox[k].bytes + net_.rules.header;
            waits.push_back(name_of(net_, link) + ": " + std::to_string(bytes) + " bytes wait, " + std::to_string(port.room) + " of " +
                            std::to_string(net_.ways->wires[link].buffer) + " bytes are free at its end");
        }
    }

    void report(PacketCounts& out) const override {
        for (std::size_t k = 0; k < ports_.size(); ++k) {
            const Port& port = ports_[k];
            out.queue.push_back(port.peak), out.buffer.push_back(port.limited ? net_.ways->wires[k].buffer - port.least : 0);
        }
    }

private:
    static constexpr std::size_t fewest = 128;  // ports that are worth several threads

    // Where the ports of a thread begin: those of one word of a window's marks are one thread's.
    std::size_t share(const std::vector<std::uint32_t>& units, std::size_t hand) const {
        std::size_t at = units.size() * hand / hands_.size();
        while (at > 0 && at < units.size() && units[at] / 64 == units[at - 1] / 64) ++at;
        return at;
    }

    void run_some(Hand& hand, const std::vector<std::uint32_t>& units, std::size_t from, std::size_t to, Tick begin, Tick until) {
        constexpr std::size_t ahead = 6;
        for (std::size_t k = from; k < to; ++k) {
            if (k + 2 * ahead < to)
                __builtin_prefetch(&ports_[units[k + 2 * ahead]]), __builtin_prefetch(&ports_[units[k + 2 * ahead]].head);
            if (k + ahead < to) fetch(ports_[units[k + ahead]]);
            run(hand, units[k], begin, until);
        }
    }

    static void fetch(const Port& port) {
        __builtin_prefetch(port.inbox.data() + port.head), __builtin_prefetch(port.inbox.data() + port.head + 2),
            __builtin_prefetch(port.inbox.data() + port.head + 4);
        __builtin_prefetch(port.credits.data()), __builtin_prefetch(port.credits.data() + 4);
    }

    void run(Hand& hand, std::uint32_t link, Tick begin, Tick until) {
        Port& port = ports_[link];
        port.asleep = false;
        if (port.limited) take_old_credits(port, begin);
        sort(port, until);
        for (Start start; find_start(port, start, until);) transmit(hand, link, port, start);
        if (net_.record) count(port, until);
        compact(port);
    }

    static bool before(const Packet& x, const Packet& y) { return x.time != y.time ? x.time < y.time : x.came < y.came; }

    void sort(Port& port, Tick until) {
        std::vector<Packet>& all = port.inbox;
        const auto fresh = all.begin() + port.sorted;
        if (fresh == all.end()) return;
        if (all.end() - fresh > 64) {
            if (!std::is_sorted(fresh, all.end(), before)) std::stable_sort(fresh, all.end(), before);
        } else {
            for (auto k = fresh + 1; k < all.end(); ++k)
                for (auto at = k; at > fresh && before(*at, at[-1]); --at) std::swap(*at, at[-1]);
        }
        while (port.sorted < all.size() && all[port.sorted].time < until) ++port.sorted;
    }

    struct Start {
        Tick at = 0;
        bool mine = false;  // of a message that begins here
    };

    // When the next packet starts; false: not in this window. At each instant at which something changes the port looks at the packet whose
    // turn it is.
    bool find_start(Port& port, Start& start, Tick until) {
        const Tick transit = port.head < port.sorted ? port.inbox[port.head].time : never;
        const Tick own = port.first != none ? net_.cargos[port.first].asked : never;
        if (transit == never && own == never) return false;
        start.at = std::max(port.free, std::min(transit, own));
        while (start.at < until) {
            start.mine = own <= start.at && (transit > start.at || !port.own_before);
            if (!port.limited) return true;
            const std::int64_t bytes = size(port, start.mine);
            if (net_.record || port.room < bytes) take_credits(port, start.at);
            if (port.room >= bytes) return true;
            Tick next = port.returned < port.credits.size() ? port.credits[port.returned].time : never;
            for (const Tick other : {transit, own})
                if (other > start.at) next = std::min(next, other);
            if (next >= until) return sleep(port);
            start.at = next;
        }
        if (start.at != never) windows_.mark(start.at, number(port));
        return false;
    }

    bool sleep(Port& port) {
        port.asleep = true;
        if (port.returned < port.credits.size()) windows_.mark(port.credits[port.returned].time, number(port));
        return false;
    }

    std::uint32_t number(const Port& port) const { return static_cast<std::uint32_t>(&port - ports_.data()); }

    std::int64_t size(const Port& port, bool mine) const {
        return (mine ? std::min(net_.cargos[port.first].to_send, net_.rules.size) : port.inbox[port.head].bytes) + net_.rules.header;
    }

    static void take_credits(Port& port, Tick now) {
        std::vector<Credit>& all = port.credits;
        for (; port.ordered < all.size(); ++port.ordered)
            for (std::size_t at = port.ordered; at > port.returned && all[at].time < all[at - 1].time; --at)
                std::swap(all[at], all[at - 1]);
        while (port.returned < all.size() && all[port.returned].time <= now) port.room += all[port.returned++].bytes;
    }

    // Before a window: those that are back, in any order.
    static void take_old_credits(Port& port, Tick begin) {
        std::vector<Credit>& all = port.credits;
        std::size_t kept = 0;
        for (std::size_t k = port.returned; k < all.size(); ++k) {
            if (all[k].time < begin) port.room += all[k].bytes;
            else all[kept++] = all[k];
        }
        all.resize(kept);
        port.returned = 0, port.ordered = kept > 0;
    }

    // `left`: when the packet left the buffer at the end of the link.
    void give_back(Hand& hand, std::uint32_t link, Tick left, std::int64_t bytes) {
        if (net_.together) return hand.credits_to[link / part_].push_back({link, Credit{left, bytes}});
        put(hand.credits, link, Credit{left, bytes});
    }

    template <class What>
    void put(Outbox<What>& box, std::uint32_t link, const What& what) {
        box.entries[box.made++ % box.size] = {link, what};
        __builtin_prefetch(&ports_[link]);
        if (box.made - box.fetched > box.size / 2) {
            Port& port = ports_[box.entries[box.fetched++ % box.size].link];
            if constexpr (std::is_same_v<What, Packet>) __builtin_prefetch(port.inbox.data() + port.inbox.size(), 1);
            else __builtin_prefetch(port.credits.data() + port.credits.size(), 1);
        }
        if (box.made - box.given == box.size) hand_over(box, box.size - 1);
    }

    template <class What>
    void hand_over(Outbox<What>& box, std::size_t keep) {
        for (; box.made - box.given > keep; ++box.given)
            give(box.entries[box.given % box.size].link, box.entries[box.given % box.size].what);
        box.fetched = std::max(box.fetched, box.given);
    }

    // To the ports of a part, in the order of the threads that ran: packets that came by one link are of one thread.
    void hand_over(std::size_t part) {
        for (Hand& hand : hands_) {
            each(hand.packets_to[part], [](const Port& port) { __builtin_prefetch(port.inbox.data() + port.inbox.size(), 1); });
            each(hand.credits_to[part], [](const Port& port) { __builtin_prefetch(port.credits.data() + port.credits.size(), 1); });
        }
    }

    template <class What, class Fetch>
    void each(std::vector<Entry<What>>& entries, const Fetch& fetch_end) {
        constexpr std::size_t ahead = 8;
        for (std::size_t k = 0; k < entries.size(); ++k) {
            if (k + 2 * ahead < entries.size()) __builtin_prefetch(&ports_[entries[k + 2 * ahead].link]);
            if (k + ahead < entries.size()) fetch_end(ports_[entries[k + ahead].link]);
            give(entries[k].link, entries[k].what);
        }
        entries.clear();
    }

    void give(std::uint32_t link, const Packet& packet) {
        ports_[link].inbox.push_back(packet);
        windows_.mark(packet.time, link);
    }
    void give(std::uint32_t link, const Credit& credit) {
        Port& port = ports_[link];
        if (!port.limited) return;
        port.credits.push_back({add(credit.time, port.latency), credit.bytes});
        if (port.asleep) windows_.mark(port.credits.back().time, link);
    }

    void transmit(Hand& hand, std::uint32_t link, Port& port, const Start& which) {
        const auto [start, mine] = which;
        Packet packet;
        const std::uint32_t cargo = mine ? port.first : port.inbox[port.head].cargo;
        if (mine) {
            Cargo& c = net_.cargos[cargo];
            packet = {start, start, none, cargo, c.destination, static_cast<std::uint32_t>(std::min(c.to_send, net_.rules.size))};
        } else {
            packet = port.inbox[port.head];
        }
        const Tick serial = net_.serial(link, packet.bytes), end = net_.finish(link, start, serial);
        if (const Tick away = net_.gives_up(link, packet.destination, start, end); away != never) {
            ++hand.left.hops, net_.cargos[cargo].lost += packet.bytes, port.free = away;
            return net_.charge(link, 0, start, away - start, hand.left);
        }
        if (end == never) return void(port.free = never);
        if (net_.record) count(port, start + 1);
        const std::int64_t bytes = packet.bytes + net_.rules.header;
        port.free = std::max(end, packet.tail), port.own_before = mine;
        if (port.limited) port.room -= bytes, port.least = std::min(port.least, port.room);
        net_.charge(link, packet.bytes, start, end - start, hand.left);
        if (mine) port.leave(net_, std::min(net_.cargos[cargo].to_send, net_.rules.size));
        else ++port.head, port.waiting -= bytes, net_.queue_is(link, start, port.waiting);
        send_on(hand, link, port, packet, start);
    }

    void send_on(Hand& hand, std::uint32_t link, Port& port, Packet packet, Tick start) {
        const std::int64_t bytes = packet.bytes + net_.rules.header;
        const Tick tail = add(port.free, port.latency);
        if ((++hand.left.hops & 0xffff) == 0 && &hand == hands_.data()) stop_if_interrupted();  // in the thread that runs
        if (packet.came != none && limited_) give_back(hand, packet.came, port.free, bytes);
        if (port.target == packet.destination) {
            if (port.limited) give_back(hand, link, tail, bytes);
            return net_.arrived(packet.cargo, tail, hand.left);
        }
        const std::uint32_t next = net_.ways->next(link, packet.destination, net_.cargos[packet.cargo].pair);
        packet.time = net_.cut_through ? std::min(tail, start + net_.head[link] + port.latency) : tail;
        packet.tail = tail, packet.came = link;
        if (net_.together) return hand.packets_to[next / part_].push_back({next, packet});
        put(hand.packets, next, packet);
    }

    // The queue as it is before `until`: what came since it was counted.
    void count(Port& port, Tick until) {
        for (; port.seen < port.sorted && port.inbox[port.seen].time < until; ++port.seen) {
            port.waiting += port.inbox[port.seen].bytes + net_.rules.header;
            port.peak = std::max(port.peak, port.waiting);
            if (net_.timeline) net_.queue_is(number(port), port.inbox[port.seen].time, port.waiting);
        }
    }

    // A short queue moves to the front, so that it stays in the cache; a long one once in a while.
    static void compact(Port& port) {
        const std::size_t left = port.inbox.size() - port.head;
        if (port.head == 0 || (left > 32 && left > port.head)) return;
        port.inbox.erase(port.inbox.begin(), port.inbox.begin() + port.head);
        port.sorted -= port.head, port.seen -= std::min(port.seen, port.head), port.head = 0;
    }

    // Packets that wait here go to the end of the queue of their new port, those on their way here to that port.
    void reroute_packets(std::uint32_t link, Tick now) {
        Port& port = ports_[link];
        const std::int32_t at = net_.ways->wires[link].source;
        std::vector<Packet> all(port.inbox.begin() + port.head, port.inbox.end());
        const std::size_t waiting = port.sorted - port.head;
        port.inbox.clear(), port.head = port.sorted = port.seen = 0;
        for (std::size_t k = 0; k < all.size(); ++k) {
            Packet& packet = all[k];
            const bool here = k < waiting;
            if (!net_.epochs->reaches(at, packet.destination)) {
                port.inbox.push_back(packet), port.sorted += here, port.seen += here;
                continue;
            }
            const std::uint32_t to = net_.ways->onward(at, packet.destination, net_.cargos[packet.cargo].pair);
            Port& other = ports_[to];
            if (here) {
                const std::int64_t bytes = packet.bytes + net_.rules.header;
                packet.time = now;
                if (net_.record) {
                    port.waiting -= bytes, other.waiting += bytes, ++other.seen;
                    other.peak = std::max(other.peak, other.waiting);
                    net_.queue_is(link, now, port.waiting), net_.queue_is(to, now, other.waiting);
                }
                other.inbox.insert(other.inbox.begin() + other.sorted++, packet);
            } else {
                other.inbox.push_back(packet);
            }
            windows_.mark(packet.time, to);
        }
    }

    // Messages that begin here, before those that ask from now on.
    void reroute_own(std::uint32_t link, Tick now) {
        Port& port = ports_[link];
        const std::uint32_t first = std::exchange(port.first, none);
        port.last = none;
        for (std::uint32_t cargo = first, next; cargo != none; cargo = next) {
            Cargo& c = net_.cargos[cargo];
            next = std::exchange(c.next, none);
            const bool goes = c.asked < now && net_.epochs->reaches(c.source, c.destination);
            const std::uint32_t to = goes ? net_.ways->first(c.source, c.destination, c.pair) : link;
            insert(ports_[to], cargo, goes ? now : never);
            if (goes) ports_[to].free = std::max(ports_[to].free, now), windows_.mark(now, to);
        }
    }

    void insert(Port& port, std::uint32_t cargo, Tick before) {
        std::uint32_t behind = none, at = port.first;
        while (at != none && net_.cargos[at].asked < before) behind = at, at = net_.cargos[at].next;
        net_.cargos[cargo].next = at;
        (behind == none ? port.first : net_.cargos[behind].next) = cargo;
        if (at == none) port.last = cargo;
    }

    Net& net_;
    Windows& windows_;
    bool limited_ = false;  // any port
    std::vector<Port> ports_;
    Trains trains_;
    Crew crew_;
    std::vector<Hand> hands_;
    const std::size_t part_;  // links
};

const TransportKind credits{.name = "credits", .pulls = true, .reroutes = true, .link_buffers = true, .open = open_transport<Credits>};
const RegisteredTransport registered_credits(credits);

}  // namespace

}  // namespace astrarium::packets
