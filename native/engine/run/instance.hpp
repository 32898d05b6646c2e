// A collective under way: its members, and where each of their chunks is.
#pragma once
#include <cstdint>
#include <vector>

#include "media/medium.hpp"
#include "run/what.hpp"

namespace astrarium {

// One rank per class: what is known of a class's sends in a phase.
struct Aim {
    std::uint32_t position = nothing, receive = 0;  // of the receiving class among the members, and what it receives
    std::uint32_t source = 0;                       // the rank from which its equal's arrives
    Flight flight;
};
struct Sends {
    std::vector<Aim> aims;
    std::vector<std::uint32_t> together;  // messages of the train that begins here; of others 1
};

struct ChunkState {  // one chunk at one member: its current phase
    std::uint32_t instance = 0, position = 0, chunk = 0;
    std::int32_t phase = -1;  // -1 before the first
    bool inside = false;
    const std::vector<Phase>* phases = nullptr;
    const Phase& now() const { return (*phases)[static_cast<std::size_t>(phase)]; }
    std::int32_t index = 0, base = 0;
    std::int32_t node = -1;  // of a switch that computes, which is in one phase only
    std::uint32_t next_send = 0, sends = 0, receives = 0, prefix = 0, complete = 0, undelivered = 0;
    std::size_t bits = 0;          // into delivered/complete of the instance, for the current phase
    Tick over = 0;                 // when those of its sends and receives are over that have no event of their own
    const Sends* known = nullptr;  // one rank per class, once asked for

    // At the beginning of a phase, at a place of the group.
    void enter(std::uint32_t phase_number, std::uint32_t place, std::size_t first_bit);
    void enter_at(std::uint32_t phase_number, std::int32_t at, std::int32_t first, std::size_t first_bit);
    std::size_t program() const { return static_cast<std::size_t>(now().schedule->program[static_cast<std::size_t>(index)]); }
    bool starts() const;  // some send waits for nothing
};

struct Member {
    std::uint32_t rank = 0, node = nothing, chunks_left = 0;
    Tick free = 0;                             // when its phases of given time are over
    std::vector<std::uint32_t> entered, left;  // per list of visits
    std::uint64_t key() const { return static_cast<std::uint64_t>(rank) << 32 | node; }
};

struct Instance {
    std::uint32_t collective = 0, group = 0, done = 0, serial = 0;
    std::vector<Member> members;
    std::vector<ChunkState> chunks;           // member * total_chunks + chunk
    std::vector<std::size_t> bit_base;        // per (member * total_chunks + chunk): first bit; phases follow
    std::vector<std::uint32_t> first_switch;  // per chunk and phase with switches: their first chunk state, behind those of members
    std::vector<std::uint64_t> delivered, complete;

    // The switches of a chunk's phase, by the first place of the circle that they serve.
    std::uint32_t switch_state(const Collective& c, const ChunkState& s, std::int32_t index) const {
        const auto circle = static_cast<std::uint32_t>(s.base / (s.now().stride * s.now().n) * s.now().stride + s.base % s.now().stride);
        return first_switch[s.chunk * static_cast<std::size_t>(c.max_phases) + static_cast<std::size_t>(s.phase)] +
               circle * static_cast<std::uint32_t>(s.now().switches()) + static_cast<std::uint32_t>(index - s.now().n);
    }
    // The chunks of all members, of which position p stands at place(p) in its group.
    template <class Place>
    void lay_chunks(std::uint32_t id, const Collective& c, Place&& place) {
        const auto count = static_cast<std::uint32_t>(c.total_chunks);
        chunks.resize(members.size() * count);
        std::size_t bits = 0;
        for (std::uint32_t p = 0; p < members.size(); ++p) lay_chunks_of(id, c, p, place(p), bits);
        if (c.in_switch) lay_switches(c, bits);
        delivered.assign((bits + 63) / 64, 0), complete.assign((bits + 63) / 64, 0);
    }

private:
    void lay_switches(const Collective& c, std::size_t& bits);
    void lay_chunks_of(std::uint32_t id, const Collective& c, std::uint32_t position, std::uint32_t place, std::size_t& bits);
};

struct Sender {                                        // a participant's chunk in its phase
    std::uint32_t instance, state, first, rank, node;  // first: of its sends in the schedule
    const Phase* phase;
    const Schedule* schedule;
    const ChunkState* chunk;
    const Sends* known;  // one rank per class
    std::uint32_t chunks;
    bool to_switch(std::uint32_t send) const { return schedule->switches > 0 && schedule->send_peer[send] >= schedule->n; }
    std::uint32_t receiver(std::uint32_t send) const {
        return static_cast<std::uint32_t>(chunk->base + peer_of(*schedule, chunk->index, schedule->send_peer[send]) * phase->stride);
    }
    std::int64_t size(std::uint32_t send) const {
        return (schedule->send_block_ptr[send + 1] - schedule->send_block_ptr[send]) * phase->block_size;
    }
};

inline bool bit(const std::vector<std::uint64_t>& words, std::size_t i) { return words[i >> 6] >> (i & 63) & 1; }
inline void set(std::vector<std::uint64_t>& words, std::size_t i) { words[i >> 6] |= std::uint64_t{1} << (i & 63); }

}  // namespace astrarium
