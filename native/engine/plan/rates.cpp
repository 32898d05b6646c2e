#include "plan/rates.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

namespace astrarium {

const std::vector<Rates::Step>* Rates::of(std::size_t which) const {
    const auto found = steps_.find(which);
    return found == steps_.end() ? nullptr : &found->second;
}

void Rates::copy(std::size_t which, std::size_t as, Rates& to) const {
    if (const auto* steps = of(which)) to.steps_[as] = *steps;
}

Tick Rates::finish(std::size_t which, Tick start, Tick work) const {
    const auto* steps = of(which);
    if (!steps) return astrarium::add(start, work);
    auto next = std::upper_bound(steps->begin(), steps->end(), start, [](Tick time, const Step& step) { return time < step.time; });
    Tick now = start;
    for (Wide left = static_cast<Wide>(work) * full; left > 0; ++next) {
        const std::int64_t speed = next == steps->begin() ? full : std::prev(next)->speed;
        const Tick until = next == steps->end() ? never : next->time;
        if (left <= static_cast<Wide>(speed) * (until - now)) return now + static_cast<Tick>((left + speed - 1) / speed);
        if (until == never && speed == 0) return never;
        if (until == never) throw Unsupported("time exceeds 2^63 ps (106 days)");
        left -= static_cast<Wide>(speed) * (until - now);
        now = until;
    }
    return now;
}

std::int64_t Rates::speed(std::size_t which, Tick at) const {
    const auto* steps = of(which);
    if (!steps) return full;
    const auto next = std::upper_bound(steps->begin(), steps->end(), at, [](Tick time, const Step& step) { return time < step.time; });
    return next == steps->begin() ? full : std::prev(next)->speed;
}

Tick Rates::stops(std::size_t which) const {
    const auto* steps = of(which);
    Tick since = never;
    for (auto step = steps ? steps->rbegin() : std::vector<Step>::const_reverse_iterator();
         steps && step != steps->rend() && step->speed == 0; ++step)
        since = step->time;
    return since;
}

bool Rates::stop() const {
    return std::any_of(steps_.begin(), steps_.end(), [](const auto& each) {
        return std::any_of(each.second.begin(), each.second.end(), [](const Step& step) { return step.speed == 0; });
    });
}

std::vector<std::pair<Tick, std::size_t>> Rates::changes() const {
    std::vector<std::pair<Tick, std::size_t>> all;
    for (const auto& [which, steps] : steps_)
        for (const Step& step : steps) all.emplace_back(step.time, which);
    std::sort(all.begin(), all.end());
    return all;
}

std::shared_ptr<const Rates> rates_of(const Changes& changes, Changing what) {
    std::vector<std::size_t> rows(changes.time.size);
    std::iota(rows.begin(), rows.end(), 0);
    std::erase_if(rows, [&](std::size_t row) { return changes.what[row] != static_cast<std::uint8_t>(what); });
    if (rows.empty()) return nullptr;
    std::stable_sort(rows.begin(), rows.end(), [&](std::size_t a, std::size_t b) { return changes.time[a] < changes.time[b]; });
    auto out = std::make_shared<Rates>();
    for (const std::size_t row : rows) out->add(static_cast<std::size_t>(changes.number[row]), changes.time[row], changes.factor[row]);
    return out;
}

std::string where_it_stands(const Plan& plan, std::uint32_t rank) {
    const std::int32_t npu = plan.npu_of[rank];
    const Tick since = plan.npu_rates ? plan.npu_rates->stops(static_cast<std::size_t>(npu)) : never;
    return since == never ? "" : "NPU " + std::to_string(npu) + " stands still for ever, since " + std::to_string(since) + " ps";
}

bool has_link(const Dim& dim, int place, std::size_t port) {
    switch (dim.shape) {
        case Shape::ring: return dim.npus > (port == 0 ? 1 : 2);
        case Shape::mesh: return port == 0 ? place + 1 < dim.npus : place > 0;
        case Shape::fully_connected: return port != static_cast<std::size_t>(place);
        case Shape::hypercube: return port + 1 < static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(dim.npus)));
        default: return dim.npus > 1;
    }
}

std::int64_t links_of(const Network& network) {
    std::int64_t npus = 1, links = 0;
    for (const Dim& dim : network.dims) npus *= dim.npus;
    for (const Dim& dim : network.dims) {
        const std::int64_t n = dim.npus;
        switch (dim.shape) {
            case Shape::ring: links += npus * std::min<std::int64_t>(n - 1, 2); break;
            case Shape::ring_one_way: links += npus * (n > 1); break;
            case Shape::switch_: links += 2 * npus * (n > 1); break;
            case Shape::fully_connected: links += npus * (n - 1); break;
            case Shape::mesh: links += npus / n * 2 * (n - 1); break;
            case Shape::hypercube: links += npus * std::countr_zero(static_cast<unsigned>(n)); break;
        }
    }
    return links;
}

}  // namespace astrarium
