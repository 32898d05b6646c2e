#include "media/packets/roce_rules.hpp"

#include "media/packets/net.hpp"
#include "plan/check_plan.hpp"

namespace astrarium::packets {
namespace {

__extension__ typedef __int128 Wide;

RoceRules roce_rules(const PacketRules& rules) {
    const auto whole = [&](std::string_view name) { return whole_setting(rules, name); };
    return {whole("buffer"),
            whole("kmin"),
            whole("kmax"),
            whole("pmax"),
            setting(rules, "alpha"),
            setting(rules, "gain"),
            setting(rules, "additive"),
            setting(rules, "hyper"),
            setting(rules, "least"),
            whole("cnp_interval"),
            whole("alpha_timer"),
            whole("rate_timer"),
            whole("byte_counter"),
            whole("recovery"),
            setting(rules, "window"),
            whole("window_scales") != 0,
            whole("clamp") != 0,
            whole("departing") != 0,
            whole("per_message") != 0};
}

}  // namespace

RulesByRate rules_by_rate(const PacketRules& rules) {
    constexpr std::size_t columns = 7;
    const std::vector<double>& rows = table(rules, "by_rate");
    require(rows.size() % columns == 0, "packets out of range");
    RulesByRate all{{0, roce_rules(rules)}};
    for (std::size_t at = 0; at < rows.size(); at += columns) {
        RoceRules row = all[0].second;
        for (std::size_t k = 0; k < columns; ++k) require(rows[at + k] >= 0 && rows[at + k] < 0x1p62, "packets out of range");
        row.kmin = static_cast<std::int64_t>(rows[at + 1]), row.kmax = static_cast<std::int64_t>(rows[at + 2]);
        row.pmax = static_cast<std::int64_t>(rows[at + 3]), row.alpha = rows[at + 4];
        row.additive = rows[at + 5], row.hyper = rows[at + 6];
        all.emplace_back(rows[at], row);
    }
    return all;
}

const RoceRules* rules_at(const RulesByRate& all, double bandwidth) {
    for (std::size_t k = 1; k < all.size(); ++k)
        if (all[k].first == bandwidth) return &all[k].second;
    return &all[0].second;
}

bool marks(const RoceRules& rules, std::int64_t waiting, std::uint64_t chance) {
    if (waiting <= rules.kmin) return false;
    if (waiting > rules.kmax) return true;
    return static_cast<Wide>(chance) * (rules.kmax - rules.kmin) * 1'000'000 <
           static_cast<Wide>(waiting - rules.kmin) * rules.pmax * (std::int64_t{1} << 32);
}

void check_roce(const PacketRules& rules) {
    for (const auto& [rate, roce] : rules_by_rate(rules)) {
        require(roce.buffer >= 1 && roce.alpha > 0 && roce.kmin >= 0 && roce.kmax >= roce.kmin && roce.pmax >= 0 && roce.pmax <= 1'000'000,
                "packets out of range");
        require(roce.gain > 0 && roce.gain <= 1 && roce.cnp_interval >= 1 && roce.alpha_timer >= 1 && roce.rate_timer >= 1 &&
                    roce.byte_counter >= 0 && roce.recovery >= 1 && roce.additive > 0 && roce.hyper >= 0 && roce.least > 0 &&
                    roce.window >= 0,
                "packets out of range");
    }
}

}  // namespace astrarium::packets
