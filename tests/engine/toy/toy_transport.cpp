// A transport of packets for the tests: whatever is sent arrives after a delay. One file; nothing else in the engine names it.
#include "media/packets/net.hpp"

namespace astrarium::packets {
namespace {

class Delayed final : public Transport {
public:
    Delayed(Net& net, Windows&) : net_(net), delay_(whole_setting(net.rules, "delay")) {}
    void ask(std::uint32_t cargo, std::uint32_t, Tick now) override {
        for (std::uint32_t left = net_.cargos[cargo].left; left > 0; --left) net_.arrived(cargo, add(now, delay_));
    }
    void run(const std::vector<std::uint32_t>&, Tick, Tick) override {}
    void explain(std::vector<std::string>&) const override {}
    bool keeps(std::uint32_t) const override { return false; }
    void report(PacketCounts&) const override {}

private:
    Net& net_;
    const Tick delay_;
};

const TransportKind kind{.name = "delayed", .open = open_transport<Delayed>};
const RegisteredTransport registered(kind);

}  // namespace
}  // namespace astrarium::packets
