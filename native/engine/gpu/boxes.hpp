// Packets on their way from one GPU to others, by distance: those of the window that is run, and those of the window before, which the
// others take. A GPU sends in blocks that it emptied before, so memory is needed only for the packets that are on their way.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "gpu/event.hpp"

namespace astrarium::gpu {

class Boxes {
public:
    explicit Boxes(std::size_t gpus) {
        for (auto& row : heads_) row.resize(gpus);
    }

    Tick soonest = never;  // when the first packet of the window that is run arrives

    // The window that is run from now on.
    void turn(std::size_t parity) { turn_ = parity, soonest = never; }

    void send(std::uint32_t distance, const Event& event) {
        Block*& head = heads_[turn_][distance];
        if (!head || head->count == Block::most) head = block(head);
        head->events[head->count++] = event;
        if (event.time < soonest) soonest = event.time;
    }

    // Empties the box of `from` for the GPU at a distance, whose packets were sent in the window before.
    template <class Visit>
    void take(Boxes& from, std::uint32_t distance, Visit&& visit) {
        for (Block* it = std::exchange(from.heads_[1 - turn_][distance], nullptr); it;) {
            for (std::uint32_t i = 0; i < it->count; ++i) visit(it->events[i]);
            it = std::exchange(it->next, std::exchange(spare_, it));
        }
    }

private:
    struct alignas(64) Block {
        static constexpr std::uint32_t most = 15;
        Event events[most];
        Block* next;
        std::uint32_t count;
    };

    std::array<std::vector<Block*>, 2> heads_;
    std::size_t turn_ = 0;
    Block* spare_ = nullptr;
    std::deque<Block> all_;  // that this GPU made

    Block* block(Block* next) {
        Block* const it = spare_ ? std::exchange(spare_, spare_->next) : &all_.emplace_back();
        it->next = next, it->count = 0;
        return it;
    }
};

}  // namespace astrarium::gpu
