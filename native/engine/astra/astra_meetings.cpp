#include "astra/astra_meetings.hpp"

#include <algorithm>

#include "nodes/describe.hpp"

namespace astrarium {

namespace {

// How many sources a phase's receives tell apart: ring 1, halving_doubling one per bit and way, tree 3, direct one per offset.
std::uint32_t sources(const Phase& phase) {
    switch (phase.algorithm) {
        case Algorithm::ring: return 1;
        case Algorithm::halving_doubling: return 32;
        case Algorithm::double_binary_tree: return 3;
        case Algorithm::direct: return static_cast<std::uint32_t>(phase.n);
        default: return 0;
    }
}

// Wide enough for every kind of chunk.
void lay_out_surplus(Meeting& m) {
    m.phase_offset.clear();
    m.surplus_width = 0;
    for (std::uint32_t p = 0; p < m.phases; ++p) {
        std::uint32_t width = 0;
        for (const Chunk& chunk : m.collective->chunks)
            if (p < chunk.phases.size()) width = std::max(width, sources(chunk.phases[p]));
        m.phase_offset.push_back(m.surplus_width);
        m.surplus_width += width;
    }
    m.surplus.assign(static_cast<std::size_t>(m.members) * m.chunks * m.surplus_width, 0);
}

}  // namespace

AstraMeetings::AstraMeetings(const Plan& plan, bool alone, Streams& streams)
    : plan_(plan), alone_(alone), streams_(streams), membership_(plan), groups_(plan.groups.size() + 1) {}

std::pair<std::uint32_t, std::uint32_t> AstraMeetings::place(std::int32_t group, std::uint32_t rank, std::uint32_t node) {
    const std::uint32_t number = group < 0 ? membership_.all() : static_cast<std::uint32_t>(group);
    const std::uint32_t position = membership_.position(number, rank);
    if (position == Membership::none)
        throw BadTrace("the rank is not a member of the collective's group", place_of(plan_, plan_.program(rank), rank, node));
    return {number, position};
}

std::uint32_t AstraMeetings::join(std::uint32_t group, std::uint32_t position, const Collective& c, std::uint32_t rank,
                                  std::uint32_t node) {
    Group& g = groups_[group];
    if (g.issued.empty()) g.issued.resize(alone_ ? 1 : membership_.size(group));
    const std::uint32_t number = g.issued[position]++;
    for (const auto& [which, meeting] : g.open) {
        if (which != number) continue;
        check_same(c, *meetings_[meeting].collective, number, rank, node);
        meetings_[meeting].node[position] = node;
        return meeting;
    }
    const std::uint32_t at = open(group, c);
    g.open.emplace_back(number, at);
    meetings_[at].node[position] = node;
    return at;
}

void AstraMeetings::check_same(const Collective& c, const Collective& other, std::uint32_t number, std::uint32_t rank,
                               std::uint32_t node) const {
    if (other.op == c.op && other.size == c.size) return;
    throw BadTrace("collective number " + std::to_string(number + 1) + " of its group has op " + std::to_string(c.op) + " and " +
                       std::to_string(c.size) + " bytes here, but another member issued op " + std::to_string(other.op) + " with " +
                       std::to_string(other.size) + " bytes: the ranks issue this group's collectives in different orders",
                   place_of(plan_, plan_.program(rank), rank, node));
}

std::uint32_t AstraMeetings::open(std::uint32_t group, const Collective& c) {
    if (free_.empty()) {
        free_.push_back(static_cast<std::uint32_t>(meetings_.size()));
        meetings_.emplace_back();
    }
    const std::uint32_t at = free_.back();
    free_.pop_back();
    Meeting& m = meetings_[at];
    m.collective = &c, m.group = group, m.serial = serial_++, m.ended = 0;
    m.members = alone_ ? 1 : membership_.size(group), m.chunks = static_cast<std::uint32_t>(c.total_chunks);
    if (static_cast<std::uint64_t>(m.members) * m.chunks > 1u << 30) throw Unsupported("a collective of more than 2^30 chunks of members");
    m.phases = static_cast<std::uint32_t>(c.max_phases);
    m.node.assign(m.members, none);
    m.left.assign(m.members, m.chunks);
    m.routes.assign(static_cast<std::size_t>(m.members) * m.chunks * m.phases, {});
    lay_out_surplus(m);
    m.streams = streams_.take(m.members * m.chunks);
    std::uint32_t id = m.streams;
    for (std::uint32_t p = 0; p < m.members; ++p)
        for (std::uint32_t k = 0; k < m.chunks; ++k, ++id) {
            Stream& s = streams_[id];
            s.id = id, s.meeting = at, s.position = p, s.chunk = k, s.rank = membership_.rank(group, p);
        }
    return at;
}

void AstraMeetings::member_ended(std::uint32_t at) {
    Meeting& m = meetings_[at];
    if (++m.ended < m.members) return;
    streams_.give_back(m.streams, m.members * m.chunks);
    auto& open = groups_[m.group].open;
    open.erase(std::find_if(open.begin(), open.end(), [at](const auto& o) { return o.second == at; }));
    free_.push_back(at);
}

const std::vector<Phase>& AstraMeetings::phases_of(const Stream& s) const {
    const Collective& c = *of(s).collective;
    std::uint32_t chunk = s.chunk;
    for (const Chunk& kind : c.chunks) {
        if (chunk < static_cast<std::uint32_t>(kind.repeat)) return kind.phases;
        chunk -= static_cast<std::uint32_t>(kind.repeat);
    }
    return c.chunks.back().phases;
}

void AstraMeetings::explain(std::uint32_t rank, Wait& wait) const {
    for (const Group& group : groups_)
        for (const auto& [number, at] : group.open) {
            const Meeting& m = meetings_[at];
            for (std::uint32_t p = 0; p < m.members; ++p) {
                if (m.node[p] == none || m.left[p] == 0 || membership_.rank(m.group, p) != rank) continue;
                const auto missing = std::find(m.node.begin(), m.node.end(), none);
                std::string absent;
                if (missing != m.node.end())
                    absent = " waits for rank " +
                             std::to_string(membership_.rank(m.group, static_cast<std::uint32_t>(missing - m.node.begin())));
                say(wait, place_of(plan_, plan_.program(rank), rank, m.node[p]), absent);
            }
        }
}

}  // namespace astrarium
