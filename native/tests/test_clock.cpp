// The clock against a sorted list.
#include <algorithm>
#include <tuple>

#include "check.hpp"
#include "clock/batches.hpp"

namespace astrarium::tests {
namespace {

using Seen = std::tuple<Tick, int, std::uint64_t, std::uint64_t, std::uint64_t>;  // time, class, high, low, b

Keyed event(std::uint64_t high, std::uint64_t low, std::uint32_t kind, std::uint64_t b) { return {high, low, kind, 0, b}; }

}  // namespace

TEST(clock_runs_events_by_time_class_and_key) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        Random random(seed);
        BatchClock clock;
        clock.strict = true;
        std::vector<Seen> wanted, seen;
        for (std::uint64_t i = 0; i < 400; ++i) {
            const auto time = static_cast<Tick>(random.below(seed % 2 ? 40 : std::uint64_t{1} << 60));
            const auto cls = static_cast<int>(random.below(BatchClock::classes));
            const Seen one{time, cls, random.below(4), random.below(4), cls == BatchClock::arrive ? i : 0};
            clock.at(time, static_cast<BatchClock::Class>(cls),
                     event(std::get<2>(one), std::get<3>(one), static_cast<std::uint32_t>(cls), std::get<4>(one)));
            wanted.push_back(one);
        }
        std::sort(wanted.begin(), wanted.end());
        clock.run([&](const Keyed& e) { seen.emplace_back(clock.now, e.kind, e.high, e.low, e.b); });
        CHECK(seen == wanted);
        CHECK(clock.empty() && clock.handled == wanted.size());
    }
}

TEST(clock_goes_back_to_the_lowest_class_of_an_instant) {
    BatchClock clock;
    std::vector<std::uint32_t> order;
    clock.at(5, BatchClock::depart, event(0, 0, 1, 0));
    clock.at(5, BatchClock::arrive, event(0, 0, 2, 0));
    clock.run([&](const Keyed& e) {
        order.push_back(e.kind);
        if (e.kind == 1) clock.at(5, BatchClock::done, event(0, 0, 3, 0)), clock.at(9, BatchClock::done, event(0, 0, 4, 0));
    });
    CHECK((order == std::vector<std::uint32_t>{1, 3, 2, 4}));
    CHECK(clock.now == 9);
}

namespace {

struct Arrivals {  // arrivals 10, 11 and so on have the keys 0, 1 and so on
    std::vector<std::uint64_t>& seen;
    void event(const Keyed& e) const { seen.push_back(e.high); }
    void arrival(std::uint32_t number) const { seen.push_back(number); }
    Keyed key(std::uint32_t number) const { return event_of(number - 10); }
    void soon(const Keyed&) const {}
    static Keyed event_of(std::uint64_t high) { return {high, 0, 0, 0, 0}; }
};

}  // namespace

TEST(clock_asks_for_the_keys_of_arrivals_only_where_it_needs_them) {
    BatchClock clock;
    std::vector<std::uint64_t> seen;
    clock.arrival(7, 12);  // alone in its instant
    for (const std::uint32_t number : {14u, 11u}) clock.arrival(9, number);
    clock.at(9, BatchClock::arrive, Arrivals::event_of(3));
    clock.at(9, BatchClock::depart, Arrivals::event_of(5));
    while (!clock.empty()) clock.instant(Arrivals{seen});
    CHECK((seen == std::vector<std::uint64_t>{12, 5, 1, 3, 4}));
    CHECK(clock.handled == 5);
}

TEST(clock_schedules_while_it_runs) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        Random random(seed);
        BatchClock clock;
        Tick last = 0;
        std::uint64_t left = 5000, ran = 0;
        clock.at(0, BatchClock::done, event(0, 0, 0, 0));
        clock.run([&](const Keyed&) {
            CHECK(clock.now >= last);
            last = clock.now, ++ran;
            for (std::uint64_t n = random.below(4); n > 0 && left > 0; --n, --left)
                clock.at(clock.now + static_cast<Tick>(random.below(std::uint64_t{1} << random.below(50))), BatchClock::done,
                         event(0, 0, 0, 0));
        });
        CHECK(ran == 5001 - left);
    }
}

}  // namespace astrarium::tests
