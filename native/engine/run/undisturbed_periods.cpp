// The state of collectives that are timed, and what skipping periods changes.
#include <algorithm>

#include "run/collectives.hpp"
#include "run/undisturbed.hpp"

namespace astrarium {

template <class Visit>
void Undisturbed::each_gathering(Visit&& visit) const {
    for (const Group& group : groups_)
        for (const Gathering& each : group.open) visit(each);
    for (const Bundle& bundle : bundles_)
        for (const Gathering& each : bundle.complete)
            if (each.arrived > 0) visit(each);
}

Tick Undisturbed::horizon(Tick now) const {
    each_gathering([&now](const Gathering& each) {
        for (std::size_t p = 0; p < each.at.size(); ++p)
            if (each.node[p] != nothing) now = std::min(now, each.at[p].at);
    });
    return now;
}

// Which holder a link has does not matter: in a run that counts none is met.
void Undisturbed::write(Recurrence& to, const Collectives& collectives) const {
    each_gathering([&](const Gathering& each) {
        const Number& number = each.number;
        const std::int64_t issued = std::int64_t{collectives.issued(number.group)} + collectives.skipped(number.group);
        to.count(number.group), to.word(number.serial - issued), to.word(each.collective);
        for (std::uint32_t p = 0; p < each.at.size(); ++p) {
            to.word(each.node[p] != nothing ? 1 + each.at[p].late : 0);
            if (each.node[p] != nothing) to.time(each.at[p].at), to.node(membership_.rank(number.group, p), each.node[p]);
        }
    });
    to.count(groups_.size());
    holds_.each([&to](std::size_t link, Tick held, Tick used) {
        if (to.matters(held) || to.matters(used)) to.count(link), to.until(held), to.until(used);
    });
}

// Whether a collective is timed as the one so much further on.
bool Undisturbed::modes_alike(std::uint32_t group, std::uint32_t serial, const std::vector<std::uint32_t>& shift) const {
    const std::uint32_t mine = groups_[group].mode(serial), next = groups_[group].mode(serial + shift[group]);
    if (mine < first_bundle || next < first_bundle) return mine == next;
    const auto& all = bundles_[mine - first_bundle].collectives;
    const auto& others = bundles_[next - first_bundle].collectives;
    return std::equal(all.begin(), all.end(), others.begin(), others.end(), [&shift](const Number& one, const Number& other) {
        return one.group == other.group && one.serial + shift[one.group] == other.serial;
    });
}

std::uint64_t Undisturbed::periods_alike(const std::vector<std::uint32_t>& serials, const Collectives& collectives,
                                         std::uint64_t most) const {
    for (std::uint32_t group = 0; group < groups_.size() && most > 0; ++group) {
        if (serials[group] == 0 || !groups_[group].placed) continue;
        const auto [low, high] = std::minmax_element(collectives.issues(group).begin(), collectives.issues(group).end());
        const std::uint32_t skipped = collectives.skipped(group), end = *high + skipped;
        std::uint32_t n = *low + skipped < serials[group] ? 0 : *low + skipped - serials[group];
        const std::uint64_t last = end + (most - 1) * serials[group];
        while (n < last && modes_alike(group, n, serials)) ++n;
        most = n < end ? 0 : std::min<std::uint64_t>(most, (n - end) / serials[group] + 1);
    }
    for (const Bundle& bundle : bundles_) {
        if (!bundle.gathers()) continue;
        const auto [group, serial] = bundle.collectives[0];
        std::uint32_t alike = 0;
        while (alike < most && modes_alike(group, serial + alike * serials[group], serials)) ++alike;
        most = alike;
    }
    return most;
}

// Holders from `first` on are those of the period. Each period that is left out has such holders, too, that meet others as these did, and
// as those of the period before did in this one. The holders themselves become those of the last one, since these are under way.
void Undisturbed::skip_holders(std::uint32_t first, const std::vector<std::uint32_t>& serials, std::uint32_t periods) {
    const auto end = static_cast<std::uint32_t>(held_.size());
    const std::vector<std::uint32_t> before = in_period_before(first, serials);
    for (std::uint32_t k = 0; k < periods; ++k)
        for (std::uint32_t holder = first; holder < end; ++holder) {
            Held held = held_[holder];
            for (Number& each : held.collectives) each.serial += k * serials[each.group];
            events_ += held.events;
            held_.push_back(std::move(held));
            const std::uint32_t other = before[holder - first];
            holds_.add_holder(holds_.met()[holder] || (other != nothing && holds_.met()[other]));
        }
    for (std::uint32_t holder = first; holder < end; ++holder)
        for (Number& each : held_[holder].collectives) each.serial += periods * serials[each.group];
    skip_pairs(first, before, periods);
}

// Who the holders of a period are in the one before.
std::vector<std::uint32_t> Undisturbed::in_period_before(std::uint32_t first, const std::vector<std::uint32_t>& serials) const {
    const auto count = static_cast<std::uint32_t>(held_.size()) - first;
    std::map<Number, std::uint32_t> number;
    for (std::uint32_t k = 0; k < count; ++k) number.emplace(held_[first + k].collectives[0], k);
    std::vector<std::uint32_t> before(count, nothing);
    for (std::uint32_t holder = first < 2 * count ? 0 : first - 2 * count; holder < first; ++holder) {
        const auto [group, serial] = held_[holder].collectives[0];
        if (const auto it = number.find({group, serial + serials[group]}); it != number.end()) before[it->second] = holder;
    }
    return before;
}

void Undisturbed::skip_pairs(std::uint32_t first, const std::vector<std::uint32_t>& before, std::uint32_t periods) {
    const auto count = static_cast<std::uint32_t>(before.size());
    const auto of_period = [&](std::uint32_t holder, std::uint32_t k) { return k == periods ? holder : holder + (k + 1) * count; };
    std::map<std::uint32_t, std::uint32_t> after;  // holders of the period, by who they are in the one before
    for (std::uint32_t k = 0; k < count; ++k) after[before[k]] = first + k;
    std::vector<LinkHolds::Pair> pairs;
    for (const auto& [one, other] : pairs_) {
        if (other < first) pairs.emplace_back(one, other);
        else if (one < first) pairs.emplace_back(one, of_period(other, 0));
        for (std::uint32_t k = 0; k <= periods && other >= first; ++k) {
            if (one >= first) pairs.emplace_back(of_period(one, k), of_period(other, k));
            else if (k > 0 && after.contains(one)) pairs.emplace_back(of_period(after[one], k - 1), of_period(other, k));
        }
    }
    pairs_ = std::move(pairs);
}

// What is under way is so much further on.
void Undisturbed::skip(const std::vector<std::uint32_t>& serials, std::size_t timings, std::uint64_t periods) {
    const auto further = [&](const Number& number) {
        return Number{number.group, number.serial + static_cast<std::uint32_t>(periods) * serials[number.group]};
    };
    skip_holders(static_cast<std::uint32_t>(held_.size() - timings), serials, static_cast<std::uint32_t>(periods));
    for (Group& group : groups_)
        for (Gathering& each : group.open) each.number = further(each.number);
    std::vector<std::vector<Gathering>> gather;
    for (Bundle& bundle : bundles_)
        if (bundle.gathers()) gather.push_back(std::exchange(bundle.complete, {})), bundle.arrived = 0;
    for (std::vector<Gathering>& complete : gather) {
        std::size_t arrived = 0;
        std::uint32_t mode = 0;
        for (Gathering& each : complete) {
            if (each.arrived == 0) continue;
            each.number = further(each.number);
            mode = groups_[each.number.group].mode(each.number.serial), ++arrived;
        }
        bundles_[mode - first_bundle].arrived = arrived, bundles_[mode - first_bundle].complete = std::move(complete);
    }
}

}  // namespace astrarium
