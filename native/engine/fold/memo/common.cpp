#include "fold/memo/common.hpp"

namespace astrarium {

Common::Common(const Plan& plan, std::size_t collectives)
    : sound(sound_of(plan, collectives)), beats(plan.programs), ranks_(plan.ranks()), groups_(plan.groups.size()),
      slots_(plan.slot_a.size) {}

std::size_t Common::bytes() const {
    const std::lock_guard<std::mutex> held(lock_);
    const std::size_t colours = 8 * (5 * ranks_ + groups_) + 4 * slots_, classes = 4 * ranks_ + 8 * groups_;
    std::size_t out = 4096 + colours_.size() * colours + classes_.size() * classes;
    for (const auto& [network, known] : colours_) out += known->standings.bytes();
    for (const auto& [key, known] : classes_)
        for (const Labels& labels : key.second) out += 64 + 4 * labels.of.size();
    return out;
}

// Bandwidths of reductions tell ranks apart where NPUs differ in them: then nothing is kept.
std::shared_ptr<const Colours> Common::colours(const Plan& plan) {
    if (plan.reduce_bandwidth.size > 0) return std::make_shared<const Colours>(plan, sound.uses);
    Places places;
    const auto matters = [&plan](Shape shape) {
        return shape == Shape::mesh || shape == Shape::hypercube || shape == Shape::fully_connected ||
               (shape == Shape::switch_ && plan.network.medium->on_ports);
    };
    for (const Dim& dim : plan.network.dims) places.emplace_back(matters(dim.shape) ? dim.shape : Shape::ring, dim.npus);
    const std::pair key{std::move(places), plan.network.medium};
    {
        const std::lock_guard<std::mutex> held(lock_);
        if (const auto it = colours_.find(key); it != colours_.end()) return it->second;
    }
    auto made = std::make_shared<const Colours>(plan, sound.uses);
    const std::lock_guard<std::mutex> held(lock_);
    if (colours_.size() >= most_networks) colours_.clear(), classes_.clear();
    return colours_.try_emplace(key, std::move(made)).first->second;
}

std::shared_ptr<const RankClasses> Common::classes(const Plan& plan, const std::shared_ptr<const Colours>& colours,
                                                   const std::set<Labels>& split) {
    const std::pair key{colours, split};
    {
        const std::lock_guard<std::mutex> held(lock_);
        if (const auto it = classes_.find(key); it != classes_.end()) return it->second;
    }
    auto made = std::make_shared<const RankClasses>(plan, colours, split);
    const std::lock_guard<std::mutex> held(lock_);
    if (classes_.size() >= most_classes) classes_.clear();
    return classes_.try_emplace(key, std::move(made)).first->second;
}

}  // namespace astrarium
