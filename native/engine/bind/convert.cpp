#include "plan/check_plan.hpp"
#include "bind/convert.hpp"
#include "media/medium.hpp"
#include "plan/graph.hpp"
#include "plan/rates.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <unordered_map>

namespace nb = nanobind;

namespace astrarium {
namespace {

constexpr int most_chunks = 1 << 20;
constexpr std::size_t most_schedules = 4096;

class Reader {
public:
    explicit Reader(BorrowedPlan& into) : into_(into), plan_(into.plan) {}

    void read(nb::handle source, KnownRanks* known) {
        ranks(source, known);
        const nb::object collectives = source.attr("collectives");
        for (nb::handle c : collectives) plan_.collectives.push_back(collective(c));
        network(source.attr("network"));
        policy(source.attr("policy"));
        remote(source.attr("remote"));
        plan_.reduce_bandwidth = view<double>(source, "reduce_bandwidth");
        if (const nb::object given = source.attr("changes"); !given.is_none()) changes(given);
        const nb::object lanes = source.attr("lanes");
        if (nb::len(lanes) != lane_count) throw std::invalid_argument("broken plan: lanes differ in number");
        for (int lane = 0; lane < lane_count; ++lane) plan_.lanes[lane] = nb::cast<int>(lanes[lane]);
        check_plan(plan_, into_.ranks->common->sound);
        plan_.npu_rates = rates_of(plan_.changes, Changing::npu), plan_.link_rates = rates_of(plan_.changes, Changing::link);
    }

private:
    BorrowedPlan& into_;
    Plan& plan_;
    std::unordered_map<PyObject*, const Schedule*> schedules_;
    std::unordered_map<const char*, nb::object> names_;
    std::size_t bytes_ = 0;  // of arrays that were read

    // Names of fields are looked up hundreds of times.
    nb::handle interned(const char* name) {
        nb::object& known = names_[name];
        if (!known.is_valid()) known = nb::steal(PyUnicode_InternFromString(name));
        return known;
    }

    template <class T>
    T number(nb::handle source, const char* name) {
        T out{};
        const nb::object value = source.attr(interned(name));
        if (!nb::try_cast<T>(value, out)) throw nb::type_error((std::string("plan field ") + name + " has the wrong type").c_str());
        return out;
    }
    // Without conversion: a copy of the right type would not outlive this call.
    template <class T>
    View<T> view_of(nb::handle array, const char* name) {
        nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu> a;
        if (!nb::try_cast(array, a, false))
            throw nb::type_error((std::string("plan array ") + name + " has the wrong type, shape or layout").c_str());
        into_.keep.push_back(nb::borrow(array));
        bytes_ += sizeof(T) * a.shape(0);
        return {a.data(), a.shape(0)};
    }
    template <class T>
    View<T> view(nb::handle source, const char* name) {
        return view_of<T>(source.attr(name), name);
    }

    // Programs, ranks and groups; those of tuples and arrays that nobody can write to are read once.
    void ranks(nb::handle source, KnownRanks* known) {
        std::vector<nb::object> fields;
        KnownRanks::Key key{number<int>(source, "npus"), {}};
        for (const char* name : {"programs", "groups", "program_of", "npu_of", "slot_ptr", "slot_a", "slot_b", "slot_c"}) {
            fields.push_back(source.attr(interned(name)));
            key.second[fields.size() - 1] = fields.back().ptr();
        }
        if (known) into_.ranks = known->find(key);
        if (!into_.ranks) {
            auto made = read_ranks(source);
            into_.ranks = made;
            if (known && known->takes(*made) && nb::isinstance<nb::tuple>(fields[0]) && nb::isinstance<nb::tuple>(fields[1]) &&
                read_only(made->keep)) {
                made->keep.insert(made->keep.end(), fields.begin(), fields.end());
                known->insert(key, std::move(made));
            }
        }
        plan_ = into_.ranks->part;
    }

    std::shared_ptr<Ranks> read_ranks(nb::handle source) {
        auto made = std::make_shared<Ranks>();
        Plan& plan = made->part;
        plan.npus = number<int>(source, "npus");
        for (nb::handle p : source.attr("programs")) plan.programs.push_back(program(p));
        plan.program_of = view<std::int32_t>(source, "program_of");
        plan.npu_of = view<std::int32_t>(source, "npu_of");
        plan.slot_ptr = view<std::int64_t>(source, "slot_ptr");
        plan.slot_a = view<std::int32_t>(source, "slot_a");
        plan.slot_b = view<std::int32_t>(source, "slot_b");
        plan.slot_c = view<std::int32_t>(source, "slot_c");
        for (nb::handle g : source.attr("groups")) plan.groups.push_back(view_of<std::int32_t>(g, "groups"));
        std::swap(made->keep, into_.keep);
        std::swap(made->bytes, bytes_);
        made->common = std::make_shared<Common>(plan, nb::len(nb::object(source.attr("collectives"))));
        return made;
    }

    static bool read_only(const std::vector<nb::object>& arrays) {
        for (const nb::object& array : arrays) {
            if (!nb::hasattr(array, "flags") || nb::cast<bool>(array.attr("flags").attr("writeable"))) return false;
        }
        return true;
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
        if (plan_.schedules.empty()) plan_.schedules.reserve(most_schedules);  // phases point at them
        if (plan_.schedules.size() == most_schedules) throw Unsupported("more than 4,096 schedules in a plan");
        Schedule out;
        out.mode = static_cast<PeerMode>(number<int>(s, "peer_mode"));
        out.n = number<int>(s, "n"), out.switches = number<int>(s, "switches");
        out.program = view<std::int32_t>(s, "program");
        out.send_ptr = view<std::int32_t>(s, "send_ptr");
        out.send_peer = view<std::int32_t>(s, "send_peer");
        out.send_needs = view<std::int32_t>(s, "send_needs");
        out.send_match = view<std::int32_t>(s, "send_match");
        out.send_block_ptr = view<std::int32_t>(s, "send_block_ptr");
        out.recv_ptr = view<std::int32_t>(s, "recv_ptr");
        out.recv_peer = view<std::int32_t>(s, "recv_peer");
        const nb::object reduces = s.attr("recv_reduce").attr("view")("uint8");
        out.recv_reduce = view_of<std::uint8_t>(reduces, "recv_reduce");
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
        p.lasts = number<std::int64_t>(s, "lasts");
        const nb::object able = s.attr("in_switch");
        if (able.is_none()) return p;
        p.in_switch.rate = number<double>(able, "rate"), p.in_switch.latency = number<std::int64_t>(able, "latency");
        for (nb::handle node : able.attr("nodes")) p.in_switch.nodes.push_back(nb::cast<std::int32_t>(node));
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
            for (nb::handle p : chunk.attr("phases")) {
                kind.phases.push_back(phase(p));
                c.in_switch |= kind.phases.back().switches() > 0, c.meets |= kind.phases.back().lasts != 0;
            }
            if (kind.repeat < 0) throw std::invalid_argument("broken plan: chunk repeat out of range");
            if (kind.repeat > most_chunks - c.total_chunks) throw Unsupported("a collective of more than 1,048,576 chunks");
            c.total_chunks += kind.repeat;
            c.max_phases = std::max(c.max_phases, static_cast<int>(kind.phases.size()));
            c.chunks.push_back(std::move(kind));
        }
        if (const nb::object custom = s.attr("custom"); !custom.is_none()) {
            Custom out;
            for (nb::handle p : custom.attr("programs")) out.programs.push_back(program(p));
            out.program_of = view<std::int32_t>(custom, "program_of");
            for (nb::handle p : custom.attr("slot_peer")) out.slot_peer.push_back(view_of<std::int32_t>(p, "slot_peer"));
            for (nb::handle p : custom.attr("slot_tag")) out.slot_tag.push_back(view_of<std::int32_t>(p, "slot_tag"));
            for (nb::handle p : custom.attr("roots")) out.roots.push_back(view_of<std::int32_t>(p, "roots"));
            c.custom = std::move(out);
            c.total_chunks = 1;
        }
        c.lasts = number<std::int64_t>(s, "lasts");
        if (c.lasts != 0) c.total_chunks = 1;
        if (const nb::object lists = s.attr("turns"); nb::len(lists) != 0) turns(c, lists);
        return c;
    }

    void turns(Collective& c, nb::handle lists) {
        require(!c.custom, "turns of chunks that differ in phases");
        for (const Chunk& kind : c.chunks)
            require(static_cast<int>(kind.phases.size()) == c.max_phases, "turns of chunks that differ in phases");
        const auto phases = static_cast<std::uint32_t>(c.max_phases);
        std::vector<View<std::int32_t>> given;
        std::size_t listed = 0;
        for (nb::handle list : lists) listed += given.emplace_back(view_of<std::int32_t>(list, "turns")).size;
        require(listed == static_cast<std::size_t>(c.total_chunks) * phases, "turns are not each visit once");
        constexpr std::uint32_t nowhere = 0xffffffffu;
        c.turn_of.assign(listed, nowhere);
        for (const auto& list : given) {
            auto& visits = c.turns.emplace_back();
            visits.reserve(list.size);
            for (const std::int32_t visit : list) {
                require(visit >= 0 && static_cast<std::size_t>(visit) < listed, "turns are not each visit once");
                std::uint32_t& where = c.turn_of[static_cast<std::size_t>(visit)];
                require(where == nowhere, "turns are not each visit once");
                where = static_cast<std::uint32_t>(c.turns.size() - 1);
                visits.push_back({static_cast<std::uint32_t>(visit) / phases, static_cast<std::uint32_t>(visit) % phases});
            }
        }
    }

    void network(nb::handle s) {
        const auto name = nb::cast<std::string>(s.attr("backend"));
        plan_.network.medium = find_medium(name);
        if (!plan_.network.medium) throw Unsupported("no medium is called " + name);
        plan_.network.whole_ns = number<bool>(s, "whole_ns");
        plan_.network.cut_through = number<bool>(s, "cut_through");
        for (nb::handle d : s.attr("dims"))
            plan_.network.dims.push_back({static_cast<Shape>(number<int>(d, "shape")), number<int>(d, "npus"),
                                          number<double>(d, "bandwidth"), number<double>(d, "latency"), ends(d.attr(interned("ends")))});
        packets(s.attr("packets"));
        if (const nb::object given = s.attr("graph"); !given.is_none()) graph(given, number<std::int64_t>(s, "ecmp"), s.attr("routes"));
    }

    std::vector<Speed> ends(nb::handle given) {
        std::vector<Speed> out;
        for (nb::handle end : given) out.push_back({number<double>(end, "bandwidth"), number<double>(end, "latency")});
        return out;
    }

    void packets(nb::handle s) {
        PacketRules& rules = plan_.network.packets;
        rules.size = number<std::int64_t>(s, "size"), rules.header = number<std::int64_t>(s, "header"),
        rules.buffer = number<std::int64_t>(s, "buffer");
        rules.spray = number<bool>(s, "spray"), rules.seed = number<std::int64_t>(s, "seed"), rules.queues = number<bool>(s, "queues");
        rules.threads = number<std::int64_t>(s, "threads");
        const nb::bytes inside(s.attr("inside"));
        rules.inside.assign(inside.c_str(), inside.size());
        const nb::object transport = s.attr("transport");
        if (transport.is_none()) return;
        rules.transport = nb::cast<std::string>(transport.attr("name"));
        for (nb::handle field : transport.attr("__struct_fields__")) {
            double value = 0;
            auto name = nb::cast<std::string>(field);
            if (nb::try_cast(transport.attr(field), value)) rules.settings.emplace(std::move(name), value);
            else rules.tables.emplace(std::move(name), table(transport.attr(field)));
        }
    }

    static std::vector<double> table(nb::handle given) {
        std::vector<double> out;
        for (nb::handle each : given) {
            out.push_back(0);
            if (!nb::try_cast(each, out.back())) throw nb::type_error("a table of packets' transport has the wrong type");
        }
        return out;
    }

    void graph(nb::handle s, std::int64_t ecmp, nb::handle routes) {
        Graph g;
        g.nodes = number<std::int32_t>(s, "nodes"), g.ecmp = ecmp;
        g.source = view<std::int32_t>(s, "source"), g.target = view<std::int32_t>(s, "target");
        g.bandwidth = view<double>(s, "bandwidth"), g.latency = view<double>(s, "latency");
        g.buffer = view<std::int64_t>(s, "buffer"), g.lanes = view<std::int32_t>(s, "lanes");
        if (!nb::object(s.attr("cost")).is_none()) g.costs = view<std::int64_t>(s, "cost");
        if (!routes.is_none())
            g.route_source = view<std::int32_t>(routes, "source"), g.route_destination = view<std::int32_t>(routes, "destination"),
            g.route_link = view<std::int32_t>(routes, "link");
        plan_.network.graph = std::make_shared<const Graph>(g);
    }

    void changes(nb::handle s) {
        plan_.changes = {view<std::int64_t>(s, "time"), view<std::uint8_t>(s, "what"), view<std::int32_t>(s, "number"),
                         view<std::int64_t>(s, "factor")};
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
            p.shared_bus = SharedBus{whole(bus[0]), whole(bus[1]), whole(bus[2]), nb::cast<double>(bus[3]), nb::cast<std::int64_t>(bus[4])};
    }

    static Tick whole(nb::handle value) {
        const double ns = nb::cast<double>(value);
        if (!(ns >= 0 && ns < 9.2e18)) throw std::invalid_argument("broken plan: shared bus out of range");
        return static_cast<Tick>(ns);
    }

    void remote(nb::handle s) {
        plan_.remote = {static_cast<RemoteKind>(number<int>(s, "kind")), number<std::int64_t>(s, "latency"), number<double>(s, "bandwidth"),
                        number<int>(s, "npus_per_node")};
    }
};

// Columns as arrays; those without values (all of nodes and links, where nothing was recorded) are one and the same.
class Arrays {
public:
    template <class T>
    nb::object of(const std::vector<T>& values) {
        nb::object& empty = std::is_same_v<T, Tick> ? no_ticks_ : no_numbers_;
        if (!values.empty()) return copy(values);
        if (!empty.is_valid()) empty = copy(values);
        return empty;
    }

private:
    nb::object no_ticks_, no_numbers_;

    template <class T>
    static nb::object copy(const std::vector<T>& values) {
        auto* kept = new std::vector<T>(values);
        nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
        return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
    }
};

nb::dict packet_counts(const PacketCounts& p, Arrays& arrays) {
    nb::dict d;
    d["hops"] = p.hops;
    d["queue"] = arrays.of(p.queue), d["buffer"] = arrays.of(p.buffer), d["marks"] = arrays.of(p.marks);
    d["pauses"] = arrays.of(p.pauses), d["paused"] = arrays.of(p.paused);
    d["source"] = arrays.of(p.source), d["destination"] = arrays.of(p.destination), d["size"] = arrays.of(p.size);
    d["asked"] = arrays.of(p.asked), d["arrived"] = arrays.of(p.arrived), d["lost"] = arrays.of(p.lost);
    d["width"] = p.width, d["watched"] = arrays.of(p.watched), d["longest"] = arrays.of(p.longest), d["paused_in"] = arrays.of(p.paused_in);
    return d;
}

}  // namespace

void read_plan(nb::handle source, BorrowedPlan& into, KnownRanks* known) {
    try {
        Reader(into).read(source, known);
    } catch (const nb::cast_error&) { throw nb::type_error("a plan field has the wrong type"); } catch (const nb::python_error& e) {
        throw nb::type_error(e.what());  // a field that is missing, or not a sequence
    }
}

nb::dict write_outcome(const Outcome& o) {
    nb::dict d;
    Arrays arrays;
    d["row"] = arrays.of(o.row);
    d["finish"] = arrays.of(o.finish);
    d["busy"] = arrays.of(o.busy);
    d["node_ptr"] = arrays.of(o.node_ptr);
    d["start"] = arrays.of(o.start);
    d["end"] = arrays.of(o.end);
    d["link_dim"] = arrays.of(o.link_dim);
    d["link_from"] = arrays.of(o.link_from);
    d["link_to"] = arrays.of(o.link_to);
    d["link_number"] = arrays.of(o.link_number);
    d["link_bytes"] = arrays.of(o.link_bytes);
    d["link_busy"] = arrays.of(o.link_busy);
    d["use_width"] = o.use_width;
    d["use_busy"] = arrays.of(o.use_busy);
    d["packets"] = o.packets.hops > 0 ? nb::object(packet_counts(o.packets, arrays)) : nb::none();
    d["events"] = o.events, d["counted"] = o.counted;
    d["folded"] = o.folded, d["unfolded_because"] = o.unfolded_because, d["how"] = o.how;
    return d;
}

}  // namespace astrarium
