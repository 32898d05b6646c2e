// Instructions in flight of one GPU: requests that a wavefront issued in a row, outstanding until the last one is back.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "gpu/queue.hpp"

namespace astrarium::gpu {

struct Instruction {
    std::uint64_t key;  // of its first request, without stage
    Tick issued, done;
    std::uint32_t wavefront, count, left, value;  // value: of a poll
    std::uint16_t peer;
    Packet kind;
};

class Instructions {
public:
    explicit Instructions(Queue& queue) : queue_(queue) {}

    std::uint32_t add(const Instruction& instruction) {
        if (spare_.empty()) {
            all_.push_back(instruction);
            return static_cast<std::uint32_t>(all_.size() - 1);
        }
        const std::uint32_t id = spare_.back();
        spare_.pop_back();
        all_[id] = instruction;
        return id;
    }
    void over(std::uint32_t id) { spare_.push_back(id); }
    const Instruction& operator[](std::uint32_t id) const { return all_[id]; }

    // A request is back at `when`, which may be later than now.
    void back(std::uint32_t id, Tick when) {
        Instruction& it = all_[id];
        it.done = std::max(it.done, when);
        if (--it.left == 0) {
            Event event{it.done, it.key, 0, id, 0, 0, 0, it.kind, Stage::done};
            event.set(Stage::done);
            queue_.push(event);
        }
    }

private:
    Queue& queue_;
    std::vector<Instruction> all_;
    std::vector<std::uint32_t> spare_;
};

}  // namespace astrarium::gpu
