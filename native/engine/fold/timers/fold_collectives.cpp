// Folding, collectives: one per kind of group, measured once per pattern of arrival.
#include <algorithm>
#include <memory>

#include "fold/fold.hpp"

namespace astrarium {

void Fold::issue_collective(std::uint32_t c, std::uint32_t node) {
    Class& k = class_[c];
    const std::size_t slot = k.slots + static_cast<std::size_t>(k.program->slot[node]);
    const auto id = static_cast<std::uint32_t>(plan_.slot_a[slot]);
    const std::int32_t group = plan_.slot_b[slot];
    const std::int32_t kind = group < 0 ? 0 : classes_.group_kind[static_cast<std::size_t>(group)];
    const auto& participants = participants_[static_cast<std::size_t>(kind)];
    const auto place = std::lower_bound(participants.begin(), participants.end(), c);
    if (place == participants.end() || *place != c) throw Unfoldable{"a collective of a group that the rank is not in"};
    if (participants.size() == 1) return begin_collective(id, kind, {1, {now_}, {node}, id, now_});
    const std::uint32_t serial = k.issued_on[static_cast<std::size_t>(kind)]++;
    Meeting& m = meetings_[{kind, serial}];
    if (m.collective == none) {
        m.collective = id, m.first = now_;
        m.at.assign(participants.size(), 0), m.node.assign(participants.size(), none);
    } else if (m.collective != id) {
        throw Endless{{"ranks issue a group's collectives in different orders"}};
    }
    const auto index = static_cast<std::size_t>(place - participants.begin());
    m.at[index] = now_, m.node[index] = node;
    if (++m.arrived < participants.size()) return;
    begin_collective(id, kind, m);
    meetings_.erase({kind, serial});  // afterwards: its first member's time is not to be forgotten
}

// All participants of a collective have come.
void Fold::begin_collective(std::uint32_t id, std::int32_t kind, const Meeting& all) {
    const auto& participants = participants_[static_cast<std::size_t>(kind)];
    const Tick begin = *std::min_element(all.at.begin(), all.at.end());
    const Measured& measured = measure(id, kind, all.at, begin);
    if (plan_.network.medium->links) occupy(links_until_, begin, add(begin, measured.quiet));
    if (record_) usage_.repeat(measured.steps, begin, groups_like(static_cast<std::size_t>(kind)));
    for (std::size_t i = 0; i < participants.size(); ++i) {
        const Tick done = add(begin, measured.done[i]);
        if (kind_size_[static_cast<std::size_t>(kind)] == 1 && !astra_ && done == now_) {  // alone in its group: over as it begins
            complete(participants[i], all.node[i]);
            pending_.push({now_, false, participants[i], none});
            return;
        }
        if (!astra_ && done <= now_) throw Unfoldable{overlapping};
        if (done < now_) throw Unfoldable{"a member of a collective ends before another begins"};
        if (!astra_) {
            const std::vector<std::size_t>& dims = dims_of(static_cast<std::size_t>(kind));
            for (std::size_t d = 0; d < dims.size(); ++d) {
                const std::size_t dim = dims[d];
                Class& k = class_[participants[i]];
                if (measured.uses.empty()) {
                    const PortUse mine = use(measured, i, begin, all.at[i]);
                    for (const Span& span : mine.out) occupy(k.out[dim], span.from, span.until);
                    for (const Span& span : mine.in) occupy(k.in[dim], span.from, span.until);
                    continue;
                }
                const PortUse& mine = measured.uses[i][d];
                for (const Span& span : mine.out) occupy(k.out[dim], begin + span.from, begin + span.until);
                for (const Span& span : mine.in) occupy(k.in[dim], begin + span.from, begin + span.until);
            }
        }
        pending_.push({done, measured.late[i] != 0, participants[i], all.node[i]});
        if (!measured.loads.empty()) carry(participants[i], measured.loads[measured.loads.size() == 1 ? 0 : i]);
    }
}

// A member ends when all that it sent and was sent is delivered: then its ports are free. On a mesh messages of others pass them.
PortUse Fold::use(const Measured& measured, std::size_t participant, Tick begin, Tick at) const {
    PortUse mine;
    const Tick done = add(begin, measured.done[participant]), until = meshes_ ? std::max(done, add(begin, measured.quiet)) : done;
    mine.out.add(at, until), mine.in.add(begin, until);
    return mine;
}

// How many groups of a kind meet: each rank takes part in one, and the members of a class are shared among them.
std::int64_t Fold::groups_like(std::size_t kind) const {
    const std::int32_t group = classes_.first_group[kind];
    if (group < 0) return 1;
    const std::uint32_t c = participants_[kind].front();
    std::int64_t here = 0;
    for (const std::int32_t member : plan_.groups[static_cast<std::size_t>(group)])
        here += classes_.of[static_cast<std::size_t>(member)] == static_cast<std::int32_t>(c);
    return class_size_[c] / here;
}

// The dims in which a group's members differ: no message of its collectives loads a port of another.
const std::vector<std::size_t>& Fold::dims_of(std::size_t kind) {
    kind_passes_.resize(classes_.first_group.size(), 0);
    const std::vector<std::size_t>& dims = facts_.dims(classes_.first_group[kind]);
    if (kind_passes_[kind] == 0 && passes_others(kind, dims)) throw Unfoldable{passing};
    kind_passes_[kind] = 1;
    return dims;
}

// Whether messages between a group's members may pass NPUs of a line that are not members: other groups may use the same links.
bool Fold::passes_others(std::size_t kind, const std::vector<std::size_t>& dims) const {
    const auto mesh = [this](std::size_t d) { return plan_.network.dims[d].shape == Shape::mesh; };
    if (std::none_of(dims.begin(), dims.end(), mesh)) return false;
    const std::int32_t group = classes_.first_group[kind];
    const Geometry geometry(plan_.network);
    std::size_t product = 1;
    for (const std::size_t d : dims) {
        std::vector<int> places;
        for (std::size_t p = 0; p < kind_size_[kind]; ++p)
            places.push_back(geometry.coordinate(plan_.npu_of[group < 0 ? p : static_cast<std::size_t>(plan_.groups[static_cast<std::size_t>(group)][p])], d));
        std::sort(places.begin(), places.end());
        places.erase(std::unique(places.begin(), places.end()), places.end());
        if (mesh(d) && static_cast<std::size_t>(places.back() - places.front()) + 1 != places.size()) return true;
        product *= places.size();
    }
    return product != kind_size_[kind];
}

bool Fold::symmetric(const Collective& c, std::int32_t kind) const {
    if (plan_.network.medium->links && !astra_) return false;
    const std::int32_t group = classes_.first_group[static_cast<std::size_t>(kind)];
    for (const Chunk& chunk : c.chunks)
        if (!std::all_of(chunk.phases.begin(), chunk.phases.end(), [&](const Phase& phase) { return facts_.alike(phase, group); })) return false;
    return true;
}

bool Fold::reduce_alike(const std::vector<std::uint32_t>& members) const {
    if (plan_.reduce_bandwidth.size == 0) return true;
    const double rate = plan_.reduction_rate(plan_.npu_of[members[0]]);
    return std::all_of(members.begin(), members.end(), [&](std::uint32_t m) { return plan_.reduction_rate(plan_.npu_of[m]) == rate; });
}

// Natively: whether a message of the collective between members of a group could be delivered at the instant at which it leaves.
bool Fold::in_no_time(const Collective& c, std::int32_t group) {
    for (const std::size_t d : facts_.dims(group)) {
        const Dim& dim = plan_.network.dims[d];
        if (ticks(dim.latency, false) > 0) continue;
        for (const Chunk& chunk : c.chunks)
            for (const Phase& phase : chunk.phases)
                if (phase.n > 1 && ticks(static_cast<double>(phase.block_size) / dim.bandwidth, false) == 0) return true;
    }
    return false;
}

const Measured& Fold::measure(std::uint32_t id, std::int32_t kind, const std::vector<Tick>& at, Tick begin) {
    const bool together = std::all_of(at.begin(), at.end(), [begin](Tick t) { return t == begin; });
    const std::size_t known = static_cast<std::size_t>(id) * kind_size_.size() + static_cast<std::size_t>(kind);
    if (together && known < together_.size() && together_[known]) return *together_[known];
    key_.assign(1, known);
    for (const Tick t : at) key_.push_back(static_cast<std::uint64_t>(t - begin));
    auto it = measured_.find(key_);
    if (it == measured_.end()) {
        const Words key = key_;
        it = measured_.emplace(key, shared(id, kind, {key.begin() + 1, key.end()}, together)).first;
    }
    if (together && known < together_.size()) together_[known] = it->second.get();
    return *it->second;
}

// By content, where other plans may have such a collective. What cannot be measured throws, and leaves nothing behind.
std::shared_ptr<const Measured> Fold::shared(std::uint32_t id, std::int32_t kind, const std::vector<Tick>& offsets, bool together) {
    const Collective& c = plan_.collectives[id];
    if (!finds_lines() || c.custom || c.lasts) return std::make_shared<const Measured>(measured(id, kind, offsets, together));
    Words content{facts_.content(id, classes_.first_group[static_cast<std::size_t>(kind)]), index_number(static_cast<std::size_t>(kind))};
    content.insert(content.end(), offsets.begin(), offsets.end());
    const std::uint64_t shape = classes_.shape(static_cast<std::size_t>(kind));
    const auto kept = store_->measured(content, [&] {
        try {
            return std::make_shared<const LineStore::Kept>(LineStore::Kept{measured(id, kind, offsets, together), {}, {}});
        } catch (const Asymmetric& reason) {
            if (reason.apart.of.empty() || reason.apart.shape != shape) throw;
            return std::make_shared<const LineStore::Kept>(LineStore::Kept{{}, reason.why, reason.apart.of});
        }
    });
    if (!kept->apart.empty()) throw Asymmetric{{kept->why}, {shape, kept->apart}};
    return {kept, &kept->found};
}

std::uint32_t Fold::index_number(std::size_t kind) {
    kind_index_number_.resize(participants_.size(), LineStore::none);
    std::uint32_t& number = kind_index_number_[kind];
    if (number != LineStore::none) return number;
    Words index;
    pack(index_of(kind), index);
    return number = store_->number(std::move(index));
}

const std::vector<std::uint32_t>& Fold::index_of(std::size_t kind) {
    kind_index_.resize(participants_.size());
    std::vector<std::uint32_t>& index = kind_index_[kind];
    const auto& participants = participants_[kind];
    if (index.empty())
        for (const std::uint32_t m : facts_.members(classes_.first_group[kind]))
            index.push_back(static_cast<std::uint32_t>(std::lower_bound(participants.begin(), participants.end(), static_cast<std::uint32_t>(classes_.of[m])) - participants.begin()));
    return index;
}

Measured Fold::measured(std::uint32_t id, std::int32_t kind, const std::vector<Tick>& offsets, bool together) {
    const Collective& c = plan_.collectives[id];
    if (c.lasts) {
        const Tick done = add(*std::max_element(offsets.begin(), offsets.end()), c.lasts);
        Measured found{std::vector<Tick>(offsets.size(), done), std::vector<std::uint8_t>(offsets.size(), 0), 0, offsets.size(), {}, {}, {}};
        found.uses.assign(offsets.size(), Uses::Row(plan_.network.dims.size()));
        return found;
    }
    const std::int32_t group = classes_.first_group[static_cast<std::size_t>(kind)];
    if (!astra_ && in_no_time(c, group)) throw Unfoldable{"messages that take no time"};
    const std::vector<std::uint32_t>& members = facts_.members(group);
    if (const auto alone = together ? looped(id, kind, members) : nullptr) {
        Measured found{std::vector<Tick>(offsets.size(), alone->done), std::vector<std::uint8_t>(offsets.size(), alone->late[0]), alone->quiet, alone->events,
                       alone->loads, alone->steps, {}};
        if (!alone->uses.empty() && !alone->uses[0].empty()) found.uses.assign(offsets.size(), alone->uses[0]);
        return found;
    }
    if (Measured found; by_lines(id, kind, members, offsets, found)) return found;
    const auto& dims = plan_.network.dims;
    const bool line = std::any_of(dims.begin(), dims.end(), [](const Dim& dim) { return dim.shape == Shape::mesh; });
    // In a small group all members run: they may end alike though their steps differ.
    if (members.size() > 64 && !astra_ && !line && plan_.network.medium->ends) return run_equals(c, kind, offsets);
    return run_members(plan_of(c), kind, members, offsets);
}

// One collective, for the ranks that are given to it.
Plan Fold::plan_of(const Collective& c) const {
    Plan small;
    small.npus = plan_.npus, small.network = plan_.network, small.policy = plan_.policy;
    small.collectives.push_back(c);
    small.lanes[lane_comm] = plan_.lanes[lane_comm];
    small.reduce_bandwidth = plan_.reduce_bandwidth;
    return small;
}

// Of uses by dim of the network: those of the dims in which the group's members differ.
Uses::Row Fold::own_dims(const Uses::Row& row, std::int32_t kind) const {
    Uses::Row out;
    for (const std::size_t d : facts_.dims(classes_.first_group[static_cast<std::size_t>(kind)]))
        if (!row.empty()) out.push_back(row[d]);
    return out;
}

// One member per class.
Measured Fold::run_equals(const Collective& c, std::int32_t kind, const std::vector<Tick>& offsets) {
    if (!image_) image_ = std::make_unique<Image>(plan_, classes_, facts_);
    const auto& participants = participants_[static_cast<std::size_t>(kind)];
    Alone alone = run_image_alone(*image_, c, static_cast<std::uint32_t>(kind), participants, offsets, record_);
    if (alone.tie) throw Unfoldable{"chunks of a collective race within one instant"};
    Measured out{{}, {}, alone.quiet, alone.events, {}, std::move(alone.steps), {}};
    for (const std::uint32_t cls : participants) {
        out.done.push_back(alone.each[cls]), out.late.push_back(alone.late[cls]);
        if (record_) out.loads.push_back(std::move(alone.loads[cls]));
        if (!alone.uses[cls].empty()) out.uses.push_back(own_dims(alone.uses[cls], kind));
    }
    for (Step& step : out.steps) step.change /= groups_like(static_cast<std::size_t>(kind));  // the steps of one group
    return out;
}

// One member for all; none where they do not stand alike, or its chunks race within an instant.
LineStore::Looped Fold::loop_back(const Collective& c, std::int32_t kind, const std::vector<std::uint32_t>& members) {
    if (!symmetric(c, kind) || !reduce_alike(members)) return nullptr;
    if (auto found = by_one_line(c, kind, members)) return found;
    std::vector<std::int32_t> npu_of;
    for (const std::uint32_t m : members) npu_of.push_back(plan_.npu_of[m]);
    Plan small = plan_of(c);
    small.npu_of = {npu_of.data(), npu_of.size()};
    Alone alone = astra_ ? run_astra_alone(small, record_) : run_native_alone(small, record_);
    if (alone.tie) return nullptr;
    for (Step& step : alone.steps) step.change *= static_cast<std::int64_t>(members.size());  // its equals do the same
    for (Uses::Row& row : alone.uses) row = own_dims(row, kind);
    return std::make_shared<const Alone>(std::move(alone));
}

// The same, but kept for plans that have such a collective.
LineStore::Looped Fold::looped(std::uint32_t id, std::int32_t kind, const std::vector<std::uint32_t>& members) {
    const Collective& c = plan_.collectives[id];
    if (!finds_lines() || c.custom) return loop_back(c, kind, members);
    return store_->looped({facts_.content(id, classes_.first_group[static_cast<std::size_t>(kind)])}, [&] { return loop_back(c, kind, members); });
}

// A network of as few NPUs as the members need, where each stands as it did: a switch has the coordinates in use only, and a dim
// in which nobody differs has one. On meshes, and where links are shared, others lie on the way.
void Fold::shrink(Plan& small, std::vector<std::int32_t>& npu_of) const {
    if (meshes_ || !plan_.network.medium->ends || plan_.reduce_bandwidth.size > 0) return;
    const Geometry geometry(plan_.network);
    std::vector<std::int32_t> moved(npu_of.size(), 0);
    std::int64_t npus = 1;
    for (std::size_t d = 0; d < plan_.network.dims.size(); ++d) {
        std::vector<int> places;
        for (const std::int32_t npu : npu_of) places.push_back(geometry.coordinate(npu, d));
        std::sort(places.begin(), places.end());
        places.erase(std::unique(places.begin(), places.end()), places.end());
        Dim& dim = small.network.dims[d];
        const bool few = dim.shape == Shape::switch_ || places.size() == 1;
        if (few) dim.npus = static_cast<int>(places.size()), dim.blocks.clear();
        for (std::size_t p = 0; p < npu_of.size(); ++p) {
            const int place = geometry.coordinate(npu_of[p], d);
            const auto at = few ? std::lower_bound(places.begin(), places.end(), place) - places.begin() : place;
            moved[p] += static_cast<std::int32_t>(at * npus);
        }
        npus *= dim.npus;
    }
    small.npus = static_cast<int>(npus);
    npu_of = std::move(moved);
}

Measured Fold::run_members(const Plan& base, std::int32_t kind, const std::vector<std::uint32_t>& members, const std::vector<Tick>& offsets) const {
    if (members.size() > 4096) throw Unfoldable{"an asymmetric collective of more than 4,096 ranks"};
    Plan small = base;
    std::vector<std::int32_t> npu_of, program_of, zeros(members.size(), 0), minus(members.size(), -1);
    std::vector<std::int64_t> slot_ptr{0};
    std::map<Tick, std::int32_t> program_at;
    const auto& of = classes_.of;
    std::vector<std::uint32_t> sorted;  // classes that take part
    for (const std::uint32_t m : members) sorted.push_back(static_cast<std::uint32_t>(of[m]));
    std::sort(sorted.begin(), sorted.end());
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    const auto index = [&](std::uint32_t cls) { return static_cast<std::size_t>(std::lower_bound(sorted.begin(), sorted.end(), cls) - sorted.begin()); };
    // Members as ranks in the order of their numbers, as ties go by rank; `order` is the group's.
    std::vector<std::uint32_t> ascending = members;
    std::sort(ascending.begin(), ascending.end());
    std::vector<std::int32_t> order;
    for (const std::uint32_t m : members)
        order.push_back(static_cast<std::int32_t>(std::lower_bound(ascending.begin(), ascending.end(), m) - ascending.begin()));
    for (const std::uint32_t m : ascending) {
        npu_of.push_back(plan_.npu_of[m]);
        const Tick offset = offsets[index(static_cast<std::uint32_t>(of[m]))];
        program_of.push_back(program_at.try_emplace(offset, static_cast<std::int32_t>(program_at.size())).first->second);
        slot_ptr.push_back(slot_ptr.back() + 1);
    }
    shrink(small, npu_of);
    const bool sorted_group = std::is_sorted(order.begin(), order.end());
    if (!sorted_group) small.groups.push_back({order.data(), order.size()}), std::fill(minus.begin(), minus.end(), 0);
    // Each member waits for its offset, then takes part.
    static constexpr std::uint64_t ids[] = {0, 1};
    static constexpr std::uint8_t kinds[] = {static_cast<std::uint8_t>(Kind::delay), static_cast<std::uint8_t>(Kind::collective)};
    static constexpr std::int16_t lanes[] = {-1, lane_comm};
    static constexpr std::int64_t nothing[] = {0, 0};
    static constexpr std::int32_t slots[] = {-1, 0}, parents[] = {0, 1}, child_ptr[] = {0, 1, 1}, child[] = {1};
    std::vector<std::unique_ptr<std::int64_t[]>> delays(program_at.size());
    small.programs.resize(program_at.size());
    for (const auto& [offset, number] : program_at) {
        auto& delay = delays[static_cast<std::size_t>(number)];
        delay = std::make_unique<std::int64_t[]>(2);
        delay[0] = offset, delay[1] = 0;
        small.programs[static_cast<std::size_t>(number)] = {{ids, 2}, {kinds, 2}, {lanes, 2}, {delay.get(), 2}, {nothing, 2}, {nothing, 2},
                                                            {slots, 2}, {parents, 2}, {child_ptr, 3}, {child, 1}};
    }
    small.program_of = {program_of.data(), program_of.size()}, small.npu_of = {npu_of.data(), npu_of.size()};
    small.slot_ptr = {slot_ptr.data(), slot_ptr.size()};
    small.slot_a = {zeros.data(), zeros.size()}, small.slot_b = {minus.data(), minus.size()}, small.slot_c = {zeros.data(), zeros.size()};
    Alone alone = astra_ ? run_astra_members(small, record_) : run_native_members(small, record_);
    if (alone.tie) throw Unfoldable{"chunks of a collective race within one instant"};
    Measured out{std::vector<Tick>(sorted.size(), -1), std::vector<std::uint8_t>(sorted.size(), 0), alone.quiet, alone.events, {}, std::move(alone.steps), {}};
    std::vector<std::size_t> one(sorted.size());
    if (record_) out.loads.resize(sorted.size());
    std::vector<Uses::Row> uses(!alone.uses.empty() && !alone.uses[0].empty() ? sorted.size() : 0, Uses::Row(plan_.network.dims.size()));
    const auto what = [&](std::size_t p) {  // in order of rank: what all of a class must share
        std::vector<std::int64_t> found{alone.each[p], alone.late[p]};
        for (std::size_t k = 0; record_ && k < alone.loads[p].size(); ++k) {
            const Load& load = alone.loads[p][k];
            found.insert(found.end(), {load.dim, load.inward, load.bytes, load.busy});
        }
        return found;
    };
    std::vector<std::vector<std::int64_t>> by_position;
    for (const std::int32_t p : order) by_position.push_back(what(static_cast<std::size_t>(p)));
    for (std::size_t p = 0; p < members.size(); ++p) {
        const std::size_t at = index(static_cast<std::uint32_t>(of[ascending[p]]));
        for (std::size_t d = 0; !uses.empty() && d < plan_.network.dims.size(); ++d) join(uses[at][d], alone.uses[p][d], 0);
        if (out.done[at] < 0) {
            out.done[at] = alone.each[p], out.late[at] = alone.late[p], one[at] = p;
            if (record_) out.loads[at] = alone.loads[p];
        } else if (what(p) != what(one[at])) {
            throw Asymmetric{{"members of one class end a collective at different times"}, by_value(classes_.shape(static_cast<std::size_t>(kind)), by_position)};
        }
    }
    for (const Uses::Row& row : uses) out.uses.push_back(own_dims(row, kind));
    return out;
}

}  // namespace astrarium
