// Ready nodes, meetings of messages and receives, the pool.
#include <deque>
#include <map>
#include <set>

#include "check.hpp"
#include "nodes/meetings.hpp"
#include "nodes/pool.hpp"
#include "nodes/ready.hpp"

namespace astrarium::tests {

TEST(ready_set_gives_the_lowest_node_of_a_lane) {
    Random random(1);
    ReadySet ready;
    std::map<int, std::set<std::uint32_t>> wanted;
    std::uint32_t next = 0;
    for (int step = 0; step < 5000; ++step) {
        const int lane = static_cast<int>(random.below(lane_count + 1)) - 1;
        auto& nodes = wanted[lane];
        if (nodes.empty() || random.below(2)) {
            const std::uint32_t node = next++ ^ 0x55u;
            ready.push(lane, node), nodes.insert(node);
        } else if (random.below(2)) {
            CHECK(ready.lowest(lane) == *nodes.begin());
            ready.pop(lane), nodes.erase(nodes.begin());
        } else {
            const std::uint32_t node = *std::next(nodes.begin(), static_cast<std::ptrdiff_t>(random.below(nodes.size())));
            CHECK(ready.take(lane, node) == node);
            nodes.erase(node);
        }
        CHECK(ready.empty(lane) == nodes.empty());
    }
}

TEST(messages_meet_receives_in_order) {
    Random random(2);
    Meetings meetings;
    std::map<std::int64_t, std::deque<std::uint64_t>> waiting;
    std::map<std::int64_t, int> delivered;
    for (std::uint64_t step = 0; step < 5000; ++step) {
        const auto tag = static_cast<std::int64_t>(random.below(5));
        const MessageKey key{tag, 8, 0, 1};
        if (random.below(2)) {
            const bool there = delivered[tag] > 0;
            CHECK(meetings.post(key, step) == there);
            there ? void(--delivered[tag]) : waiting[tag].push_back(step);
        } else {
            const std::optional<std::uint64_t> met = meetings.deliver(key);
            CHECK(met.has_value() == !waiting[tag].empty());
            if (met) {
                CHECK(*met == waiting[tag].front());
                waiting[tag].pop_front();
            } else {
                ++delivered[tag];
            }
        }
    }
}

TEST(pool_keeps_addresses_and_copies) {
    Pool<int> pool;
    pool.emplace_back();
    const int* const first = &pool[0];
    for (int i = 1; i < 3000; ++i) pool.emplace_back(), pool[static_cast<std::size_t>(i)] = i;
    CHECK(first == &pool[0] && pool.size() == 3000);
    Pool<int> copy = pool;
    pool[2999] = 7;
    CHECK(copy[2999] == 2999 && copy.size() == 3000);
}

}  // namespace astrarium::tests
