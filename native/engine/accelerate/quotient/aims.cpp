// One rank per class: where the messages of a class go, and from where they come; which leave as trains.
#include <algorithm>

#include "accelerate/quotient/quotient.hpp"
#include "run/messages.hpp"

namespace astrarium {
namespace {

constexpr std::size_t nowhere = ~std::size_t{0};

}  // namespace

// Of ranks: leaves for, comes from and arrives at.
Flight Quotient::flight(std::uint32_t rank, std::uint32_t goes_to, std::uint32_t from, std::uint32_t to) const {
    Flight out(whole_.npu_of[rank], whole_.npu_of[goes_to], 0);
    out.from = whole_.npu_of[from], out.to = whole_.npu_of[to];
    return out;
}

// The same for all chunks, and for all collectives of the family.
const Sends& Quotient::sends(std::uint32_t group, const ChunkState& s) {
    const Phase& phase = s.now();
    const std::uint64_t family = this->family(kind_of(group), phase);
    if (sends_.size() <= family) sends_.resize(family + 1);
    auto& of_family = sends_[family];
    if (of_family.empty()) of_family.resize(small_.ranks());
    const std::uint32_t mine = class_in(group, s.position);
    Sends& sends = of_family[mine];
    if (!sends.aims.empty()) return sends;
    const Schedule& schedule = *phase.schedule;
    const auto first = static_cast<std::size_t>(schedule.send_ptr[s.program()]);
    for (std::size_t k = first; k < first + s.sends; ++k) {
        const auto to = static_cast<std::uint32_t>(s.base + peer_of(schedule, s.index, schedule.send_peer[k]) * phase.stride);
        sends.aims.push_back(find_aim(group, mine, phase, to, static_cast<std::uint32_t>(schedule.send_match[k])));
    }
    sends.together = find_trains(sends.aims, s);
    return sends;
}

// A message of class `mine` to place `to` of its group. The class there has it from an equal at `from` in its own group.
Aim Quotient::find_aim(std::uint32_t group, std::uint32_t mine, const Phase& phase, std::uint32_t to, std::uint32_t receive) const {
    const std::uint32_t kind = kind_of(group), receiver = rank_at(seats_[kind][mine], to);
    const auto other = static_cast<std::uint32_t>(classes_.of[receiver]);
    const Seat& theirs = seats_[kind][other];
    const Schedule& schedule = *phase.schedule;
    const int index = index_in(phase, theirs.place);
    const auto program = static_cast<std::size_t>(schedule.program[static_cast<std::size_t>(index)]);
    const auto r = static_cast<std::size_t>(schedule.recv_ptr[program]) + receive;
    const std::uint32_t source =
        rank_at(theirs, static_cast<std::uint32_t>(static_cast<int>(theirs.place) +
                                                   (peer_of(schedule, index, schedule.recv_peer[r]) - index) * phase.stride));
    auto position = other;
    if (group < groups_.size()) {
        const auto& classes = groups_[group];
        position = static_cast<std::uint32_t>(std::lower_bound(classes.begin(), classes.end(), static_cast<std::int32_t>(other)) -
                                              classes.begin());
    }
    return {position, receive, source,
            flight(static_cast<std::uint32_t>(classes_.first[mine]), receiver, source, static_cast<std::uint32_t>(classes_.first[other]))};
}

// Whether a message goes through one switch and no other dim, at both its ends.
bool Quotient::through_switch(const Flight& flight, std::size_t& dim) const {
    const Geometry geometry(whole_.network);
    std::size_t crossed = 0;
    for (std::size_t d = 0; d < whole_.network.dims.size(); ++d) {
        const bool leaves = geometry.coordinate(flight.source, d) != geometry.coordinate(flight.destination, d);
        if (leaves != (geometry.coordinate(flight.from, d) != geometry.coordinate(flight.to, d))) return false;
        if (leaves) dim = d, ++crossed;
    }
    return crossed == 1 && whole_.network.dims[dim].shape == Shape::switch_;
}

// Trains: a phase in which every participant sends to every other through a switch has n - 1 equal messages that leave one port in one go and
// come to that of an equal one after the other. Per send, how many messages leave with it: those released by the same receive, of one
// size, to equals of the sender through one switch, whose receives stand in the same order. No other send may wait for a part of them:
// they count as complete with the last.
std::vector<std::uint32_t> Quotient::find_trains(const std::vector<Aim>& aims, const ChunkState& s) const {
    const Schedule& schedule = *s.now().schedule;
    std::vector<std::uint32_t> together(s.sends, 1);
    const auto program = static_cast<std::size_t>(schedule.program[static_cast<std::size_t>(s.index)]);
    const auto send = static_cast<std::size_t>(schedule.send_ptr[program]), receive = static_cast<std::size_t>(schedule.recv_ptr[program]);
    const auto needs = [&](std::uint32_t k) { return schedule.send_needs[send + k]; };
    const auto match = [&](std::uint32_t k) { return schedule.send_match[send + k]; };
    const auto blocks = [&](std::uint32_t k) { return schedule.send_block_ptr[send + k + 1] - schedule.send_block_ptr[send + k]; };
    const auto reduces = [&](std::uint32_t k) { return schedule.recv_reduce[receive + static_cast<std::size_t>(match(k))]; };
    for (std::size_t q = 0; q + 1 < schedule.send_ptr.size; ++q)  // others are released in another order (run/schedules)
        if (!std::is_sorted(schedule.send_needs.data + schedule.send_ptr[q], schedule.send_needs.data + schedule.send_ptr[q + 1]))
            return together;
    std::vector<std::size_t> dim(aims.size(), nowhere);
    for (std::uint32_t k = 0; k < s.sends; ++k)
        if (std::size_t d = 0; aims[k].position == s.position && through_switch(aims[k].flight, d)) dim[k] = d;
    const auto follows = [&](std::uint32_t k) {
        return dim[k] != nowhere && dim[k] == dim[k - 1] && needs(k) == needs(k - 1) && match(k) == match(k - 1) + 1 &&
               blocks(k) == blocks(k - 1) && reduces(k) == reduces(k - 1);
    };
    for (std::uint32_t begin = 0, end = 0; begin < s.sends; begin = end) {
        for (end = begin + 1; end < s.sends && follows(end); ++end) {}
        bool whole = true;
        for (std::uint32_t k = 0; k < s.sends && end > begin + 1; ++k)
            whole = whole && (needs(k) <= match(begin) || needs(k) > match(end - 1));
        if (whole) together[begin] = end - begin;
    }
    return together;
}

// Of a send; its tag is the slot of the receive.
Aim Quotient::aim(std::uint32_t cls, std::size_t slot) const {
    const auto rank = static_cast<std::size_t>(classes_.first[cls]),
               peer = static_cast<std::size_t>(classes_.first[static_cast<std::size_t>(slot_a_[slot])]);
    const std::size_t own = static_cast<std::size_t>(whole_.slot_ptr[rank]) + slot - static_cast<std::size_t>(slot_ptr_[cls]);
    const auto source = static_cast<std::uint32_t>(
        whole_.slot_a[static_cast<std::size_t>(whole_.slot_ptr[peer]) + static_cast<std::size_t>(slot_b_[slot])]);
    return {
        nothing, 0, source,
        flight(static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(whole_.slot_a[own]), source, static_cast<std::uint32_t>(peer))};
}

bool Quotient::ordered(std::uint32_t cls, std::uint32_t one, std::uint32_t other) {
    const auto [known, fresh] = ordered_.try_emplace({cls, one, other}, true);
    const auto sender = [this](std::size_t rank, std::uint32_t slot) {
        return whole_.slot_a[static_cast<std::size_t>(whole_.slot_ptr[rank]) + slot];
    };
    const auto order = [&](std::size_t rank) { return sender(rank, one) <=> sender(rank, other); };
    const auto first = order(static_cast<std::size_t>(classes_.first[cls]));
    for (std::size_t r = 0; fresh && known->second && r < whole_.ranks(); ++r)
        if (classes_.of[r] == static_cast<std::int32_t>(cls)) known->second = order(r) == first;
    return known->second;
}

// Messages of several ranks that come to one port at one instant and mean the same to it go by their ranks.
void Quotient::check_ties(const Message& m, const std::vector<Ports::Order>& others) {
    for (const Ports::Order& other : others)
        if (m.purpose != Message::node ||
            !ordered(static_cast<std::uint32_t>(slot_of(m.flight.to)), other.slot, static_cast<std::uint32_t>(m.tag)))
            throw Unfoldable{"messages of several ranks reach one port at one instant"};
}

}  // namespace astrarium
