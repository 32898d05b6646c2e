// A line whose members all do the same if their chunks come at the same times: the first does for all, its messages come back to it.
#include <algorithm>

#include "fold/timers/line.hpp"

namespace astrarium {

// Ports of members by the order in which they come up: what matters of a port is which messages share it.
struct Line::Named {
    Named(std::size_t members, std::size_t ports) : ports(ports), out(members * ports, -1), in(out), outs(members, 0), ins(outs) {}

    static int name(std::vector<int>& names, std::vector<int>& count, std::size_t member, std::size_t port) {
        if (names[port] < 0) names[port] = count[member]++;
        return names[port];
    }

    std::size_t ports;
    std::vector<int> out, in, outs, ins;
};

Line::Line(const Line& all, std::vector<Part> parts)
    : n_(1), chunks_(all.chunks_), window_(all.window_), endpoint_(all.endpoint_), ports_(all.ports_), parts_(std::move(parts)) {}

// Null where members differ in what they send or receive, or in how their messages share ports.
std::unique_ptr<const Line> Line::first_alone() const {
    const auto members = static_cast<std::size_t>(n_);
    if (n_ < 2 || members * ports_ > 1u << 14) return nullptr;
    Named named(members, ports_);
    std::vector<Part> parts;
    for (const Part& part : parts_) {
        if (!part_alike(part, named)) return nullptr;
        parts.push_back(own_part(part));
    }
    return std::unique_ptr<const Line>(new Line(*this, std::move(parts)));
}

bool Line::part_alike(const Part& part, Named& named) const {
    const std::size_t count = part.first_send[1], receives = part.first_receive[1];
    const auto members = static_cast<std::size_t>(n_);
    if (part.sends.size() != members * count || part.receives != members * receives) return false;
    const auto equal = [](const Send& x, const Send& y) {
        return x.number == y.number && x.receive == y.receive && x.needs == y.needs && x.latency == y.latency && x.charged == y.charged &&
               x.blocks == y.blocks;
    };
    std::vector<const Send*> heard(members * count, nullptr);  // by receiver and place among the sender's
    for (std::size_t m = 0; m < members; ++m) {
        if (part.first_send[m] != m * count || part.first_receive[m] != m * receives || part.starts[m] != part.starts[0]) return false;
        for (std::size_t j = 0; j < count; ++j) {
            const Send &x = part.sends[m * count + j], &first = part.sends[j];
            const Send*& theirs = heard[x.to * count + j];
            if (!equal(x, first) || theirs) return false;
            theirs = &x;
        }
        for (const auto* times : {&part.serial, &part.delay})
            for (const std::vector<Tick>& of : *times) {
                const auto each = static_cast<std::ptrdiff_t>(of.size() / members), from = static_cast<std::ptrdiff_t>(m) * each;
                if (!std::equal(of.begin() + from, of.begin() + from + each, of.begin())) return false;
            }
    }
    for (std::size_t j = 0; j < count; ++j)
        for (std::size_t m = 0; m < members; ++m) {
            const Send &mine = part.sends[m * count + j], &theirs = *heard[m * count + j];
            const int out = Named::name(named.out, named.outs, m, mine.out), in = Named::name(named.in, named.ins, m, theirs.in);
            if (out != named.out[part.sends[j].out] || in != named.in[heard[j]->in]) return false;
        }
    return true;
}

// The first member's, with the messages of its equals as its own.
Line::Part Line::own_part(const Part& part) const {
    const auto count = static_cast<std::ptrdiff_t>(part.first_send[1]), receives = static_cast<std::ptrdiff_t>(part.first_receive[1]);
    Part out;
    out.sends.assign(part.sends.begin(), part.sends.begin() + count);
    for (const Send& x : part.sends)
        if (x.to == 0) out.sends[(static_cast<std::size_t>(&x - part.sends.data())) % static_cast<std::size_t>(count)].in = x.in;
    for (Send& x : out.sends) x.to = 0;
    out.first_send = {0, part.first_send[1]}, out.first_receive = {0, part.first_receive[1]};
    out.place.assign(part.place.begin(), part.place.begin() + count);
    out.starts = {part.starts[0]}, out.kind = part.kind, out.receives = static_cast<std::size_t>(receives);
    for (const std::vector<Tick>& of : part.serial) out.serial.emplace_back(of.begin(), of.begin() + count);
    for (const std::vector<Tick>& of : part.delay) out.delay.emplace_back(of.begin(), of.begin() + receives);
    number_arrivals(out);
    return out;
}

}  // namespace astrarium
