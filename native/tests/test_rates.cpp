// Work at a speed that changes, against a count ps by ps.
#include "check.hpp"
#include "plan/rates.hpp"

namespace astrarium::tests {

TEST(rates_end_work_as_a_count_of_every_ps_does) {
    Random random(3);
    for (int round = 0; round < 300; ++round) {
        Rates rates;
        std::int64_t speeds[200];
        std::int64_t speed = Rates::full;
        for (int t = 0; t < 200; ++t) {
            if (random.below(20) == 0) rates.add(4, t, speed = static_cast<std::int64_t>(random.below(5)) * (Rates::full / 4));
            speeds[t] = speed;
        }
        const auto start = static_cast<Tick>(random.below(150)), work = static_cast<Tick>(1 + random.below(60));
        std::int64_t left = work * Rates::full;
        Tick end = never;
        for (Tick t = start; t < 100'000 && end == never; ++t) {
            left -= t < 200 ? speeds[t] : speed;
            if (left <= 0) end = t + 1;
        }
        CHECK(rates.finish(4, start, work) == end);
        CHECK(rates.finish(5, start, work) == start + work);  // nothing changes there
        CHECK(rates.speed(4, start) == speeds[start]);
    }
}

}  // namespace astrarium::tests
