#include "plugins/growth.hpp"

namespace astrarium {
namespace {

template <class T>
View<T> view(const std::vector<T>& values) {
    return {values.data(), values.size()};
}

}  // namespace

void Growth::add(const Handed& w) {
    Table& t = tables_[w.rank];
    if (w.node >= t.kind.size()) {
        const std::size_t nodes = static_cast<std::size_t>(w.node) + 1;
        for (std::size_t n = t.kind.size(); n < nodes; ++n) t.node_id.push_back(n);
        t.kind.resize(nodes, static_cast<std::uint8_t>(Kind::skip)), t.lane.resize(nodes, -1);
        t.duration.resize(nodes, 0), t.busy.resize(nodes, 0), t.size.resize(nodes, 0);
        t.slot.resize(nodes, -1), t.parents.resize(nodes, 0), t.child_ptr.resize(nodes + 1, 0);
        t.number.resize(nodes, 0);
        show(w.rank);
    }
    t.kind[w.node] = static_cast<std::uint8_t>(w.kind);
    t.lane[w.node] = w.lane;
    t.duration[w.node] = w.duration;
    t.busy[w.node] = w.lane == lane_compute ? w.duration : 0;
    busy_[w.rank] = astrarium::add(busy_[w.rank], t.busy[w.node]);
    t.size[w.node] = w.size;
    t.number[w.node] = node_number(handed_++);
    if (w.kind != Kind::collective && w.kind != Kind::send && w.kind != Kind::recv) return;
    t.slot[w.node] = static_cast<std::int32_t>(a_.size());
    if (a_.size() >= 0x7fffffffu) throw Unsupported("more than 2^31 messages and collectives of a workload that decides as it runs");
    a_.push_back(w.a), b_.push_back(w.b), c_.push_back(w.c);
    plan_.slot_a = view(a_), plan_.slot_b = view(b_), plan_.slot_c = view(c_);
}

void Growth::show(std::uint32_t rank) {
    const Table& t = tables_[rank];
    Program& p = plan_.programs[static_cast<std::size_t>(plan_.program_of[rank])];
    p.node_id = view(t.node_id), p.kind = view(t.kind), p.lane = view(t.lane);
    p.duration = view(t.duration), p.busy = view(t.busy), p.size = view(t.size);
    p.slot = view(t.slot), p.parents = view(t.parents), p.child_ptr = view(t.child_ptr);
}

}  // namespace astrarium
