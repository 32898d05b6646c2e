// What a run of every rank keeps in memory, as far as the plan tells beforehand: a run that cannot fit is refused with the
// ways out, instead of filling the machine.
#include <algorithm>
#include <cmath>
#include <string>

#include "run/collectives.hpp"
#include "plan/slots.hpp"

namespace astrarium {
namespace {

constexpr struct {  // in bytes
    double rank = sizeof(Nodes::Rank), member = sizeof(Member), chunk = sizeof(ChunkState), message = sizeof(Message);
} bytes_of;

constexpr double most_bytes = 8.0 * (1ull << 30);
constexpr const char* ways_out =
    "Less: network.backend closed_form with fold auto, a lower collective.active_chunks, or an algorithm with fewer messages at once "
    "(ring, direct:<window>)";
constexpr double vector_growth = 1.5;  // a vector that grows by doubling has this much room for each element, on average

std::string gib(double bytes) { return std::to_string(static_cast<std::int64_t>(std::ceil(bytes / (1ull << 30)))) + " GiB"; }

std::string grouped(double count) {
    const std::string digits = std::to_string(static_cast<std::int64_t>(count));
    std::string out;
    for (std::size_t i = 0; i < digits.size(); ++i) {
        if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
        out += digits[i];
    }
    return out;
}

// Rows of `ptr` (by program) that a participant has, on average.
double mean_of(const Schedule& s, const View<std::int32_t>& ptr) {
    double all = 0;
    for (const std::int32_t program : s.program) {
        const auto q = static_cast<std::size_t>(program);
        all += ptr[q + 1] - ptr[q];
    }
    return all / static_cast<double>(s.program.size);
}

// Sends that leave at once as a participant enters a phase: the mean of the participants (one of many may be a root).
double at_once(const Schedule& s) {
    std::vector<double> of(s.send_ptr.size - 1);
    for (std::size_t q = 0; q < of.size(); ++q)
        of[q] = static_cast<double>(std::count(s.send_needs.data + s.send_ptr[q], s.send_needs.data + s.send_ptr[q + 1], 0));
    double all = 0;
    for (const std::int32_t program : s.program) all += of[static_cast<std::size_t>(program)];
    return all / static_cast<double>(s.program.size);
}

// Bytes of a participant that say which messages of a collective it has: two bits for each, on average.
double bytes_of_bits(const Collective& c) {
    double received = 0;
    for (const Chunk& chunk : c.chunks)
        for (const Phase& phase : chunk.phases)
            if (phase.schedule) received += chunk.repeat * mean_of(*phase.schedule, phase.schedule->recv_ptr);
    return received / 4;
}

// Events of a participant in a phase, on average: each of its messages asks for a port; those that leave together depart in one event,
// and what they wait for, or the phase's end, is another.
double events_of(const Schedule& s) {
    std::size_t together = 0;
    for (std::size_t q = 0; q + 1 < s.send_ptr.size; ++q)
        for (auto k = static_cast<std::size_t>(s.send_ptr[q]); k < static_cast<std::size_t>(s.send_ptr[q + 1]); ++k)
            together += k == static_cast<std::size_t>(s.send_ptr[q]) || s.send_needs[k] != s.send_needs[k - 1];
    return static_cast<double>(s.send_peer.size + 2 * together) / static_cast<double>(s.send_ptr.size - 1);
}

// Of a participant in all phases of a collective.
double events_of(const Collective& c) {
    double all = 0;
    for (const Chunk& chunk : c.chunks)
        for (const Phase& phase : chunk.phases) all += chunk.repeat * (phase.schedule ? events_of(*phase.schedule) : 3 * (phase.n - 1.0));
    return all;
}

// Messages of a participant that exist as it enters a phase. Where sends wait for their turn at a link, which takes time, one for each
// link.
double at_once(const Network& network, const Phase& phase) {
    double links = 0;
    const bool pulls = network.medium->pulls && network.medium->pulls(network);
    bool wait = network.medium->queues || pulls;
    for (const Dim& dim : network.dims) {
        links += static_cast<double>(Traffic::ports_per_npu(dim));
        wait = wait && (pulls || ticks(static_cast<double>(phase.block_size) / dim.bandwidth, false) > 0);
    }
    const double sends = at_once(*phase.schedule);
    return wait ? std::min(links, sends) : sends;
}

// Of a participant as the first phase begins.
double first_sends(const Plan& plan, const Collective& c) {
    double sends = 0;
    for (const Chunk& chunk : c.chunks) {
        if (chunk.phases.empty() || !chunk.phases.front().schedule) continue;
        const double first = at_once(plan.network, chunk.phases.front());
        sends = c.active_chunks > 0 ? std::max(sends, std::min(c.active_chunks, chunk.repeat) * first) : sends + chunk.repeat * first;
    }
    return c.turns.empty() ? sends : sends * static_cast<double>(c.turns.size());
}

}  // namespace

// Every rank is taken to be in its largest collective at one time. An event of a message between nodes: it departs, it asks for a
// port, it is delivered.
Weight weigh(const Plan& plan, bool record) {
    constexpr double events_of_a_message = 3;
    Weight all;
    std::vector<double> events, bytes;
    for (const Collective& c : plan.collectives) {
        events.push_back(events_of(c));
        bytes.push_back(bytes_of.member + c.total_chunks * (bytes_of.chunk + 8.0 * c.max_phases) + bytes_of_bits(c) +
                        first_sends(plan, c) * (bytes_of.message + 2 * vector_growth * sizeof(Keyed)));
    }
    std::vector<std::vector<SlotUse>> uses;
    for (const Program& program : plan.programs) uses.push_back(slots_of(program));
    for (std::size_t r = 0; r < plan.ranks(); ++r) {
        const auto nodes = static_cast<double>(plan.program(r).nodes());
        const auto& mine = uses[static_cast<std::size_t>(plan.program_of[r])];
        double largest = 0;
        all.events += nodes;
        for (std::size_t s = 0; s < mine.size(); ++s) {
            if (mine[s].kind == Kind::send) all.events += events_of_a_message * mine[s].count;
            if (mine[s].kind != Kind::collective) continue;
            const auto c = static_cast<std::size_t>(plan.slot_a[static_cast<std::size_t>(plan.slot_ptr[r]) + s]);
            all.events += events[c] * mine[s].count;
            largest = std::max(largest, bytes[c]);
        }
        all.bytes += bytes_of.rank + 64 + nodes * (record ? 20 : 4) + largest;
    }
    return all;
}

void refuse_too_large(const Plan& plan, bool record) {
    double nodes = 0;
    for (std::size_t r = 0; r < plan.ranks(); ++r) nodes += static_cast<double>(plan.program(r).nodes());
    const double fixed = static_cast<double>(plan.ranks()) * (bytes_of.rank + 64) + nodes * (record ? 20 : 4);
    if (fixed > most_bytes)
        throw Unsupported(grouped(static_cast<double>(plan.ranks())) + " ranks with " + grouped(nodes) +
                          " nodes, run one by one, take about " + gib(fixed) + " of memory; at most " + gib(most_bytes) +
                          ". Less: equal ranks with fold auto, or record off");
    std::vector<double> members(plan.collectives.size(), 0);  // the largest group that runs each collective
    std::vector<std::vector<SlotUse>> uses;
    for (const Program& program : plan.programs) uses.push_back(slots_of(program));
    for (std::size_t r = 0; r < plan.ranks(); ++r) {
        auto s = static_cast<std::size_t>(plan.slot_ptr[r]);
        for (const SlotUse& use : uses[static_cast<std::size_t>(plan.program_of[r])]) {
            const std::int32_t group = plan.slot_b[s];
            if (use.kind == Kind::collective) {
                double& most = members[static_cast<std::size_t>(plan.slot_a[s])];
                most = std::max(most, static_cast<double>(group < 0 ? plan.ranks() : plan.groups[static_cast<std::size_t>(group)].size));
            }
            ++s;
        }
    }
    for (std::size_t k = 0; k < members.size(); ++k) {
        const Collective& c = plan.collectives[k];
        if (members[k] == 0 || c.custom || c.lasts) continue;
        const double sends = first_sends(plan, c);
        const double each = bytes_of.member + 16.0 * (c.max_phases + 1) + 64 + c.total_chunks * (bytes_of.chunk + 8.0 * c.max_phases) +
                            bytes_of_bits(c);
        const double messages = members[k] * sends,
                     bytes = fixed + members[k] * each + messages * (bytes_of.message + 2 * vector_growth * sizeof(Keyed));
        if (bytes > most_bytes)
            throw Unsupported("a collective of " + grouped(members[k]) + " ranks, run message by message, takes about " + gib(bytes) +
                              " of memory (" + grouped(messages) + " messages under way at once); at most " + gib(most_bytes) + ". " +
                              ways_out);
    }
}

// Messages that wait or are under way must not fill the machine either.
void refuse_too_many(std::size_t messages) {
    const double bytes = static_cast<double>(messages) * (bytes_of.message + 2 * vector_growth * sizeof(Keyed));
    if (bytes > most_bytes)
        throw Unsupported(grouped(static_cast<double>(messages)) + " messages under way at once take more than " + gib(most_bytes) +
                          " of memory. " + ways_out);
}

}  // namespace astrarium
