#include "convert.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <unordered_map>

namespace nb = nanobind;

namespace astrarium {
namespace {

class Reader {
public:
    explicit Reader(BorrowedPlan& into) : into_(into), plan_(into.plan) {}

    void read(nb::handle source) {
        plan_.npus = number<int>(source, "npus");
        for (nb::handle p : source.attr("programs")) plan_.programs.push_back(program(p));
        plan_.program_of = view<std::int32_t>(source, "program_of");
        plan_.npu_of = view<std::int32_t>(source, "npu_of");
        plan_.slot_ptr = view<std::int64_t>(source, "slot_ptr");
        plan_.slot_a = view<std::int32_t>(source, "slot_a");
        plan_.slot_b = view<std::int32_t>(source, "slot_b");
        plan_.slot_c = view<std::int32_t>(source, "slot_c");
        for (nb::handle g : source.attr("groups")) plan_.groups.push_back(view_of<std::int32_t>(g));
        const nb::object collectives = source.attr("collectives");
        plan_.schedules.reserve(4096);
        for (nb::handle c : collectives) plan_.collectives.push_back(collective(c));
        network(source.attr("network"));
        policy(source.attr("policy"));
        remote(source.attr("remote"));
        int lane = 0;
        for (nb::handle capacity : source.attr("lanes")) {
            if (lane == lane_count) break;
            plan_.lanes[lane++] = nb::cast<int>(capacity);
        }
        check();
    }

private:
    BorrowedPlan& into_;
    Plan& plan_;
    std::unordered_map<PyObject*, const Schedule*> schedules_;

    template <class T>
    static T number(nb::handle source, const char* name) {
        return nb::cast<T>(source.attr(name));
    }
    template <class T>
    View<T> view_of(nb::handle array) {
        auto a = nb::cast<nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>>(array);
        into_.keep.push_back(nb::borrow(array));
        return {a.data(), a.shape(0)};
    }
    template <class T>
    View<T> view(nb::handle source, const char* name) {
        try {
            return view_of<T>(source.attr(name));
        } catch (const nb::cast_error&) {
            throw nb::type_error((std::string("plan array ") + name + " has the wrong type, shape or layout").c_str());
        }
    }

    Program program(nb::handle s) {
        Program p;
        p.node_id = view<std::uint64_t>(s, "node_id");
        p.kind = view<std::uint8_t>(s, "kind");
        p.lane = view<std::int16_t>(s, "lane");
        p.duration = view<std::int64_t>(s, "duration");
        p.busy = view<std::int64_t>(s, "busy");
        p.size = view<std::int64_t>(s, "size");
        p.slot = view<std::int32_t>(s, "slot");
        p.parents = view<std::int32_t>(s, "parents");
        p.child_ptr = view<std::int32_t>(s, "child_ptr");
        p.child = view<std::int32_t>(s, "child");
        return p;
    }

    const Schedule* schedule(nb::handle s) {
        if (s.is_none()) return nullptr;
        auto [it, fresh] = schedules_.try_emplace(s.ptr(), nullptr);
        if (!fresh) return it->second;
        if (plan_.schedules.size() == plan_.schedules.capacity()) throw Unsupported("more than 4,096 schedules in a plan");
        Schedule out;
        out.mode = static_cast<PeerMode>(number<int>(s, "peer_mode"));
        out.n = number<int>(s, "n");
        out.program = view<std::int32_t>(s, "program");
        out.send_ptr = view<std::int32_t>(s, "send_ptr");
        out.send_peer = view<std::int32_t>(s, "send_peer");
        out.send_needs = view<std::int32_t>(s, "send_needs");
        out.send_match = view<std::int32_t>(s, "send_match");
        out.send_block_ptr = view<std::int32_t>(s, "send_block_ptr");
        out.recv_ptr = view<std::int32_t>(s, "recv_ptr");
        out.recv_peer = view<std::int32_t>(s, "recv_peer");
        const nb::object reduces = s.attr("recv_reduce").attr("view")("uint8");
        out.recv_reduce = view_of<std::uint8_t>(reduces);
        plan_.schedules.push_back(out);
        return it->second = &plan_.schedules.back();
    }

    Phase phase(nb::handle s) {
        Phase p;
        p.dim = number<int>(s, "dim");
        p.op = number<int>(s, "op");
        p.algorithm = static_cast<Algorithm>(number<int>(s, "algorithm"));
        p.size = number<std::int64_t>(s, "size");
        p.n = number<int>(s, "n");
        p.stride = number<int>(s, "stride");
        p.pick = static_cast<Pick>(number<int>(s, "pick"));
        p.window = number<int>(s, "window");
        p.local = number<bool>(s, "local");
        p.schedule = schedule(s.attr("schedule"));
        p.block_size = number<std::int64_t>(s, "block_size");
        if (p.n < 1 || p.stride < 1 || p.size < 0) throw Unsupported("a phase with n, stride or size out of range");
        if (p.algorithm != Algorithm::schedule && p.n > 32767)
            throw Unsupported("ASTRA-sim's machines with more than 32,767 NPUs in a phase");
        return p;
    }

    Collective collective(nb::handle s) {
        Collective c;
        c.op = number<int>(s, "op");
        if (c.op < 0 || c.op > 15) throw Unsupported("collective op " + std::to_string(c.op));
        c.size = number<std::int64_t>(s, "size");
        c.active_chunks = number<int>(s, "active_chunks");
        for (nb::handle chunk : s.attr("chunks")) {
            Chunk kind;
            kind.repeat = number<int>(chunk, "repeat");
            for (nb::handle p : chunk.attr("phases")) kind.phases.push_back(phase(p));
            c.total_chunks += kind.repeat;
            c.max_phases = std::max(c.max_phases, static_cast<int>(kind.phases.size()));
            c.chunks.push_back(std::move(kind));
        }
        if (const nb::object custom = s.attr("custom"); !custom.is_none()) {
            Custom out;
            for (nb::handle p : custom.attr("programs")) out.programs.push_back(program(p));
            out.program_of = view<std::int32_t>(custom, "program_of");
            for (nb::handle p : custom.attr("slot_peer")) out.slot_peer.push_back(view_of<std::int32_t>(p));
            for (nb::handle p : custom.attr("slot_tag")) out.slot_tag.push_back(view_of<std::int32_t>(p));
            c.custom = std::move(out);
            c.total_chunks = 1;
        }
        return c;
    }

    void network(nb::handle s) {
        plan_.network.backend = static_cast<Backend>(number<int>(s, "backend"));
        plan_.network.whole_ns = number<bool>(s, "whole_ns");
        for (nb::handle d : s.attr("dims"))
            plan_.network.dims.push_back({static_cast<Shape>(number<int>(d, "shape")), number<int>(d, "npus"),
                                          number<double>(d, "bandwidth"), number<double>(d, "latency")});
    }

    void policy(nb::handle s) {
        Policy& p = plan_.policy;
        p.order = static_cast<Order>(number<int>(s, "order"));
        p.queues_per_dim = number<int>(s, "queues_per_dim");
        p.active_chunks = number<int>(s, "active_chunks");
        p.lifo = number<int>(s, "lifo");
        p.endpoint_delay = number<std::int64_t>(s, "endpoint_delay");
        p.reduce_bandwidth = number<double>(s, "reduce_bandwidth");
        p.rendezvous = number<bool>(s, "rendezvous");
        if (const nb::object bus = s.attr("shared_bus"); !bus.is_none())
            p.shared_bus = SharedBus{static_cast<Tick>(nb::cast<double>(bus[0])), static_cast<Tick>(nb::cast<double>(bus[1])),
                                     static_cast<Tick>(nb::cast<double>(bus[2])), nb::cast<double>(bus[3]), nb::cast<std::int64_t>(bus[4])};
    }

    void remote(nb::handle s) {
        plan_.remote = {static_cast<RemoteKind>(number<int>(s, "kind")), number<std::int64_t>(s, "latency"),
                        number<double>(s, "bandwidth"), number<int>(s, "npus_per_node")};
    }

    // The invariants that keep every later index in range; a Plan comes from our own `lower`, so a breach is our bug.
    void check() const {
        const std::size_t ranks = plan_.ranks();
        const auto require = [](bool ok, const char* what) {
            if (!ok) throw std::invalid_argument(std::string("broken plan: ") + what);
        };
        require(plan_.npu_of.size == ranks && plan_.slot_ptr.size == ranks + 1, "rank arrays differ in length");
        std::int64_t npus = 1;
        for (const Dim& dim : plan_.network.dims) {
            require(dim.npus >= 1 && dim.bandwidth > 0 && dim.latency >= 0, "dim out of range");
            npus *= dim.npus;
        }
        require(!plan_.network.dims.empty() && npus == plan_.npus, "npus is not the product of the dims");
        for (const Program& p : plan_.programs) {
            const std::size_t n = p.nodes();
            require(p.kind.size == n && p.lane.size == n && p.duration.size == n && p.busy.size == n && p.size.size == n &&
                        p.slot.size == n && p.parents.size == n && p.child_ptr.size == n + 1, "program arrays differ in length");
            for (std::size_t i = 0; i < n; ++i)
                require(p.kind[i] <= 5 && p.lane[i] >= -1 && p.lane[i] < lane_count && p.duration[i] >= 0 && p.size[i] >= 0 &&
                            p.child_ptr[i] >= 0 && p.child_ptr[i] <= p.child_ptr[i + 1], "node out of range");
            require(p.child_ptr[n] >= 0 && static_cast<std::size_t>(p.child_ptr[n]) == p.child.size, "child_ptr out of range");
            for (const std::int32_t child : p.child) require(child >= 0 && static_cast<std::size_t>(child) < n, "child out of range");
        }
        require(plan_.slot_ptr[0] == 0 && static_cast<std::size_t>(plan_.slot_ptr[ranks]) == plan_.slot_a.size &&
                    plan_.slot_b.size == plan_.slot_a.size && plan_.slot_c.size == plan_.slot_a.size, "slots differ in length");
        for (std::size_t r = 0; r < ranks; ++r)
            require(plan_.program_of[r] >= 0 && static_cast<std::size_t>(plan_.program_of[r]) < plan_.programs.size() &&
                        plan_.npu_of[r] >= 0 && plan_.npu_of[r] < plan_.npus && plan_.slot_ptr[r] <= plan_.slot_ptr[r + 1],
                    "rank out of range");
        for (const auto& group : plan_.groups)
            for (const std::int32_t member : group) require(member >= 0 && static_cast<std::size_t>(member) < ranks, "group member out of range");
        for (int lane = 0; lane < lane_count; ++lane) require(plan_.lanes[lane] >= 1, "lane without room");
        require(plan_.policy.queues_per_dim >= 1 && plan_.policy.active_chunks >= 0 && plan_.policy.endpoint_delay >= 0, "policy out of range");
        check_slots(require);
        check_phases(require);
    }

    template <class Require>
    void check_slots(Require&& require) const {
        for (std::size_t r = 0; r < plan_.ranks(); ++r) {
            const Program& p = plan_.program(r);
            const std::int64_t slots = plan_.slot_ptr[r + 1] - plan_.slot_ptr[r];
            for (std::size_t i = 0; i < p.nodes(); ++i) {
                const auto kind = static_cast<Kind>(p.kind[i]);
                if (kind != Kind::collective && kind != Kind::send && kind != Kind::recv) continue;
                require(p.slot[i] >= 0 && p.slot[i] < slots, "slot out of range");
                const auto at = static_cast<std::size_t>(plan_.slot_ptr[r] + p.slot[i]);
                if (kind == Kind::collective)
                    require(plan_.slot_a[at] >= 0 && static_cast<std::size_t>(plan_.slot_a[at]) < plan_.collectives.size() &&
                                plan_.slot_b[at] < static_cast<std::int64_t>(plan_.groups.size()), "collective out of range");
                else
                    require(plan_.slot_a[at] >= 0, "peer out of range");
            }
        }
    }

    template <class Require>
    void check_phases(Require&& require) const {
        for (const Collective& c : plan_.collectives)
            for (const Chunk& chunk : c.chunks) {
                require(chunk.repeat >= 0, "chunk repeat out of range");
                for (const Phase& p : chunk.phases) {
                    require(p.dim < static_cast<int>(plan_.network.dims.size()), "phase dim out of range");
                    require((p.algorithm == Algorithm::schedule) == (p.schedule != nullptr), "schedule missing");
                    if (p.schedule) require(p.schedule->n == p.n && p.schedule->program.size == static_cast<std::size_t>(p.n), "schedule of another size");
                }
            }
    }
};

template <class T>
nb::object array_of(const std::vector<T>& values) {
    auto* copy = new std::vector<T>(values);
    nb::capsule owner(copy, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(copy->data(), {copy->size()}, owner));
}

}  // namespace

void read_plan(nb::handle source, BorrowedPlan& into) { Reader(into).read(source); }

nb::dict write_outcome(const Outcome& o) {
    nb::dict d;
    d["row"] = array_of(o.row);
    d["finish"] = array_of(o.finish);
    d["busy"] = array_of(o.busy);
    d["node_ptr"] = array_of(o.node_ptr);
    d["start"] = array_of(o.start);
    d["end"] = array_of(o.end);
    d["link_dim"] = array_of(o.link_dim);
    d["link_from"] = array_of(o.link_from);
    d["link_to"] = array_of(o.link_to);
    d["link_bytes"] = array_of(o.link_bytes);
    d["link_busy"] = array_of(o.link_busy);
    d["events"] = o.events;
    d["folded"] = o.folded;
    d["unfolded_because"] = o.unfolded_because;
    return d;
}

}  // namespace astrarium
