#include "accelerate/memo/facts.hpp"

#include <algorithm>
#include <bit>

namespace astrarium {
namespace {

// Between ranks, outside of collectives.
bool has_messages(const Sound& sound) {
    return std::any_of(sound.uses.begin(), sound.uses.end(), [](const std::vector<SlotUse>& uses) {
        return std::any_of(uses.begin(), uses.end(), [](const SlotUse& use) { return use.kind != Kind::collective; });
    });
}

}  // namespace

Common::Common(const Plan& plan, std::size_t collectives)
    : sound(sound_of(plan, collectives)), beats(plan.programs), ranks_(plan.ranks()), groups_(plan.groups.size()), slots_(plan.slot_a.size),
      messages_(has_messages(sound)) {}

std::size_t Common::bytes() const {
    const std::lock_guard<std::mutex> held(lock_);
    const std::size_t colours = 8 * (5 * ranks_ + groups_) + 4 * slots_, classes = 4 * ranks_ + 8 * groups_;
    std::size_t out = 4096 + colours_.size() * colours + classes_.size() * classes;
    for (const auto& [network, known] : colours_) out += known->standings.bytes();
    for (const auto& [key, known] : classes_)
        for (const Labels& labels : key.second) out += 64 + 4 * labels.of.size();
    return out;
}

// Ways in switches matter to messages only. Bandwidths of reductions tell ranks apart where NPUs differ in them: then nothing is kept.
std::shared_ptr<const Colours> Common::colours(const Plan& plan) {
    if (plan.reduce_bandwidth.size > 0) return std::make_shared<const Colours>(plan, sound.uses);
    Places places;
    const auto matters = [&](Shape shape) {
        return shape == Shape::mesh || shape == Shape::hypercube || (shape == Shape::switch_ && messages_ && plan.network.medium->on_ports);
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

// --- of one plan

std::uint32_t Facts::schedule(const Schedule* schedule) {
    const auto [it, fresh] = schedules_.try_emplace(schedule, 0);
    if (fresh) it->second = store->schedule(*schedule);
    return it->second;
}

Facts::Group& Facts::known(std::int32_t group) {
    const auto [it, fresh] = group_.try_emplace(group);
    Group& out = it->second;
    if (!fresh) return out;
    out.standing = &colours().standings.of(plan_, group);
    Words words = out.standing->places;
    for (const std::size_t d : out.standing->dims) {
        const Dim& dim = plan_.network.dims[d];
        words.insert(words.end(), {static_cast<std::uint64_t>(dim.shape), static_cast<std::uint64_t>(dim.npus)});
    }
    out.places = store->number(std::move(words));
    return out;
}

std::uint64_t Facts::dim_in(std::int32_t group, int dim) {
    if (dim < 0) return LineStore::none;
    const std::vector<std::size_t>& dims = this->dims(group);
    const auto at = std::find(dims.begin(), dims.end(), static_cast<std::size_t>(dim));
    return at == dims.end() ? 1ull << 32 | static_cast<std::uint64_t>(dim) : static_cast<std::uint64_t>(at - dims.begin());
}

std::uint32_t Facts::content(std::uint32_t collective, std::int32_t group) {
    const auto [it, fresh] = contents_.try_emplace({collective, group}, 0);
    if (fresh) it->second = store->number(described(plan_.collectives[collective], group));
    return it->second;
}

Words Facts::described(const Collective& c, std::int32_t number) {
    Words out{places(number), number < 0};
    out.reserve(2 * dims(number).size() + 8 + 32 * c.chunks.size());
    for (const std::size_t d : dims(number))
        out.insert(out.end(), {std::bit_cast<std::uint64_t>(plan_.network.dims[d].bandwidth),
                               std::bit_cast<std::uint64_t>(plan_.network.dims[d].latency)});
    out.insert(out.end(),
               {static_cast<std::uint64_t>(plan_.policy.endpoint_delay), std::bit_cast<std::uint64_t>(plan_.policy.reduce_bandwidth),
                static_cast<std::uint64_t>(c.active_chunks), c.chunks.size(), c.turns.size()});
    for (const Chunk& chunk : c.chunks) {
        out.insert(out.end(), {static_cast<std::uint64_t>(chunk.repeat), chunk.phases.size()});
        for (const Phase& p : chunk.phases)
            out.insert(out.end(), {dim_in(number, p.dim), p.schedule ? schedule(p.schedule) : static_cast<std::uint64_t>(LineStore::none),
                                   static_cast<std::uint64_t>(p.n), static_cast<std::uint64_t>(p.stride),
                                   static_cast<std::uint64_t>(p.block_size), std::bit_cast<std::uint64_t>(p.in_switch.rate),
                                   static_cast<std::uint64_t>(p.in_switch.latency), static_cast<std::uint64_t>(p.lasts)});
    }
    for (const auto& visits : c.turns) {
        out.push_back(visits.size());
        for (const Visit& v : visits) out.push_back(static_cast<std::uint64_t>(v.chunk) << 32 | v.phase);
    }
    return out;
}

bool Facts::alike(const Phase& p, std::int32_t group) {
    const auto [it, fresh] = alike_.try_emplace({group, p.schedule, p.algorithm, p.dim, p.n, p.stride}, false);
    if (fresh) it->second = stands_alike(p, group);
    return it->second;
}

// Phases that were looked at are known by content: they stand in many plans.
bool Facts::stands_alike(const Phase& phase, std::int32_t group) {
    const bool whole = known(group).standing->whole;
    const View<std::int32_t> members = group < 0 ? View<std::int32_t>{} : plan_.groups[static_cast<std::size_t>(group)];
    const Words content{
        places(group),
        whole,
        static_cast<std::uint64_t>(2 * plan_.network.medium->meets + plan_.network.medium->on_ports),
        dim_in(group, phase.dim),
        static_cast<std::uint64_t>(phase.algorithm),
        static_cast<std::uint64_t>(phase.n),
        static_cast<std::uint64_t>(phase.stride),
        phase.schedule ? schedule(phase.schedule) : LineStore::none,
        phase.dim < 0 ? LineStore::none : static_cast<std::uint64_t>(plan_.network.dims[static_cast<std::size_t>(phase.dim)].shape)};
    return store->alike(content, [&] { return stand_alike(plan_, phase, members, whole); });
}

}  // namespace astrarium
