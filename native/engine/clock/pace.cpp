#include "clock/pace.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <stdexcept>
#include <tuple>

namespace astrarium {

namespace {

using Event = std::tuple<double, int, int, int, int>;  // time, chunk, number of its phase, stride, how often done

class Pace {
public:
    Pace(const std::vector<std::vector<Stride>>& phases, const std::vector<std::vector<int>>& paths, const std::vector<int>& chunks,
         int limit, double entry)
        : phases_(phases), paths_(paths), chunks_(chunks), limit_(limit), entry_(entry), reached_(chunks.size()) {
        std::size_t numbers = 0;
        int ports = 0;
        for (const int chunk : chunks) numbers = std::max(numbers, paths.at(static_cast<std::size_t>(chunk)).size());
        for (const auto& phase : phases)
            for (const Stride& stride : phase) ports = std::max(ports, stride.port + 1);
        entered_.resize(numbers), inside_.resize(numbers);
        free_.resize(static_cast<std::size_t>(ports));
    }

    double run() {
        double end = 0;
        advance(0, 0.0);
        while (!events_.empty()) {
            const auto [now, chunk, number, place, done] = events_.top();
            events_.pop();
            const auto& strides = phase(chunk, number);
            if (static_cast<std::size_t>(place) == strides.size()) {
                end = std::max(end, now);
                leave(chunk, number, now);
                continue;
            }
            const Stride& s = strides[static_cast<std::size_t>(place)];
            double& free = free_[static_cast<std::size_t>(s.port)];
            free = std::max(now, free) + s.service;
            const bool more = done + 1 < s.times;
            events_.emplace(free + s.latency, chunk, number, more ? place : place + 1, more ? done + 1 : 0);
        }
        return end;
    }

private:
    const std::vector<Stride>& phase(int chunk, int number) const {
        return phases_.at(static_cast<std::size_t>(path(chunk).at(static_cast<std::size_t>(number))));
    }
    const std::vector<int>& path(int chunk) const { return paths_.at(static_cast<std::size_t>(chunks_[static_cast<std::size_t>(chunk)])); }

    void advance(int number, double now) {
        const auto n = static_cast<std::size_t>(number);
        while (n < entered_.size() && static_cast<std::size_t>(entered_[n]) < chunks_.size()) {
            const int chunk = entered_[n];
            if (reached_[static_cast<std::size_t>(chunk)] != number || (limit_ > 0 && inside_[n] >= limit_)) return;
            ++entered_[n], ++inside_[n];
            events_.emplace(now + entry_, chunk, number, 0, 0);
        }
    }

    void leave(int chunk, int number, double now) {
        reached_[static_cast<std::size_t>(chunk)] = number + 1;
        --inside_[static_cast<std::size_t>(number)];
        advance(number + 1, now);
        advance(number, now);
    }

    const std::vector<std::vector<Stride>>& phases_;
    const std::vector<std::vector<int>>& paths_;
    const std::vector<int>& chunks_;
    int limit_;
    double entry_;
    std::vector<int> reached_, entered_, inside_;
    std::vector<double> free_;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

}  // namespace

double pace(const std::vector<std::vector<Stride>>& phases, const std::vector<std::vector<int>>& paths, const std::vector<int>& chunks,
            int limit, double entry) {
    for (const auto& phase : phases)
        for (const Stride& s : phase)
            if (s.port < 0 || s.port > 1 << 16 || s.times < 1) throw std::invalid_argument("a stride out of range");
    return Pace(phases, paths, chunks, limit, entry).run();
}

}  // namespace astrarium
