#include "media/packets/net.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "plan/check_plan.hpp"

namespace astrarium::packets {
namespace {

std::map<std::string_view, const TransportKind*>& transports() {
    static std::map<std::string_view, const TransportKind*> all;
    return all;
}

}  // namespace

RegisteredTransport::RegisteredTransport(const TransportKind& kind) { transports().emplace(kind.name, &kind); }

const TransportKind& transport_of(const PacketRules& rules) {
    const auto found = transports().find(rules.transport);
    if (found == transports().end()) throw Unsupported("packet transport " + rules.transport + ", which is not compiled in");
    return *found->second;
}

double setting(const PacketRules& rules, std::string_view name) {
    const auto found = rules.settings.find(name);
    require(found != rules.settings.end(), "packets without a setting of their transport");
    return found->second;
}

std::int64_t whole_setting(const PacketRules& rules, std::string_view name) {
    const double value = setting(rules, name);
    require(std::abs(value) < 0x1p62, "packets out of range");
    return static_cast<std::int64_t>(value);
}

const std::vector<double>& table(const PacketRules& rules, std::string_view name) {
    const auto found = rules.tables.find(name);
    require(found != rules.tables.end(), "packets without a table of their transport");
    return found->second;
}

Net::Net(const Plan& plan, bool with_record, Carried& carried)
    : rules(plan.network.packets), cut_through(plan.network.cut_through), record(with_record), run(carried),
      traffic(plan.network, PortRows::each(plan), with_record), ways(open_ways(plan, traffic)),
      epochs(transport_of(rules).reroutes ? ways->epochs() : nullptr) {
    for (std::uint32_t link = 0; link < ways->wires.size(); ++link) {
        const Wire& wire = ways->wires[link];
        full.push_back(wire.serial(rules.size + rules.header)), head.push_back(wire.serial(rules.header));
        if (plan.link_rates) plan.link_rates->copy(link, link, rates);
    }
    if (record && rules.queues) timeline = std::make_unique<Timeline>(ways->wires.size());
}

std::uint32_t Net::load(MessageId id, const Flight& flight, Tick now) {
    if (spare.empty()) spare.push_back(static_cast<std::uint32_t>(cargos.size())), cargos.push_back({});
    const std::uint32_t cargo = spare.back();
    spare.pop_back();
    const std::int64_t packets = flight.size == 0 ? 1 : (flight.size + rules.size - 1) / rules.size;
    if (packets > 0xffffffff) throw Unsupported("a message of more than 2^32 packets");
    cargos[cargo] = {id,
                     flight.source,
                     flight.destination,
                     static_cast<std::uint32_t>(packets),
                     flight.size,
                     flight.size,
                     now,
                     0,
                     ways->pair(flight.source, flight.destination),
                     asked++};
    return cargo;
}

void Net::arrived(std::uint32_t cargo, Tick when) {
    Cargo& c = cargos[cargo];
    c.done = std::max(c.done, when);
    if (--c.left == 0) end(cargo);
}

// All packets of a message come by one link, so one thread: those of sprayed ones need not.
void Net::arrived(std::uint32_t cargo, Tick when, Left& left) {
    if (!together) return arrived(cargo, when);
    Cargo& c = cargos[cargo];
    c.done = std::max(c.done, when);
    if (--c.left == 0) left.ended.push_back(cargo);
}

void Net::end(std::uint32_t cargo) {
    const Cargo& c = cargos[cargo];
    if (record && sent_.size() < most_sent) sent_.push_back({c.asked, c.done, c.source, c.destination, c.size, c.lost});
    run.deliver(c.id, c.done);
    spare.push_back(cargo);
}

void Net::take(Left& left) {
    hops += left.hops;
    for (const std::uint32_t cargo : left.ended) end(cargo);
    for (const Left::Use& use : left.uses) traffic.use(ways->wires[use.link].dim, use.start, use.busy, 0);
    left.hops = 0, left.ended.clear(), left.uses.clear();
}

void Net::report(PacketCounts& out) const {
    if (timeline) timeline->report(out);
    std::vector<Sent> all = sent_;
    std::sort(all.begin(), all.end());
    for (const Sent& s : all) {
        out.source.push_back(s.source), out.destination.push_back(s.destination), out.size.push_back(s.size);
        out.asked.push_back(s.asked), out.arrived.push_back(s.arrived), out.lost.push_back(s.lost);
    }
}

std::string name_of(const Net& net, std::uint32_t link) {
    const Wire& wire = net.ways->wires[link];
    return "link " + std::to_string(link) + " from node " + std::to_string(wire.source) + " to node " + std::to_string(wire.target);
}

std::vector<std::uint32_t> circle_of(const std::vector<std::uint32_t>& next) {
    std::vector<std::uint32_t> all, seen(next.size(), none);  // seen: from which link
    for (std::uint32_t from = 0; from < next.size(); ++from) {
        if (next[from] == none) continue;
        all.push_back(from);
        std::uint32_t at = from;
        while (at < next.size() && seen[at] == none) seen[at] = from, at = next[at];
        if (at >= next.size() || seen[at] != from) continue;
        std::vector<std::uint32_t> circle{at};
        while (next[circle.back()] != at) circle.push_back(next[circle.back()]);
        std::rotate(circle.begin(), std::min_element(circle.begin(), circle.end()), circle.end());
        return circle;
    }
    return all;
}

}  // namespace astrarium::packets
