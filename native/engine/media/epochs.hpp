// Routes of a graph whose links fail and return. Between two such times, an epoch, they are the cheapest over the links that are there. The
// same as astrarium.oracle.epochs.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "media/shortest.hpp"
#include "plan/graph.hpp"
#include "plan/rates.hpp"

namespace astrarium {

// The routes of one epoch: those that are given, as far as all their links are there, else the cheapest.
struct Routing {
    GivenRoutes given;
    Shortest shortest;
};

class Epochs {
public:
    // `key` (source, destination): a number of its own for each pair. `rates`: of the links by number; null where none changes.
    Epochs(const Graph& graph, std::int32_t npus, std::size_t most_bytes, const Rates* rates,
           std::function<std::uint64_t(std::int32_t, std::int32_t)> key);

    bool change() const { return epochs_.size() > 1 || !epochs_[0].dead.empty(); }
    const std::vector<Tick>& begins() const { return begins_; }  // after 0
    // From now on routes are those of this time. Whether they are others.
    bool go_to(Tick now);
    // The routes from a node: those of the whole graph where no other is left, so that a message waits for a link that failed.
    Routing& from(std::int32_t at, std::int32_t destination) {
        Epoch& now = epochs_[now_];
        return now.dead.empty() || !reaches(now, at, destination) ? *whole_ : routing(now);
    }
    bool dead(std::uint32_t link) const { return !epochs_[now_].dead.empty() && epochs_[now_].dead[link]; }
    // Whether a route is left now.
    bool reaches(std::int32_t at, std::int32_t destination) {
        return epochs_[now_].dead.empty() || reaches(epochs_[now_], at, destination);
    }
    // When what is at the begin of a link goes another way to its destination: the first time, later than `after` and before `until`, at
    // which the link has failed and another route is left; else `never`.
    Tick gives_up(std::uint32_t link, std::int32_t at, std::int32_t destination, Tick after, Tick until);
    void forget();

private:
    struct Epoch {
        Tick since = 0;
        std::vector<bool> dead;  // [links]; empty: none
        std::unique_ptr<Routing> routing;
        std::unordered_map<std::int32_t, std::vector<bool>> reached;  // by destination: [nodes]
    };
    bool reaches(Epoch& epoch, std::int32_t at, std::int32_t destination);
    Routing& routing(Epoch& epoch);
    std::unique_ptr<Routing> make(const std::vector<bool>& dead) const;

    const Graph& graph_;
    const std::int32_t npus_;
    const std::size_t most_bytes_;
    const std::function<std::uint64_t(std::int32_t, std::int32_t)> key_;
    std::vector<Epoch> epochs_;
    std::vector<Tick> begins_;
    std::unique_ptr<Routing> whole_;
    std::size_t now_ = 0;
};

}  // namespace astrarium
