#include "media/medium.hpp"

#include "media/flows.hpp"
#include "media/links.hpp"

namespace astrarium {
namespace {

template <class Of>
std::unique_ptr<Medium> make(const Plan& plan, bool record, Carried& run) {
    return std::make_unique<Of>(plan, record, run);
}

// One more medium: its file, and a line here.
struct Row {
    Backend backend;
    std::unique_ptr<Medium> (*open)(const Plan&, bool, Carried&);
};
constexpr Row media[] = {
    {Backend::routed, make<Links>},
    {Backend::fluid, make<Flows>},
};

}  // namespace

std::unique_ptr<Medium> open_medium(const Plan& plan, bool record, Carried& run) {
    for (const Row& row : media)
        if (row.backend == plan.network.backend) return row.open(plan, record, run);
    return nullptr;
}

}  // namespace astrarium
