// A station that serves packets with data and packets without in turn, where others serve packets in order of arrival.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "gpu/event.hpp"

namespace astrarium::gpu {

// Packets that wait: a lane for each class (with data, without).
class Arbiter {
public:
    Tick since = 0;  // when the first of those that wait came, after a time in which none did

    bool empty() const { return lanes_[0].empty() && lanes_[1].empty(); }

    // A packet comes. A class that had none waiting has its turn after the other.
    void put(bool data, const Event& event) {
        if (empty()) since = event.time;
        if (lanes_[!data].empty()) turn_ = data;
        lanes_[data].put(event);
    }

    // The first packet of the class whose turn it is; its next turn comes after the other's.
    Event take() {
        const bool data = turn_;
        if (!lanes_[!data].empty()) turn_ = !data;
        return lanes_[data].take();
    }

private:
    // A queue in a ring that grows.
    class Lane {
    public:
        bool empty() const { return first_ == end_; }
        void put(const Event& event) {
            if (end_ - first_ == ring_.size()) grow();
            ring_[end_++ & (ring_.size() - 1)] = event;
        }
        Event take() { return ring_[first_++ & (ring_.size() - 1)]; }

    private:
        std::vector<Event> ring_;
        std::size_t first_ = 0, end_ = 0;

        void grow() {
            std::vector<Event> larger(ring_.empty() ? 16 : 2 * ring_.size());
            for (std::size_t at = first_; at < end_; ++at) larger[at & (larger.size() - 1)] = ring_[at & (ring_.size() - 1)];
            ring_.swap(larger);
        }
    };
    std::array<Lane, 2> lanes_;
    bool turn_ = false;
};

}  // namespace astrarium::gpu
