#include "media/epochs.hpp"

#include <algorithm>

namespace astrarium {

Epochs::Epochs(const Graph& graph, std::int32_t npus, std::size_t most_bytes, const Rates* rates,
               std::function<std::uint64_t(std::int32_t, std::int32_t)> key)
    : graph_(graph), npus_(npus), most_bytes_(most_bytes), key_(std::move(key)), epochs_(1), whole_(make({})) {
    if (!rates || !rates->stop()) return;
    std::vector<bool> dead(graph.links());
    const auto changes = rates->changes();  // in order of time
    for (std::size_t k = 0; k < changes.size();) {
        const Tick time = changes[k].first;
        bool other = false;
        for (; k < changes.size() && changes[k].first == time; ++k) {
            const std::size_t link = changes[k].second;
            const bool stands = rates->speed(link, time) == 0;
            other = other || stands != dead[link], dead[link] = stands;
        }
        if (!other) continue;
        if (time > 0) epochs_.emplace_back(), begins_.push_back(time);
        epochs_.back().since = time;
        if (std::find(dead.begin(), dead.end(), true) != dead.end()) epochs_.back().dead = dead;
    }
}

bool Epochs::go_to(Tick now) {
    const std::size_t before = now_;
    while (now_ + 1 < epochs_.size() && epochs_[now_ + 1].since <= now) ++now_;
    while (epochs_[now_].since > now) --now_;
    return now_ != before;
}

Tick Epochs::gives_up(std::uint32_t link, std::int32_t at, std::int32_t destination, Tick after, Tick until) {
    auto epoch = std::upper_bound(epochs_.begin(), epochs_.end(), after, [](Tick time, const Epoch& e) { return time < e.since; });
    for (; epoch != epochs_.end() && epoch->since < until; ++epoch)
        if (!epoch->dead.empty() && epoch->dead[link] && reaches(*epoch, at, destination)) return epoch->since;
    return never;
}

void Epochs::forget() {
    whole_->shortest.forget();
    if (Routing* const now = epochs_[now_].routing.get()) now->shortest.forget();
}

// A search backwards, once for each destination.
bool Epochs::reaches(Epoch& epoch, std::int32_t at, std::int32_t destination) {
    const auto [found, fresh] = epoch.reached.try_emplace(destination);
    std::vector<bool>& reached = found->second;
    if (fresh) {
        const LinksOf& into = whole_->shortest.into();
        reached.assign(static_cast<std::size_t>(graph_.nodes), false);
        std::vector<std::int32_t> all{destination};
        reached[static_cast<std::size_t>(destination)] = true;
        for (std::size_t k = 0; k < all.size(); ++k)
            for (const std::uint32_t link : into[all[k]]) {
                const std::int32_t node = graph_.source[link];
                if (epoch.dead[link] || reached[static_cast<std::size_t>(node)]) continue;
                reached[static_cast<std::size_t>(node)] = true;
                all.push_back(node);
            }
    }
    return reached[static_cast<std::size_t>(at)];
}

Routing& Epochs::routing(Epoch& epoch) {
    if (!epoch.routing) epoch.routing = make(epoch.dead);
    return *epoch.routing;
}

std::unique_ptr<Routing> Epochs::make(const std::vector<bool>& dead) const {
    return std::unique_ptr<Routing>(new Routing{{graph_, key_, dead}, {graph_, npus_, most_bytes_, dead}});
}

}  // namespace astrarium
