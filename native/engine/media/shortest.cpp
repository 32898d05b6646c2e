#include "media/shortest.hpp"

#include <algorithm>
#include <iterator>

#include "clock/interrupt.hpp"

namespace astrarium {
namespace {

constexpr std::uint32_t unknown = 0xffffffffu;

}  // namespace

Shortest::Shortest(const Graph& graph, std::int32_t npus, std::size_t most_bytes, const std::vector<bool>& dead)
    : graph_(graph), npus_(npus), most_bytes_(most_bytes), out_(graph.nodes, graph.source, dead), in_(graph.nodes, graph.target, dead) {
    const auto nodes = static_cast<std::size_t>(graph.nodes);
    before_.reserve(nodes);
    for (std::int32_t node = 0; node < graph.nodes; ++node) {
        const auto links = in_[node];
        const bool one = !links.empty() && std::all_of(links.begin(), links.end(),
                                                       [&](std::uint32_t k) { return graph.source[k] == graph.source[links[0]]; });
        before_.push_back(one ? graph.source[links[0]] : node);
    }
    last_.assign(nodes, unknown), rows_.assign(nodes, nullptr), fields_.assign(nodes, nullptr);
}

void Shortest::forget() {
    for (; field_bytes_ > most_bytes_ / 2; kept_fields_.pop_front()) fields_[static_cast<std::size_t>(kept_fields_.front().root)] = nullptr;
    for (; row_bytes_ > most_bytes_ / 2; kept_rows_.pop_front()) rows_[static_cast<std::size_t>(kept_rows_.front().root)] = nullptr;
}

// Several threads may ask at once: one finds what is not known yet, others see it whole or not at all.
std::uint32_t Shortest::last(std::int32_t destination) {
    const std::atomic_ref<std::uint32_t> known(last_[static_cast<std::size_t>(destination)]);
    if (const std::uint32_t found = known.load(std::memory_order_acquire); found != unknown) return found;
    const std::lock_guard<std::mutex> lock(finding_);
    const std::uint32_t found = keep(cheapest(in_[destination]));
    known.store(found, std::memory_order_release);
    return found;
}

std::uint32_t Shortest::find(std::int32_t at, std::int32_t root) {
    const std::lock_guard<std::mutex> lock(finding_);
    looked_at_ += 256;
    if (looked_at_ >> 16 != 0 && std::this_thread::get_id() == runs_) looked_at_ = 0, stop_if_interrupted();
    const std::atomic_ref<Row*> known(rows_[static_cast<std::size_t>(root)]);
    Row* row = known.load(std::memory_order_relaxed);
    if (row == nullptr) {
        row = &kept_rows_.emplace_back(graph_.nodes, root, row_bytes_);
        row->feet = feet_of(root);
        known.store(row, std::memory_order_release);
    }
    const std::uint32_t found = keep(links(*row, at));
    row->lists.publish(at, found + 1);
    return found;
}

std::vector<Shortest::Foot> Shortest::feet_of(std::int32_t root) const {
    std::vector<Foot> feet;
    for (const std::uint32_t link : in_[root]) {
        const std::int32_t node = graph_.source[link];
        const auto known = std::find_if(feet.begin(), feet.end(), [&](const Foot& foot) { return foot.node == node; });
        if (known != feet.end()) {
            known->cost = std::min(known->cost, graph_.cost(link));
            continue;
        }
        if (root >= npus_ || node < npus_ || feet.size() == most_feet) return {{root, 0}};
        feet.push_back({node, graph_.cost(link)});
    }
    return feet.empty() ? std::vector<Foot>{{root, 0}} : feet;
}

// Of several ways that cost the same, those that begin by the fastest links: inside a host before outside.
std::vector<std::uint32_t> Shortest::cheapest(std::span<const std::uint32_t> links) const {
    std::int64_t best = no_cost;
    for (const std::uint32_t link : links) best = std::min(best, graph_.cost(link));
    std::vector<std::uint32_t> able;
    std::copy_if(links.begin(), links.end(), std::back_inserter(able), [&](std::uint32_t link) { return graph_.cost(link) == best; });
    return able;
}

// Ascending. A cheapest way by one of several feet begins as one by any of those that are as cheap. Ends of links out of `at` are looked at
// in place of `at`, which saves the widest step of each search.
std::vector<std::uint32_t> Shortest::links(const Row& row, std::int32_t at) {
    const auto out = out_[at];
    const auto end = [&](std::uint32_t link) { return graph_.target[link]; };
    if (std::all_of(out.begin(), out.end(), [&](std::uint32_t link) { return end(link) == end(out[0]); })) return cheapest(out);
    const std::int64_t best = least(row, out);
    std::vector<std::uint32_t> able;
    for (const std::uint32_t link : out) {
        const std::int64_t left = best - graph_.cost(link);
        if (end(link) == row.root ? left == 0 : std::any_of(row.feet.begin(), row.feet.end(), [&](const Foot& foot) {
                return field(foot.node).cost(end(link)) == left - foot.cost;
            }))
            able.push_back(link);
    }
    return cheapest(able);
}

// The cost of the cheapest way to the root that one of the links begins. The search that may still find one goes on first, so that none goes
// farther than it must.
std::int64_t Shortest::least(const Row& row, std::span<const std::uint32_t> links) {
    std::int64_t first = no_cost;
    for (const std::uint32_t link : links) first = std::min(first, graph_.cost(link));
    for (;;) {
        std::int64_t best = no_cost, next = no_cost;
        Field* shallow = nullptr;
        for (const std::uint32_t link : links)
            if (graph_.target[link] == row.root) best = std::min(best, graph_.cost(link));
        for (const Foot& foot : row.feet) {
            Field& to = field(foot.node);
            for (const std::uint32_t link : links)
                if (const std::int64_t left = to.cost(graph_.target[link]); left != no_cost)
                    best = std::min(best, graph_.cost(link) + left + foot.cost);
            if (!to.frontier.empty() && to.frontier.begin()->first + foot.cost < next)
                next = to.frontier.begin()->first + foot.cost, shallow = &to;
        }
        if (shallow == nullptr || next + first > best) return best;
        deepen(*shallow);
    }
}

Shortest::Field& Shortest::field(std::int32_t node) {
    Field*& known = fields_[static_cast<std::size_t>(node)];
    if (known == nullptr) known = &kept_fields_.emplace_back(graph_.nodes, node, field_bytes_);
    return *known;
}

// Past the nodes of the frontier that are nearest.
void Shortest::deepen(Field& field) {
    const auto nodes = field.frontier.extract(field.frontier.begin());
    for (const std::int32_t node : nodes.mapped()) {
        if (field.cost(node) != nodes.key()) continue;
        looked_at_ += in_[node].size();
        for (const std::uint32_t link : in_[node]) {
            const std::int64_t cost = nodes.key() + graph_.cost(link);
            std::int64_t& left = field.left[graph_.source[link]];
            if (left != 0 && left - 1 <= cost) continue;
            left = cost + 1;
            field.frontier[cost].push_back(graph_.source[link]);
        }
    }
}

std::uint32_t Shortest::keep(const std::vector<std::uint32_t>& list) {
    if (list.size() == 1) return list.front();
    const auto [at, fresh] = known_.try_emplace(list, static_cast<std::uint32_t>(lists_.size()));
    if (fresh) lists_.push_back({at->first.data(), at->first.size()});
    return at->second | many;
}

}  // namespace astrarium
