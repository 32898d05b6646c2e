#include "media/shortest.hpp"

#include <algorithm>
#include <iterator>

namespace astrarium {
namespace {

constexpr std::uint32_t unknown = 0xffffffffu;

}  // namespace

Shortest::Shortest(const Graph& graph, std::int32_t npus, std::size_t most_bytes)
    : graph_(graph), npus_(npus), most_bytes_(most_bytes), out_(graph.nodes, graph.source), in_(graph.nodes, graph.target) {
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
    const std::uint32_t found = keep({in_[destination].begin(), in_[destination].end()});
    known.store(found, std::memory_order_release);
    return found;
}

std::uint32_t Shortest::find(std::int32_t at, std::int32_t root) {
    const std::lock_guard<std::mutex> lock(finding_);
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

std::vector<std::int32_t> Shortest::feet_of(std::int32_t root) const {
    std::vector<std::int32_t> feet;
    for (const std::uint32_t link : in_[root])
        if (const std::int32_t node = graph_.source[link]; std::find(feet.begin(), feet.end(), node) == feet.end()) {
            if (root >= npus_ || node < npus_ || feet.size() == most_feet) return {root};
            feet.push_back(node);
        }
    return feet.empty() ? std::vector<std::int32_t>{root} : feet;
}

// Ascending. A way to the nearest of several feet begins as one to any of those that are as near. Ends of links out of `at` are looked at
// in place of `at`, which saves the widest step of each search.
std::vector<std::uint32_t> Shortest::links(const Row& row, std::int32_t at) {
    const auto out = out_[at];
    const auto end = [&](std::uint32_t link) { return graph_.target[link]; };
    if (std::all_of(out.begin(), out.end(), [&](std::uint32_t link) { return end(link) == end(out[0]); })) return {out.begin(), out.end()};
    std::vector<std::uint32_t> able;
    if (std::find(row.feet.begin(), row.feet.end(), at) != row.feet.end()) {
        std::copy_if(out.begin(), out.end(), std::back_inserter(able), [&](std::uint32_t link) { return end(link) == row.root; });
        return able;
    }
    const std::int32_t least = nearest(row, out);
    for (const std::int32_t foot : row.feet)
        if (const Field& to = field(foot); least != 0)
            std::copy_if(out.begin(), out.end(), std::back_inserter(able),
                         [&](std::uint32_t link) { return to.left.get(end(link)) == least; });
    if (row.feet.size() > 1) {
        std::sort(able.begin(), able.end());
        able.erase(std::unique(able.begin(), able.end()), able.end());
    }
    return able;
}

// Links from the nearest end of the links to the nearest foot, and 1; 0: none is reached. The shallowest search goes on first, so that none
// goes deeper than it must.
std::int32_t Shortest::nearest(const Row& row, std::span<const std::uint32_t> links) {
    for (;;) {
        std::int32_t least = 0;
        Field* shallow = nullptr;
        for (const std::int32_t foot : row.feet) {
            Field& to = field(foot);
            for (const std::uint32_t link : links)
                if (const std::int32_t left = to.left.get(graph_.target[link]); left != 0 && (least == 0 || left < least)) least = left;
            if (!to.frontier.empty() && (shallow == nullptr || to.depth < shallow->depth)) shallow = &to;
        }
        if (shallow == nullptr || (least != 0 && shallow->depth >= least)) return least;
        deepen(*shallow);
    }
}

Shortest::Field& Shortest::field(std::int32_t node) {
    Field*& known = fields_[static_cast<std::size_t>(node)];
    if (known == nullptr) known = &kept_fields_.emplace_back(graph_.nodes, node, field_bytes_);
    return *known;
}

void Shortest::deepen(Field& field) {
    std::vector<std::int32_t> next;
    ++field.depth;
    for (const std::int32_t node : field.frontier)
        for (const std::uint32_t link : in_[node])
            if (std::int32_t& left = field.left[graph_.source[link]]; left == 0) left = field.depth, next.push_back(graph_.source[link]);
    field.frontier.swap(next);
}

std::uint32_t Shortest::keep(const std::vector<std::uint32_t>& list) {
    if (list.size() == 1) return list.front();
    const auto [at, fresh] = known_.try_emplace(list, static_cast<std::uint32_t>(lists_.size()));
    if (fresh) lists_.push_back({at->first.data(), at->first.size()});
    return at->second | many;
}

}  // namespace astrarium
