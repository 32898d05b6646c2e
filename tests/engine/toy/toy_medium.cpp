// A medium for the tests: messages never wait for each other. One file; nothing else in the engine names it.
#include "media/distance.hpp"
#include "media/medium.hpp"
#include "media/traffic.hpp"

namespace astrarium {
namespace {

class Toy final : public Medium {
public:
    Toy(const Plan& plan, bool record, Carried& run)
        : network_(plan.network), run_(run), geometry_(plan.network), traffic_(plan.network, PortRows::each(plan), record) {}
    void ask(MessageId id, Tick now) override {
        const Flight& flight = run_.flight(id);
        for (std::size_t d = 0; d < network_.dims.size(); ++d) {
            const int from = geometry_.coordinate(flight.source, d), to = geometry_.coordinate(flight.destination, d);
            if (from == to) continue;
            now = add(now, ticks(network_.dims[d].latency * geometry_.hops(d, from, to), false));
            now = add(now, ticks(static_cast<double>(flight.size) / network_.dims[d].bandwidth, false));
        }
        run_.deliver(id, now);
    }
    void wake(std::uint32_t, Tick) override {}
    Traffic* traffic() override { return &traffic_; }

private:
    const Network& network_;
    Carried& run_;
    const Geometry geometry_;
    Traffic traffic_;
};

const MediumKind kind{.name = "toy", .open = open_as<Toy>};
const Registered registered(kind);

}  // namespace
}  // namespace astrarium
