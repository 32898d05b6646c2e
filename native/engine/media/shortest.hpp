// Ways of the least cost through a graph, found when a message asks, and cached in a bounded number of bytes.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "media/growing.hpp"
#include "media/pages.hpp"
#include "plan/graph.hpp"

namespace astrarium {

// What is found is the list of links that begin the cheapest ways from a node to a destination; equal lists are one. A search goes backwards
// (Dijkstra), as far as the nodes that were asked for. A destination whose links all come from one node, such as the NPUs of a leaf switch,
// has the ways to that node, and one whose links come from several switches, such as an NPU on a rail, has those to the cheapest of them:
// many destinations share a search.
class Shortest {
public:
    static constexpr std::uint32_t many = 0x80000000u;  // with the number of a list; else the one link
    Shortest(const Graph& graph, std::int32_t npus, std::size_t most_bytes, const std::vector<bool>& dead = {});  // dead: links left out

    // The links by which a message leaves `at`, which is not the destination. Several threads may ask at once.
    std::uint32_t operator()(std::int32_t at, std::int32_t destination) {
        const std::int32_t root = before_[static_cast<std::size_t>(destination)];
        if (at == root) return last(destination);
        const Row* const row = std::atomic_ref<Row*>(rows_[static_cast<std::size_t>(root)]).load(std::memory_order_acquire);
        const std::uint32_t known = row == nullptr ? 0 : row->lists.get(at);
        return known != 0 ? known - 1 : find(at, root);
    }
    std::span<const std::uint32_t> list(std::uint32_t found) const { return lists_[found & ~many]; }  // ascending
    const LinksOf& into() const { return in_; }                                                       // links by where they end
    void forget();  // what takes too much memory, the oldest first; nobody asks meanwhile

private:
    static constexpr std::size_t most_feet = 16;
    static constexpr std::int64_t no_cost = std::int64_t{1} << 62;
    // The cost of ways to one node: per node, and 1; 0: not reached. It is final below the frontier's first.
    struct Field {
        Field(std::int32_t nodes, std::int32_t root, std::size_t& bytes) : left(nodes, bytes), root(root), frontier{{0, {root}}} {
            left[root] = 1;
        }
        std::int64_t cost(std::int32_t node) const {
            const std::int64_t found = left.get(node);
            return found == 0 ? no_cost : found - 1;
        }
        Pages<std::int64_t> left;
        const std::int32_t root;
        std::map<std::int64_t, std::vector<std::int32_t>> frontier;  // by cost: few are different
    };
    struct Foot {
        std::int32_t node;
        std::int64_t cost;  // of its link to the root
    };
    struct Row {
        Row(std::int32_t nodes, std::int32_t root, std::size_t& bytes) : lists(nodes, bytes), root(root) {}
        Pages<std::uint32_t> lists;  // per node, and 1; 0: nobody asked
        const std::int32_t root;
        std::vector<Foot> feet;  // ways go by one of them: the root itself, or nodes from which links lead to it
    };
    std::uint32_t last(std::int32_t destination);
    std::uint32_t find(std::int32_t at, std::int32_t root);
    std::vector<Foot> feet_of(std::int32_t root) const;
    std::vector<std::uint32_t> cheapest(std::span<const std::uint32_t> links) const;
    std::vector<std::uint32_t> links(const Row& row, std::int32_t at);
    std::int64_t least(const Row& row, std::span<const std::uint32_t> links);
    Field& field(std::int32_t node);
    void deepen(Field& field);
    std::uint32_t keep(const std::vector<std::uint32_t>& list);

    const Graph& graph_;
    const std::int32_t npus_;
    const std::size_t most_bytes_;
    const LinksOf out_, in_;
    std::vector<std::int32_t> before_;  // per node: where all links to it come from, or itself
    std::vector<std::uint32_t> last_;   // per node: the list of links to it, where they come from one node
    std::vector<Row*> rows_;            // per node; null: nobody asked
    std::vector<Field*> fields_;
    std::size_t row_bytes_ = 0, field_bytes_ = 0;
    std::deque<Row> kept_rows_;  // the oldest first
    std::deque<Field> kept_fields_;
    std::mutex finding_;
    const std::thread::id runs_ = std::this_thread::get_id();  // only this thread may be interrupted
    std::size_t looked_at_ = 0;                                 // links, since it was asked whether to stop
    Growing<std::span<const std::uint32_t>> lists_;
    std::map<std::vector<std::uint32_t>, std::uint32_t> known_;
};

}  // namespace astrarium
