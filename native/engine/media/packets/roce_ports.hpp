// What a link keeps under RoCE: packets at its begin, bytes in the buffer at its end.
#pragma once
#include <queue>
#include <utility>
#include <vector>

#include "media/packets/dcqcn.hpp"
#include "media/packets/events.hpp"

namespace astrarium::packets {

template <class T, std::size_t few = 64>
struct Fifo {
    std::vector<T> all;
    std::size_t head = 0;
    bool empty() const { return head == all.size(); }
    T& front() { return all[head]; }
    T& back() { return all.back(); }
    template <class... Of>
    void push(Of&&... one) {
        all.emplace_back(std::forward<Of>(one)...);
    }
    void pop() {
        if (++head == all.size()) all.clear(), head = 0;
        else if (head >= few && 2 * head >= all.size()) all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(head)), head = 0;
        __builtin_prefetch(all.data() + head);  // a packet time before it starts
    }
    void put_back(const T& one) { all.insert(all.begin() + static_cast<std::ptrdiff_t>(head), one); }
};

struct WaitingFlow {  // a flow at its first link
    Tick allowed;
    std::int32_t destination;
    std::uint32_t flow;
    bool operator>(const WaitingFlow& o) const { return allowed != o.allowed ? allowed > o.allowed : destination > o.destination; }
};

struct alignas(64) RocePort {
    // What packets of switches touch, in two lines of the cache.
    Fifo<Parcel> queue;
    Tick free = 0, latency = 0;
    std::int32_t source = 0, target = 0;  // nodes
    std::int64_t waiting = 0;
    std::int64_t peak = 0;
    Fifo<Parcel> control;
    const RoceRules* rules = nullptr;  // of its rate; null: inside a host
    bool paused = false, own_before = false, touched = false;
    bool leaves = false;  // an event says when what it sends has left
    Tick timer = never;   // when it is touched, unless it is never or over
    std::priority_queue<WaitingFlow, std::vector<WaitingFlow>, std::greater<WaitingFlow>> own;
    std::int64_t marks = 0, pauses = 0;
    Tick paused_at = 0, paused_for = 0;
    bool waits() const { return !queue.empty() || !control.empty() || !own.empty(); }
    // Whether a packet that comes now would be its first.
    bool idle(Tick now) const {
        return free <= now && !paused && !touched && queue.empty() && control.empty() && (own.empty() || own.top().allowed > now);
    }
};

struct RoceIngress {  // a link at its end
    std::int64_t bytes = 0, peak = 0;
    const RoceRules* rules = nullptr;  // as its port's
    bool paused = false;
};

}  // namespace astrarium::packets
