#include "run/post.hpp"

#include <algorithm>

#include "media/distance.hpp"
#include "plan/unfoldable.hpp"

namespace astrarium {

void Post::check_peer(std::uint32_t rank, std::uint32_t node, std::uint32_t peer) const {
    if (peer == rank && !equals_) throw BadTrace("its peer is the rank itself", nodes_.place(rank, node));
    if (peer >= plan_.ranks()) throw BadTrace("its peer rank does not exist", nodes_.place(rank, node));
}

void Post::send(std::uint32_t rank, std::uint32_t node, std::size_t slot) {
    const auto peer = static_cast<std::uint32_t>(plan_.slot_a[slot]);
    check_peer(rank, node, peer);
    const MessageId id = messages_.make();
    Message& m = messages_[id];
    m.purpose = Message::node;
    m.peer = peer, m.tag = plan_.slot_b[slot];
    m.high = static_cast<std::uint64_t>(rank) << 32 | node;
    m.source = rank, m.flight = Flight(plan_.npu_of[rank], plan_.npu_of[peer], 0);
    if (equals_) {
        const Aim aim = equals_->aim(rank, slot);
        m.source = aim.source, m.flight = aim.flight;
        if (messages_.ports()->passes(m.flight)) throw Unfoldable{passing};
    }
    m.flight.size = nodes_.program(rank).size[node];
    messages_.post(id);
}

void Post::receive(std::uint32_t rank, std::uint32_t node, std::size_t slot) {
    const auto peer = static_cast<std::uint32_t>(plan_.slot_a[slot]);
    check_peer(rank, node, peer);
    if (plan_.network.medium->receives) return post_receive(rank, node, peer, plan_.slot_b[slot]);
    if (meetings_.post({plan_.slot_b[slot], nodes_.program(rank).size[node], peer, rank}, node)) nodes_.over(rank, node, clock_.now);
}

// The place of a memory at the NPU's switch.
std::int32_t Post::memory_of(std::int32_t npu, std::size_t number) const {
    const auto& dims = plan_.network.dims;
    std::size_t d = 0;
    while (number >= dims[d].ends.size()) number -= dims[d++].ends.size();
    const Geometry geometry(plan_.network);
    const int place = dims[d].npus - static_cast<int>(dims[d].ends.size()) + static_cast<int>(number);
    return npu + (place - geometry.coordinate(npu, d)) * geometry.stride(d);
}

void Post::access(std::uint32_t rank, std::uint32_t node) {
    const MessageId id = messages_.make();
    Message& m = messages_[id];
    const Program& program = nodes_.program(rank);
    const auto code = static_cast<std::uint32_t>(-2 - program.slot[node]);
    const std::int32_t own = plan_.npu_of[rank], memory = memory_of(own, code >> 1);
    m.purpose = Message::access;
    m.source = rank;
    m.high = static_cast<std::uint64_t>(rank) << 32 | node;
    m.flight = code & 1 ? Flight(own, memory, program.size[node]) : Flight(memory, own, program.size[node]);
    messages_.post(id);
}

// For media that are told of receives.
void Post::post_receive(std::uint32_t rank, std::uint32_t node, std::uint32_t peer, std::int64_t tag) {
    const MessageId id = messages_.make();
    Message& m = messages_[id];
    m.receives = true;
    m.peer = peer, m.tag = tag;
    m.high = static_cast<std::uint64_t>(rank) << 32 | node;
    m.flight = Flight(plan_.npu_of[peer], plan_.npu_of[rank], nodes_.program(rank).size[node]);
    messages_.post(id);
}

void Post::take(const Message& m) {
    const auto receiver = meetings_.deliver({m.tag, m.flight.size, m.rank(), m.peer});
    nodes_.complete(m.rank(), static_cast<std::uint32_t>(m.high));
    if (receiver) nodes_.complete(m.peer, static_cast<std::uint32_t>(*receiver));
}

void Post::explain(std::vector<Wait>& why) const {
    for (const auto& [key, meeting] : meetings_)
        for (std::size_t k = meeting.met; k < meeting.posted.size(); ++k)
            say(why[key.destination], nodes_.place(key.destination, static_cast<std::uint32_t>(meeting.posted[k])),
                " waits for a send that never comes");
}

void Post::write(StateWords& to) const {
    const auto open = meetings_.sorted();
    to.count(open.size());
    for (const auto* entry : open) {
        const auto& [id, meeting] = *entry;
        for (const std::int64_t value :
             {std::int64_t{id.destination}, std::int64_t{id.source}, id.tag, id.size, std::int64_t{meeting.delivered}})
            to.word(value);
        to.count(meeting.posted.size() - meeting.met);
        for (std::size_t k = meeting.met; k < meeting.posted.size(); ++k)
            to.node(id.destination, static_cast<std::uint32_t>(meeting.posted[k]));
    }
}

Tick RemoteMemory::end(const Nodes& nodes, std::uint32_t rank, std::uint32_t node, Tick now) {
    const Remote& remote = plan_.remote;
    const std::int64_t size = nodes.program(rank).size[node];
    if (foreign_) return add(now, foreign_->access(rank, size, now));
    if (remote.kind == RemoteKind::none)
        throw Unsupported("a remote memory access, but the system has no remote memory", nodes.place(rank, node));
    const Tick time = add(remote.latency * 1000, ticks(static_cast<double>(size) / remote.bandwidth, plan_.network.whole_ns));
    if (remote.kind == RemoteKind::per_npu) return add(now, time);
    const auto port = static_cast<std::size_t>(remote.kind == RemoteKind::pool ? 0 : plan_.npu_of[rank] / remote.npus_per_node);
    if (port >= free_.size()) free_.resize(port + 1, 0);
    return free_[port] = add(std::max(now, free_[port]), time);
}

void RemoteMemory::write(StateWords& to) const {
    to.count(free_.size());
    for (const Tick free : free_) to.until(free);
}

}  // namespace astrarium
