#include "accelerate/quotient/classes.hpp"

#include <algorithm>
#include <bit>
#include <tuple>
#include <unordered_map>

#include "plan/mix.hpp"
#include "plan/slots.hpp"

namespace astrarium {
Colours::Colours(const Plan& plan, const SlotUses& uses) : dims_(plan.network.dims.size()) {
    coordinates_.reserve(plan.npu_of.size * dims_);
    for (std::int32_t left : plan.npu_of)
        for (const Dim& dim : plan.network.dims) coordinates_.push_back(rest(left, dim.npus)), left = quotient(left, dim.npus);
    for (const Dim& dim : plan.network.dims) meshes_ = meshes_ || dim.shape == Shape::mesh;
    match_messages(plan, uses);
    shape_groups(plan);
    start(plan);
}

// Where a rank is relative to `origin`. Of a message's way (`way`) in a switch only matters whether they differ there: all pairs
// are equally far apart, and each NPU has one port.
Colours::Hash Colours::place(const Network& network, std::size_t origin, std::size_t rank, bool way) const {
    Hash relative = 0, lines = 0;
    const int *from = coordinates(origin), *to = coordinates(rank);
    for (std::size_t d = 0; d < dims_; ++d) {
        const Dim& dim = network.dims[d];
        const auto n = static_cast<Hash>(dim.npus);
        const bool line = dim.shape == Shape::mesh;  // it is not the same everywhere
        const bool equal = way && dim.shape == Shape::switch_ && network.medium->on_ports;
        relative = relative * n + static_cast<Hash>(line ? to[d] : equal ? from[d] != to[d] : away(dim, from[d], to[d]));
        if (line) lines = lines * n + static_cast<Hash>(from[d]);
    }
    return meshes_ ? mix(lines, relative) : relative;
}

// Every slot of sends must have one slot of receives: then it is known beforehand that the k-th send issued on the one meets
// the k-th receive issued on the other.
void Colours::match_messages(const Plan& plan, const SlotUses& uses) {
    struct Receive {
        std::int32_t source, tag;
        std::int64_t size;
        std::int32_t slot;
        std::uint32_t count;
        auto key() const { return std::tuple(source, tag, size); }
    };
    bool messages = false;
    std::vector<Receive> receives;  // rank by rank, sorted within
    std::vector<std::size_t> of_rank{0};
    const auto check_peer = [&](std::size_t rank, std::int32_t peer) {
        if (static_cast<std::size_t>(peer) == rank || static_cast<std::size_t>(peer) >= plan.ranks())
            throw Unfoldable{"a message without a peer"};
    };
    for (std::size_t r = 0; r < plan.ranks(); ++r) {
        const auto& mine = uses[static_cast<std::size_t>(plan.program_of[r])];
        const auto base = static_cast<std::size_t>(plan.slot_ptr[r]);
        for (std::size_t s = 0; s < mine.size(); ++s) {
            messages = messages || mine[s].kind != Kind::collective;
            if (mine[s].kind != Kind::recv) continue;
            check_peer(r, plan.slot_a[base + s]);
            receives.push_back({plan.slot_a[base + s], plan.slot_b[base + s], mine[s].size, static_cast<std::int32_t>(s), mine[s].count});
        }
        const auto from = receives.begin() + static_cast<std::ptrdiff_t>(of_rank.back());
        std::sort(from, receives.end(), [](const Receive& x, const Receive& y) { return x.key() < y.key(); });
        if (std::adjacent_find(from, receives.end(), [](const Receive& x, const Receive& y) { return x.key() == y.key(); }) !=
            receives.end())
            throw Unfoldable{"several messages of one size between two ranks share a tag"};
        of_rank.push_back(receives.size());
    }
    if (!messages) return;
    partner_slot.assign(plan.slot_a.size, -1);
    std::size_t met = 0;
    for (std::size_t r = 0; r < plan.ranks(); ++r) {
        const auto& mine = uses[static_cast<std::size_t>(plan.program_of[r])];
        const auto base = static_cast<std::size_t>(plan.slot_ptr[r]);
        for (std::size_t s = 0; s < mine.size(); ++s) {
            if (mine[s].kind != Kind::send) continue;
            check_peer(r, plan.slot_a[base + s]);
            const auto peer = static_cast<std::size_t>(plan.slot_a[base + s]);
            const Receive wanted{static_cast<std::int32_t>(r), plan.slot_b[base + s], mine[s].size, 0, 0};
            const auto end = receives.begin() + static_cast<std::ptrdiff_t>(of_rank[peer + 1]);
            const auto it = std::lower_bound(receives.begin() + static_cast<std::ptrdiff_t>(of_rank[peer]), end, wanted,
                                             [](const Receive& x, const Receive& y) { return x.key() < y.key(); });
            if (it == end || it->key() != wanted.key() || it->count != mine[s].count) throw Unfoldable{"a message without its other end"};
            std::int32_t& theirs = partner_slot[static_cast<std::size_t>(plan.slot_ptr[peer] + it->slot)];
            if (theirs >= 0) throw Unfoldable{"several messages of one size between two ranks share a tag"};
            theirs = static_cast<std::int32_t>(s);
            partner_slot[base + s] = it->slot;
            ++met;
        }
    }
    if (met < receives.size()) throw Unfoldable{"a message without its other end"};
}

void Colours::shape_groups(const Plan& plan) {
    for (const auto& group : plan.groups) {
        Hash h = group.size;
        std::vector<std::int32_t> sorted;  // ties go by rank: the order of the members' numbers is part of the shape
        if (!std::is_sorted(group.begin(), group.end())) {
            sorted.assign(group.begin(), group.end());
            std::sort(sorted.begin(), sorted.end());
        }
        for (const std::int32_t member : group) {
            if (!sorted.empty())
                h = mix(h, static_cast<std::uint64_t>(std::lower_bound(sorted.begin(), sorted.end(), member) - sorted.begin()));
            h = mix(h, place(plan.network, static_cast<std::size_t>(group[0]), static_cast<std::size_t>(member)));
        }
        group_shape.push_back(h);
    }
}

void Colours::start(const Plan& plan) {
    const std::size_t ranks = plan.ranks();
    std::vector<std::int32_t> own;
    for (std::size_t r = 0; r < ranks; ++r) {
        Hash h = mix(1, static_cast<std::uint64_t>(plan.program_of[r]));
        if (plan.reduce_bandwidth.size > 0) h = mix(h, std::bit_cast<std::uint64_t>(plan.reduction_rate(plan.npu_of[r])));
        own.clear();
        const auto from = static_cast<std::size_t>(plan.slot_ptr[r]), to = static_cast<std::size_t>(plan.slot_ptr[r + 1]);
        for (std::size_t s = from; s < to; ++s) {
            if (!partner_slot.empty() && partner_slot[s] >= 0) {
                h = mix(h, mix(2, place(plan.network, r, static_cast<std::size_t>(plan.slot_a[s]), true)));
                h = mix(h, static_cast<std::uint64_t>(partner_slot[s]));
                continue;
            }
            h = mix(h, static_cast<std::uint64_t>(plan.slot_a[s]));
            h = mix(h, static_cast<std::uint64_t>(static_cast<std::int64_t>(plan.slot_c[s])));
            const std::int32_t group = plan.slot_b[s];
            auto it = std::find(own.begin(), own.end(), group);
            if (it == own.end()) it = own.insert(own.end(), group);
            h = mix(h, static_cast<std::uint64_t>(group < 0 ? -1 : it - own.begin()));
        }
        rank.push_back(h);
    }
}

namespace {

// Colours as far as they tell ranks apart.
class Refinement {
public:
    using Hash = Colours::Hash;
    Refinement(const Plan& plan, const Colours& start, const std::set<Labels>& split)
        : colour_(start.rank), plan_(plan), start_(start), group_colour_(start.group_shape) {
        for (const Labels& labels : split) tell_apart(labels);
        while (refine()) {}
    }
    const std::vector<Hash>& colours() const { return colour_; }
    bool sends(std::size_t slot) const { return !start_.partner_slot.empty() && start_.partner_slot[slot] >= 0; }
    std::vector<Hash> group_roles(const std::vector<std::int32_t>& of) const;

private:
    void tell_apart(const Labels& labels);
    bool refine();

    std::vector<Hash> colour_;
    const Plan& plan_;
    const Colours& start_;
    std::vector<Hash> group_colour_;
    std::size_t distinct_ = 0;
};

void Refinement::tell_apart(const Labels& labels) {
    const auto mark = [&](std::size_t rank, std::size_t place) {
        colour_[rank] = mix(colour_[rank], mix(mix(3, labels.shape), labels.of[place]));
    };
    for (std::size_t r = 0; r < plan_.ranks() && labels.shape == 0; ++r) mark(r, r);
    for (std::size_t g = 0; g < plan_.groups.size(); ++g)
        for (std::size_t p = 0; p < plan_.groups[g].size && start_.group_shape[g] == labels.shape; ++p)
            mark(static_cast<std::size_t>(plan_.groups[g][p]), p);
}

bool Refinement::refine() {
    for (std::size_t g = 0; g < plan_.groups.size(); ++g) {
        Hash h = start_.group_shape[g], position = 0;  // a sum of the members' shares, so that none waits for another
        for (const std::int32_t member : plan_.groups[g]) h += mix(++position, colour_[static_cast<std::size_t>(member)]);
        group_colour_[g] = h;
    }
    const std::size_t ranks = plan_.ranks();
    std::vector<Hash> next(ranks);
    for (std::size_t r = 0; r < ranks; ++r) {
        Hash h = colour_[r];
        std::int32_t before = -1;
        const auto from = static_cast<std::size_t>(plan_.slot_ptr[r]), to = static_cast<std::size_t>(plan_.slot_ptr[r + 1]);
        for (std::size_t s = from; s < to; ++s) {
            if (sends(s)) {
                h = mix(h, colour_[static_cast<std::size_t>(plan_.slot_a[s])]);
                continue;
            }
            const std::int32_t group = plan_.slot_b[s];
            if (group < 0 || group == before) continue;
            h = mix(h, group_colour_[static_cast<std::size_t>(group)]);
            before = group;
        }
        next[r] = h;
    }
    std::vector<Hash> sorted = next;
    std::sort(sorted.begin(), sorted.end());
    const auto count = static_cast<std::size_t>(std::unique(sorted.begin(), sorted.end()) - sorted.begin());
    const bool more = count > distinct_;
    if (more) {
        distinct_ = count;
        colour_ = std::move(next);
    }
    return more && count < ranks;
}

// What groups are for: which of its members' own groups they are, in the order in which slots name them. Groups of equal members
// and different roles (data parallelism, and sharding over the same ranks) are of different kinds.
std::vector<Colours::Hash> Refinement::group_roles(const std::vector<std::int32_t>& of) const {
    std::vector<Hash> roles(plan_.groups.size(), 0);
    std::vector<std::int32_t> own;
    for (std::size_t r = 0; r < plan_.ranks(); ++r) {
        own.clear();
        for (auto s = static_cast<std::size_t>(plan_.slot_ptr[r]); s < static_cast<std::size_t>(plan_.slot_ptr[r + 1]); ++s) {
            if (sends(s)) continue;
            const std::int32_t group = plan_.slot_b[s];
            if (group < 0 || std::find(own.begin(), own.end(), group) != own.end()) continue;
            roles[static_cast<std::size_t>(group)] += mix(static_cast<std::uint64_t>(of[r]), own.size());  // a sum: in any order
            own.push_back(group);
        }
    }
    return roles;
}

}  // namespace

RankClasses::RankClasses(const Plan& plan, std::shared_ptr<const Colours> colours, const std::set<Labels>& split)
    : partner_slot(colours->partner_slot), start_(std::move(colours)) {
    const Refinement found(plan, *start_, split);
    std::unordered_map<Colours::Hash, std::int32_t> seen;
    of.resize(plan.ranks());
    for (std::size_t r = 0; r < plan.ranks(); ++r) {
        const auto [it, fresh] = seen.try_emplace(found.colours()[r], static_cast<std::int32_t>(first.size()));
        if (fresh) first.push_back(static_cast<std::int32_t>(r));
        of[r] = it->second;
    }
    seen.clear();
    const std::vector<Colours::Hash> roles = found.group_roles(of);
    first_group.push_back(-1);
    for (std::size_t g = 0; g < plan.groups.size(); ++g) {
        Colours::Hash h = mix(start_->group_shape[g], roles[g]), position = 0;
        for (const std::int32_t member : plan.groups[g])
            h += mix(++position, static_cast<std::uint64_t>(of[static_cast<std::size_t>(member)]));
        const auto [it, fresh] = seen.try_emplace(h, static_cast<std::int32_t>(first_group.size()));
        if (fresh) first_group.push_back(static_cast<std::int32_t>(g));
        group_kind.push_back(it->second);
    }
}

}  // namespace astrarium
