// Which collective of one rank belongs to which of the others: the k-th that each issues on a group is one meeting.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "astra/astra_stream.hpp"
#include "nodes/groups.hpp"
#include "plan/plan.hpp"

namespace astrarium {

// What was chosen for a phase of a chunk when its collective was issued.
struct Route {
    std::uint16_t bits = 0;
    std::uint32_t queue() const { return bits & 0x3fff; }
    std::int32_t direction() const { return bits >> 14 & 1 ? -1 : 1; }
    bool root_first() const { return bits >> 15; }
};

struct Meeting {  // one collective of one group in flight
    const Collective* collective;
    std::uint32_t group, members, chunks, phases, streams, serial, ended;  // chunks: per member; streams: the first
    std::vector<std::uint32_t> node, left;                                 // per member: its node, its unfinished chunks
    std::vector<Route> routes;                                             // per member, chunk, phase
    std::vector<std::int16_t> surplus;        // per member, chunk, phase, source: arrivals minus posted receives
    std::vector<std::uint32_t> phase_offset;  // per phase: into a chunk's part of surplus
    std::uint32_t surplus_width;              // a chunk's part

    std::size_t chunk_of(std::uint32_t position, std::uint32_t chunk) const { return static_cast<std::size_t>(position) * chunks + chunk; }
};

class AstraMeetings {
public:
    // `alone`: one member runs, and stands for all.
    AstraMeetings(const Plan& plan, bool alone, Streams& streams);

    // The meeting that the rank's next collective on a group belongs to. Throws BadTrace where others issued another one.
    std::uint32_t join(std::uint32_t group, std::uint32_t position, const Collective& collective, std::uint32_t rank, std::uint32_t node);
    void member_ended(std::uint32_t meeting);  // with the last one the meeting is over, and its streams free

    // The group that a collective node of the rank names, and the rank's position in it. Throws BadTrace.
    std::pair<std::uint32_t, std::uint32_t> place(std::int32_t group, std::uint32_t rank, std::uint32_t node);
    std::uint32_t everybody() const { return membership_.all(); }

    Meeting& operator[](std::uint32_t meeting) { return meetings_[meeting]; }
    const Meeting& of(const Stream& s) const { return meetings_[s.meeting]; }
    Route& route(std::uint32_t meeting, std::uint32_t position, std::uint32_t chunk, std::size_t phase) {
        Meeting& m = meetings_[meeting];
        return m.routes[m.chunk_of(position, chunk) * m.phases + phase];
    }
    const std::vector<Phase>& phases_of(const Stream& s) const;

    // The rank, or the stream of the same chunk, at a place of the stream's ring.
    std::uint32_t rank_at(const Stream& s, std::uint32_t place) const { return rank_of(s, position_at(s, place)); }
    std::uint32_t stream_at(const Stream& s, std::uint32_t place) const {
        const Meeting& m = of(s);
        return m.streams + (alone_ ? 0 : position_at(s, place)) * m.chunks + s.chunk;
    }
    std::uint32_t rank_of(const Stream& s, std::uint32_t position) const { return membership_.rank(of(s).group, position); }

    // Messages from a source that came to a chunk in a phase, minus receives for them.
    std::int16_t& surplus(const Stream& s, std::uint32_t phase, std::uint32_t source) {
        Meeting& m = meetings_[s.meeting];
        return m.surplus[m.chunk_of(s.position, s.chunk) * m.surplus_width + m.phase_offset[phase] + source];
    }

    void explain(std::uint32_t rank, Wait& wait) const;  // for whom its open collectives wait

private:
    static constexpr std::uint32_t none = 0xffffffffu;
    struct Group {
        std::vector<std::uint32_t> issued;                         // per member
        std::deque<std::pair<std::uint32_t, std::uint32_t>> open;  // which of the group's, meeting
    };
    std::uint32_t position_at(const Stream& s, std::uint32_t place) const {
        return static_cast<std::uint32_t>(s.base) + place * static_cast<std::uint32_t>(s.phase->stride);
    }
    std::uint32_t open(std::uint32_t group, const Collective& collective);
    void check_same(const Collective& mine, const Collective& other, std::uint32_t number, std::uint32_t rank, std::uint32_t node) const;

    const Plan& plan_;
    const bool alone_;
    Streams& streams_;
    Membership membership_;
    std::vector<Group> groups_;  // [groups] + all ranks
    std::vector<Meeting> meetings_;
    std::vector<std::uint32_t> free_;
    std::uint32_t serial_ = 0;
};

}  // namespace astrarium
