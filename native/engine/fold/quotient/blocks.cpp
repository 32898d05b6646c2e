#include "fold/quotient/blocks.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "media/distance.hpp"

namespace astrarium {
namespace {

// Ranks that belong together.
class Parts {
public:
    explicit Parts(std::size_t ranks) : of_(ranks) { std::iota(of_.begin(), of_.end(), std::size_t{0}); }
    std::size_t of(std::size_t rank) {
        while (of_[rank] != rank) rank = of_[rank] = of_[of_[rank]];
        return rank;
    }
    void join(std::size_t x, std::size_t y) { of_[of(x)] = of(y); }

private:
    std::vector<std::size_t> of_;
};

class Borders {
public:
    Borders(const Plan& plan, const std::vector<std::vector<SlotUse>>& uses) : plan_(plan), uses_(uses), geometry_(plan.network) {}

    // Of the blocks of a dim; {1, NPUs} where there are none.
    std::set<int> of(std::size_t d) {
        found_ = {1, plan_.network.dims[d].npus};
        std::set<int> places;
        for (const auto& group : plan_.groups) {
            places.clear();
            for (const std::int32_t member : group) places.insert(place(static_cast<std::size_t>(member), d));
            add(places);
        }
        if (!anybody_sends()) return found_;
        std::vector<std::set<int>> of_part(plan_.ranks());
        Parts parts = who_send(d);
        for (std::size_t r = 0; r < plan_.ranks(); ++r) of_part[parts.of(r)].insert(place(r, d));
        for (const std::set<int>& part : of_part) add(part);
        return found_;
    }

private:
    int place(std::size_t rank, std::size_t d) const { return geometry_.coordinate(plan_.npu_of[rank], d); }

    bool anybody_sends() const {
        const auto sends = [](const SlotUse& use) { return use.kind == Kind::send; };
        return std::any_of(uses_.begin(), uses_.end(), [&](const auto& uses) { return std::any_of(uses.begin(), uses.end(), sends); });
    }

    // Places that are equally far apart, and more than one, are a block.
    void add(const std::set<int>& places) {
        if (places.size() < 2) return;
        const int first = *places.begin(), step = *std::next(places.begin()) - first;
        int expected = first;
        for (const int place : places) {
            if (place != expected) return;
            expected += step;
        }
        found_.insert({step, step * static_cast<int>(places.size())});
    }

    // Ranks joined by messages within the dim.
    Parts who_send(std::size_t d) const {
        Parts out(plan_.ranks());
        for (std::size_t r = 0; r < plan_.ranks(); ++r) {
            const auto& mine = uses_[static_cast<std::size_t>(plan_.program_of[r])];
            for (std::size_t s = 0; s < mine.size(); ++s) {
                if (mine[s].kind != Kind::send) continue;
                const auto peer = static_cast<std::size_t>(plan_.slot_a[static_cast<std::size_t>(plan_.slot_ptr[r]) + s]);
                if (peer >= plan_.ranks()) continue;  // refused elsewhere
                const int there = plan_.npu_of[r] + (place(peer, d) - place(r, d)) * geometry_.stride(d);
                if (plan_.npu_of[peer] == there) out.join(r, peer);
            }
        }
        return out;
    }

    const Plan& plan_;
    const std::vector<std::vector<SlotUse>>& uses_;
    const Geometry geometry_;
    std::set<int> found_;
};

}  // namespace

std::vector<int> blocks_of(const Plan& plan, const std::vector<std::vector<SlotUse>>& uses, std::size_t d) {
    const Dim& dim = plan.network.dims[d];
    if (dim.shape != Shape::fully_connected || dim.npus < 3) return {};
    const std::set<int> found = Borders(plan, uses).of(d);
    for (auto border = found.begin(); std::next(border) != found.end(); ++border)
        if (*std::next(border) % *border != 0) return {};
    return found.size() > 2 ? std::vector<int>(found.begin(), found.end()) : std::vector<int>{};
}

}  // namespace astrarium
