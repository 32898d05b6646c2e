// Concepts of folding: the set of promoted collectives, the store of times, numbers of contents.
#include <set>

#include "check.hpp"
#include "accelerate/promotion.hpp"
#include "accelerate/memo/line_store.hpp"

namespace astrarium::tests {

TEST(conflicts_hold_what_was_inserted) {
    Random random(4);
    Conflicts conflicts;
    std::set<std::pair<std::uint32_t, std::uint32_t>> wanted;
    for (int i = 0; i < 500; ++i) {
        const auto kind = static_cast<std::uint32_t>(random.below(7)), serial = static_cast<std::uint32_t>(random.below(300));
        conflicts.insert(kind, serial), wanted.insert({kind, serial});
    }
    for (std::uint32_t kind = 0; kind < 9; ++kind)
        for (std::uint32_t serial = 0; serial < 320; ++serial)
            CHECK(conflicts.contains(kind, serial) == (wanted.count({kind, serial}) > 0));
}

TEST(equal_contents_have_equal_numbers) {
    LineStore store;
    const std::uint32_t one = store.number({1, 2, 3}), other = store.number({1, 2});
    CHECK(one != other);
    CHECK(store.number({1, 2, 3}) == one && store.number({1, 2}) == other);
    CHECK(store.number({}) != one && store.number({0}) != store.number({0, 0}));
}

TEST(patterns_of_times_differ_by_shape_only) {
    LineStore store;
    const Pattern early = store.pattern({10, 12, 19}), late = store.pattern({110, 112, 119}), other = store.pattern({10, 12, 20});
    CHECK(early.shape == late.shape && late.base - early.base == 100);
    CHECK(other.shape != early.shape);
    CHECK(store.last(late) == 119 && store.last(other) == 20);
}

TEST(a_stored_time_is_made_once) {
    LineStore store;
    int made = 0;
    const auto make = [&] { return ++made, std::make_shared<LineStore::Kept>(); };
    const auto first = store.measured({7, 7}, make), again = store.measured({7, 7}, make);
    CHECK(first == again && made == 1);
    store.measured({7, 8}, make);
    CHECK(made == 2 && store.bytes() > 0);
}

}  // namespace astrarium::tests
