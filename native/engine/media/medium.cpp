#include "media/medium.hpp"

#include <map>

namespace astrarium {
namespace {

std::map<std::string_view, const MediumKind*>& kinds() {
    static std::map<std::string_view, const MediumKind*> all;
    return all;
}

// Those without a file of their own: ASTRA-sim's two, and that of plug-ins.
const MediumKind unshared{.name = "unshared", .astra_sim = true, .meets = false};
const MediumKind one_dim_links{.name = "links", .astra_sim = true, .on_links = true};
const MediumKind foreign{.name = "foreign", .own_clock = true, .receives = true, .never_folds = "a foreign network"};
const Registered of_unshared(unshared), of_links(one_dim_links), of_foreign(foreign);

}  // namespace

Registered::Registered(const MediumKind& kind) { kinds().emplace(kind.name, &kind); }

const MediumKind* find_medium(std::string_view name) {
    const auto found = kinds().find(name);
    return found == kinds().end() ? nullptr : found->second;
}

}  // namespace astrarium
