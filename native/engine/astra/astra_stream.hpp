// A stream: one chunk of a collective at one member, on its walk through its phases; the state of its machine stands in it.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "plan/plan.hpp"

namespace astrarium {

// What happens to a packet on its way through the door.
struct Packet {
    bool first, reduces, sends_back;
};

// ASTRA-sim's token counters (ring, direct, halving_doubling). They, not what a step does, say which packet is reduced.
struct Tokens {
    std::int32_t parallel = 1;  // tokens that are in the machine
    std::int32_t sends_left = 0;
    std::int32_t round = 0;  // packets of a round after its first `parallel` ones
    std::int32_t free = 0, inserted = 0, popped = 0, received = 0, zero = 0, nonzero = 0;
    bool odd = false;  // round

    // A packet goes in: the first `parallel` ones of each round are not reduced, in all_reduce nor are those of every second round.
    Packet next(int op) {
        if (zero == 0 && nonzero == 0) {
            zero = parallel;
            nonzero = round;
            odd = !odd;
        }
        const bool first = zero > 0;
        const bool reduces = !first && (op == op_reduce_scatter || (op == op_all_reduce && odd));
        const bool sends_back = !first && nonzero > parallel;
        --(first ? zero : nonzero);
        ++inserted;
        return {first, reduces, sends_back};
    }

    bool can_send() const { return inserted != popped && sends_left != 0 && free != 0; }
    void use() { --sends_left, ++popped, --free; }
    bool ended() const { return sends_left == 0 && free == parallel; }
};

// Places in a phase's ring; -1: none.
struct TreePlace {
    std::int32_t parent = -1, left = -1, right = -1;
};

enum class TreeState : std::uint8_t { begins, waits_for_two, waits_for_one, sends_up, waits_for_parent, sends_down, ends };

struct Stream {
    const Phase* phase;
    std::uint32_t id, meeting, position, rank, chunk;
    std::int32_t phase_number, priority;
    std::uint32_t queue, next;    // next: of equal priority, while it waits in its queue
    std::int32_t n, index, base;  // place in the phase's ring: `index` of n, `base` is the position of place 0
    std::int32_t direction;       // +1, -1
    bool started, local;
    bool root_first;                  // double_binary_tree: which of the two trees
    std::int64_t message;             // bytes of the next message
    Tick reduce_delay, delay, begun;  // delay: of a message of a ring, once known, else -1
    Tokens tokens;
    Tick last_wait, last_received;       // direct: when it last waited for messages, and when one came
    std::int64_t packet_size;            // halving_doubling: bytes of the packet that is on its way
    std::int32_t packet_step, distance;  // halving_doubling: partner distance of that packet (negative: on the way back), of the next
    bool halving;                        // halving_doubling: on the way there
    TreeState state;
    bool reduced;  // double_binary_tree: the first child's message
    TreePlace tree;

    std::uint32_t ahead(int steps) const { return static_cast<std::uint32_t>(wrapped(index + direction * steps)); }
    // A place of the ring from a number between -n and 2n - 1.
    int wrapped(int place) const { return place < 0 ? place + n : place < n ? place : place - n; }
};

// All streams, in blocks of one collective each; blocks are used again.
class Streams {
public:
    Stream& operator[](std::uint32_t id) { return all_[id]; }
    const Stream& operator[](std::uint32_t id) const { return all_[id]; }

    // The first of `count` consecutive ones. Moves all others.
    std::uint32_t take(std::uint32_t count) {
        auto& free = free_[count];
        if (!free.empty()) {
            const std::uint32_t first = free.back();
            free.pop_back();
            return first;
        }
        const auto first = static_cast<std::uint32_t>(all_.size());
        all_.resize(all_.size() + count);
        return first;
    }
    void give_back(std::uint32_t first, std::uint32_t count) { free_[count].push_back(first); }

private:
    std::vector<Stream> all_;
    std::map<std::uint32_t, std::vector<std::uint32_t>> free_;  // by their number
};

}  // namespace astrarium
