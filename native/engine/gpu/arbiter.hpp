// A station that serves the sources of its packets in turn, where others serve packets in order of arrival.
#pragma once
#include <cstdint>
#include <deque>
#include <vector>

#include "gpu/event.hpp"

namespace astrarium::gpu {

// Packets that wait: a lane for each source that has some, in the order of their turns.
class Arbiter {
public:
    Tick since = 0;  // when the first of those that wait came, after a time in which none did

    bool empty() const { return lanes_.empty(); }

    // A packet comes. A source that had none waiting has its turn after all others.
    void put(std::uint32_t source, const Event& event) {
        if (lanes_.empty()) since = event.time;
        const std::uint32_t id = add(event);
        for (Lane& lane : lanes_) {
            if (lane.source != source) continue;
            nodes_[lane.last].next = id, lane.last = id;
            return;
        }
        lanes_.push_back({source, id, id});
    }

    // The first packet of the source whose turn it is; its next turn comes after all others.
    Event take() {
        Lane lane = lanes_.front();
        lanes_.pop_front();
        const std::uint32_t id = lane.first;
        spare_.push_back(id);
        if (id != lane.last) {
            lane.first = nodes_[id].next;
            lanes_.push_back(lane);
        }
        return nodes_[id].event;
    }

private:
    struct Lane {
        std::uint32_t source, first, last;
    };
    struct Node {
        Event event;
        std::uint32_t next;
    };
    std::deque<Lane> lanes_;
    std::vector<Node> nodes_;
    std::vector<std::uint32_t> spare_;

    std::uint32_t add(const Event& event) {
        if (spare_.empty()) {
            nodes_.push_back({event, 0});
            return static_cast<std::uint32_t>(nodes_.size() - 1);
        }
        const std::uint32_t id = spare_.back();
        spare_.pop_back();
        nodes_[id].event = event;
        return id;
    }
};

}  // namespace astrarium::gpu
