// A rank's ready nodes, lowest number first, apart by the lane they need.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "plan/plan.hpp"

namespace astrarium {

class ReadySet {
public:
    void push(int lane, std::uint32_t node) {
        auto& heap = heaps_[static_cast<std::size_t>(lane + 1)];
        heap.push_back(node);
        std::push_heap(heap.begin(), heap.end(), std::greater<>());
        ++size_;
    }
    bool empty() const { return size_ == 0; }
    bool empty(int lane) const { return heaps_[static_cast<std::size_t>(lane + 1)].empty(); }
    std::uint32_t lowest(int lane) const { return heaps_[static_cast<std::size_t>(lane + 1)].front(); }
    void pop(int lane) {
        auto& heap = heaps_[static_cast<std::size_t>(lane + 1)];
        std::pop_heap(heap.begin(), heap.end(), std::greater<>());
        heap.pop_back();
        --size_;
    }
    std::uint32_t take(int lane, std::uint32_t node) {
        auto& heap = heaps_[static_cast<std::size_t>(lane + 1)];
        heap.erase(std::find(heap.begin(), heap.end(), node));
        std::make_heap(heap.begin(), heap.end(), std::greater<>());
        --size_;
        return node;
    }
    const std::vector<std::uint32_t>& all(int lane) const { return heaps_[static_cast<std::size_t>(lane + 1)]; }

private:
    std::vector<std::uint32_t> heaps_[lane_count + 1];
    std::uint32_t size_ = 0;
};

}  // namespace astrarium
