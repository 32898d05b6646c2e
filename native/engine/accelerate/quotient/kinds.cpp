#include "accelerate/quotient/kinds.hpp"

#include <algorithm>
#include <set>

#include "plan/slots.hpp"

namespace astrarium {

void check_foldable(const Plan& plan, const RankClasses& classes, bool record) {
    if (const char* why = never_folds(plan)) throw Unfoldable{why};
    if (std::any_of(plan.collectives.begin(), plan.collectives.end(), [](const Collective& c) { return c.custom.has_value(); }))
        throw Unfoldable{"a custom collective"};
    if (!plan.network.medium->on_links) return;
    // Links carry other ranks' messages: only collectives of everybody, one at a time, keep to themselves.
    if (record && plan.ranks() < static_cast<std::size_t>(plan.npus)) throw Unfoldable{"NPUs without a rank pass messages on"};
    if (!classes.partner_slot.empty()) throw Unfoldable{"messages between ranks over shared links"};
    for (const std::int32_t rank : classes.first)
        for (std::int64_t s = plan.slot_ptr[static_cast<std::size_t>(rank)]; s < plan.slot_ptr[static_cast<std::size_t>(rank) + 1]; ++s) {
            const std::int32_t group = plan.slot_b[static_cast<std::size_t>(s)];
            if (group >= 0 && plan.groups[static_cast<std::size_t>(group)].size != plan.ranks())
                throw Unfoldable{"collectives of groups over shared links"};
        }
}

Kinds::Kinds(const Plan& plan, Facts& facts, const RankClasses& classes) : plan_(plan), facts_(facts), classes_(classes) {
    const std::size_t count = classes.first_group.size();
    class_size_.assign(classes.first.size(), 0);
    for (const std::int32_t c : classes.of) ++class_size_[static_cast<std::size_t>(c)];
    for (const std::int32_t group : classes.first_group) {
        std::vector<std::uint32_t> found;
        if (group < 0)
            for (std::uint32_t c = 0; c < class_size_.size(); ++c) found.push_back(c);
        else
            for (const std::int32_t member : plan.groups[static_cast<std::size_t>(group)])
                found.push_back(static_cast<std::uint32_t>(classes.of[static_cast<std::size_t>(member)]));
        std::sort(found.begin(), found.end());
        const auto here = std::upper_bound(found.begin(), found.end(), found.front()) - found.begin();  // of the first class
        groups_like_.push_back(group < 0 ? 1 : class_size_[found.front()] / here);
        found.erase(std::unique(found.begin(), found.end()), found.end());
        participants_.push_back(std::move(found));
        size_.push_back(static_cast<std::uint32_t>(group < 0 ? plan.ranks() : plan.groups[static_cast<std::size_t>(group)].size));
    }
    index_number_.assign(count, LineStore::none), keeps_to_itself_.assign(count, 0), index_.resize(count);
    check_groups();
}

void Kinds::check_groups() const {
    for (const std::int32_t rank : classes_.first) {
        std::set<std::int32_t> groups, kinds;
        const auto base = static_cast<std::size_t>(plan_.slot_ptr[static_cast<std::size_t>(rank)]);
        const std::vector<SlotUse>& uses = facts_.uses()[static_cast<std::size_t>(plan_.program_of[static_cast<std::size_t>(rank)])];
        for (std::size_t s = 0; s < uses.size(); ++s) {
            if (uses[s].kind != Kind::collective) continue;
            const std::int32_t group = plan_.slot_b[base + s];
            if (group >= 0 && groups.insert(group).second && !kinds.insert(classes_.group_kind[static_cast<std::size_t>(group)]).second)
                throw Unfoldable{"a rank in two groups of one kind"};
        }
    }
}

const std::vector<std::uint32_t>& Kinds::index_of(std::size_t kind) {
    std::vector<std::uint32_t>& index = index_[kind];
    const auto& among = participants_[kind];
    if (index.empty())
        for (const std::uint32_t m : members(kind))
            index.push_back(static_cast<std::uint32_t>(
                std::lower_bound(among.begin(), among.end(), static_cast<std::uint32_t>(classes_.of[m])) - among.begin()));
    return index;
}

std::uint32_t Kinds::index_number(std::size_t kind) {
    std::uint32_t& number = index_number_[kind];
    if (number != LineStore::none) return number;
    Words index;
    pack(index_of(kind), index);
    return number = facts_.store->number(std::move(index));
}

const std::vector<std::size_t>& Kinds::dims(std::size_t kind) {
    const std::vector<std::size_t>& dims = facts_.dims(group(kind));
    if (keeps_to_itself_[kind] == 0 && passes_others(kind, dims)) throw Unfoldable{passing};
    keeps_to_itself_[kind] = 1;
    return dims;
}

bool Kinds::passes_others(std::size_t kind, const std::vector<std::size_t>& dims) const {
    const auto mesh = [this](std::size_t d) { return plan_.network.dims[d].shape == Shape::mesh; };
    if (std::none_of(dims.begin(), dims.end(), mesh)) return false;
    const Geometry geometry(plan_.network);
    std::size_t product = 1;
    for (const std::size_t d : dims) {
        std::vector<int> places;
        for (std::size_t p = 0; p < size_[kind]; ++p)
            places.push_back(geometry.coordinate(
                plan_.npu_of[group(kind) < 0 ? p : static_cast<std::size_t>(plan_.groups[static_cast<std::size_t>(group(kind))][p])], d));
        std::sort(places.begin(), places.end());
        places.erase(std::unique(places.begin(), places.end()), places.end());
        if (mesh(d) && static_cast<std::size_t>(places.back() - places.front()) + 1 != places.size()) return true;
        product *= places.size();
    }
    return product != size_[kind];
}

Uses::Row Kinds::own_dims(const Uses::Row& row, std::size_t kind) const {
    Uses::Row out;
    for (const std::size_t d : facts_.dims(group(kind)))
        if (!row.empty()) out.push_back(row[d]);
    return out;
}

}  // namespace astrarium
