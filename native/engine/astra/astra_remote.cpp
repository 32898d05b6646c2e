#include "astra/astra_remote.hpp"

#include "media/distance.hpp"
#include "nodes/describe.hpp"

namespace astrarium {

void AstraRemote::access(std::uint32_t rank, std::uint32_t node) {
    const Remote& remote = plan_.remote;
    if (remote.kind == RemoteKind::none)
        throw Unsupported("a remote memory access, but the system has no remote memory", place_of(plan_, plan_.program(rank), rank, node));
    if (remote.kind == RemoteKind::per_npu) {
        start(rank, node);
        return;
    }
    const std::uint32_t port = remote.kind == RemoteKind::pool ? 0 : static_cast<std::uint32_t>(plan_.npu_of[rank] / remote.npus_per_node);
    if (port >= ports_.size()) ports_.resize(port + 1);
    if (ports_[port].busy) ports_[port].waiting.emplace_back(rank, node);
    else serve(rank, node, port);
}

Tick AstraRemote::start(std::uint32_t rank, std::uint32_t node) {
    const double size = static_cast<double>(plan_.program(rank).size[node]);
    const Tick time = add(plan_.remote.latency * 1000, ticks(size / plan_.remote.bandwidth, plan_.network.whole_ns));
    events_.after(rank, time, {npu_event::node_done, rank, node});
    return time;
}

void AstraRemote::serve(std::uint32_t rank, std::uint32_t node, std::uint32_t port) {
    events_.after(rank, start(rank, node), {npu_event::remote_free, port});
    ports_[port].busy = true;
}

void AstraRemote::freed(std::uint32_t port) {
    ports_[port].busy = false;
    if (ports_[port].waiting.empty()) return;
    const auto [rank, node] = ports_[port].waiting.front();
    ports_[port].waiting.pop_front();
    serve(rank, node, port);
}

}  // namespace astrarium
