#include "accelerate/quotient/quotient.hpp"

#include <algorithm>
#include <bit>

#include "nodes/groups.hpp"
#include "plan/mix.hpp"
#include "plan/slots.hpp"

namespace astrarium {
namespace {

constexpr std::int64_t checks = 4'000'000;  // sends of members that are compared for one collective

// Numbers values in order of appearance; how many there are.
std::uint64_t number(std::vector<std::uint64_t>& values) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> table(std::bit_ceil(2 * values.size() + 1), {0, 0});  // value, number + 1
    std::uint64_t count = 0;
    for (std::uint64_t& v : values) {
        std::size_t at = (v * 0x9e3779b97f4a7c15ull >> 32) & (table.size() - 1);
        while (table[at].second != 0 && table[at].first != v) at = (at + 1) & (table.size() - 1);
        if (table[at].second == 0) table[at] = {v, ++count};
        v = table[at].second - 1;
    }
    return count;
}

// The ways of the messages of a phase as far as they matter to the NPUs at their ends: per dim that differs, hops, ports. They are
// found once for all lines of members that stand like the first.
class Ways {
public:
    // Keeps up to `most` ways.
    Ways(const Network& network, std::size_t n, std::size_t most)
        : network_(network), geometry_(network), n_(n), dims_(network.dims.size()), at_(n), most_(most) {}

    template <class Coordinates>
    void line(Coordinates&& of) {
        for (std::size_t i = 0; i < n_; ++i) at_[i] = of(static_cast<int>(i));
        like_ = lines_++ > 0;
        for (std::size_t i = 1; i < n_ && (like_ || lines_ == 1); ++i)
            for (std::size_t d = 0; d < dims_; ++d) {
                const int now = away(network_.dims[d], at_[0][d], at_[i][d]);
                if (lines_ == 1) first_.push_back(now);
                else like_ = like_ && first_[(i - 1) * dims_ + d] == now;
            }
    }

    // Of the send with number `send` among the line's.
    std::uint64_t between(std::size_t send, int from, int to) {
        if (like_ && send < known_.size()) return known_[send];
        if (lines_ > 1 || send != known_.size() || send >= most_)
            return way(at_[static_cast<std::size_t>(from)], at_[static_cast<std::size_t>(to)]);
        return known_.emplace_back(way(at_[static_cast<std::size_t>(from)], at_[static_cast<std::size_t>(to)]));
    }

private:
    std::uint64_t way(const int* from, const int* to) const {  // coordinates
        std::uint64_t h = 0;
        for (std::size_t d = 0; d < dims_; ++d) {
            const int a = from[d], b = to[d];
            if (a == b) continue;
            const Shape shape = network_.dims[d].shape;
            h = mix(h, d << 32 | static_cast<unsigned>(geometry_.hops(d, a, b)));
            if (shape == Shape::hypercube || shape == Shape::ring || shape == Shape::fully_connected)
                h = mix(h, static_cast<unsigned>(away(network_.dims[d], a, b)));
        }
        return h;
    }

    const Network& network_;
    const Geometry geometry_;
    const std::size_t n_, dims_;
    std::vector<const int*> at_;  // the members of the line
    const std::size_t most_;
    std::size_t lines_ = 0;
    bool like_ = false;
    std::vector<int> first_;            // where members of the first line are, relative to its first
    std::vector<std::uint64_t> known_;  // ways of the first line
};

struct Sent {
    std::size_t number;  // among the schedule's sends
    std::uint64_t mark;
};

}  // namespace

Quotient::Quotient(const Plan& whole, const RankClasses& classes, Facts& facts) : whole_(whole), classes_(classes), facts_(facts) {
    members_.assign(classes.first.size(), 0);
    for (const std::int32_t c : classes.of) ++members_[static_cast<std::size_t>(c)];
    find_seats();
    make_plan();
}

void Quotient::find_seats() {
    const std::size_t count = classes_.first.size();
    seats_.assign(classes_.first_group.size(), std::vector<Seat>(count));
    Membership membership(whole_);
    for (std::size_t c = 0; c < count; ++c) {
        const auto rank = static_cast<std::size_t>(classes_.first[c]);
        seats_[all][c] = {-1, static_cast<std::uint32_t>(rank)};
        const std::vector<SlotUse>& uses = facts_.uses()[static_cast<std::size_t>(whole_.program_of[rank])];
        for (std::size_t s = 0; s < uses.size(); ++s) {
            const std::int32_t group = whole_.slot_b[static_cast<std::size_t>(whole_.slot_ptr[rank]) + s];
            if (uses[s].kind != Kind::collective || group < 0) continue;
            Seat& seat = seats_[static_cast<std::size_t>(classes_.group_kind[static_cast<std::size_t>(group)])][c];
            if (seat.group >= 0 && seat.group != group) throw Unfoldable{"a rank in two groups of one kind"};
            seat = {group, membership.position(static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(rank))};
            if (seat.place == Membership::none) throw Unfoldable{"a collective of a group that the rank is not in"};
        }
    }
}

void Quotient::make_plan() {
    slot_of_npu_.assign(static_cast<std::size_t>(whole_.npus), -1);
    slot_ptr_.push_back(0);
    for (std::size_t c = 0; c < classes_.first.size(); ++c) {
        const auto rank = static_cast<std::size_t>(classes_.first[c]);
        program_of_.push_back(whole_.program_of[rank]);
        npu_of_.push_back(whole_.npu_of[rank]);
        slot_of_npu_[static_cast<std::size_t>(whole_.npu_of[rank])] = static_cast<std::int32_t>(c);
        const auto base = static_cast<std::size_t>(whole_.slot_ptr[rank]);
        const std::vector<SlotUse>& uses = facts_.uses()[static_cast<std::size_t>(whole_.program_of[rank])];
        for (std::size_t s = 0; s < uses.size(); ++s) {
            const std::int32_t a = whole_.slot_a[base + s], b = whole_.slot_b[base + s];
            if (uses[s].kind == Kind::collective) {
                slot_a_.push_back(a);
                slot_b_.push_back(b < 0 ? -1 : classes_.group_kind[static_cast<std::size_t>(b)] - 1);
            } else {
                slot_a_.push_back(classes_.of[static_cast<std::size_t>(a)]);
                slot_b_.push_back(uses[s].kind == Kind::recv ? static_cast<std::int32_t>(s) : classes_.partner_slot[base + s]);
            }
            slot_c_.push_back(whole_.slot_c[base + s]);
        }
        slot_ptr_.push_back(static_cast<std::int64_t>(slot_a_.size()));
    }
    for (std::size_t kind = 1; kind < classes_.first_group.size(); ++kind) {
        std::vector<std::int32_t> found;
        for (const std::int32_t member : whole_.groups[static_cast<std::size_t>(classes_.first_group[kind])])
            found.push_back(classes_.of[static_cast<std::size_t>(member)]);
        std::sort(found.begin(), found.end());
        found.erase(std::unique(found.begin(), found.end()), found.end());
        groups_.push_back(std::move(found));
    }
    small_.npus = whole_.npus, small_.programs = whole_.programs;
    small_.program_of = {program_of_.data(), program_of_.size()}, small_.npu_of = {npu_of_.data(), npu_of_.size()};
    small_.slot_ptr = {slot_ptr_.data(), slot_ptr_.size()};
    small_.slot_a = {slot_a_.data(), slot_a_.size()}, small_.slot_b = {slot_b_.data(), slot_b_.size()};
    small_.slot_c = {slot_c_.data(), slot_c_.size()};
    for (const auto& group : groups_) small_.groups.push_back({group.data(), group.size()});
    small_.collectives = whole_.collectives;  // phases point to the whole plan's schedules
    small_.network = whole_.network, small_.policy = whole_.policy, small_.remote = whole_.remote;
    std::copy(std::begin(whole_.lanes), std::end(whole_.lanes), std::begin(small_.lanes));
    small_.reduce_bandwidth = whole_.reduce_bandwidth;
}

// Phases whose steps were not compared yet, one of each.
std::vector<const Phase*> Quotient::unchecked(const Collective& c, std::uint32_t kind) const {
    std::vector<const Phase*> out;
    for (const Chunk& chunk : c.chunks)
        for (const Phase& phase : chunk.phases) {
            if (phase.n < 2 || checked_.contains({kind, phase.schedule, phase.stride, phase.n})) continue;
            const auto same = [&phase](const Phase* p) {
                return p->schedule == phase.schedule && p->stride == phase.stride && p->n == phase.n;
            };
            if (std::none_of(out.begin(), out.end(), same)) out.push_back(&phase);
        }
    return out;
}

// Every member of a class must send the same to the same classes on the same ways in every phase, and receive likewise.
void Quotient::check(const Collective& c, std::uint32_t group) {
    const std::uint32_t kind = kind_of(group);
    if (c.in_switch) throw Unfoldable{"a collective in switches meets other messages"};
    if (c.meets) throw Unfoldable{"a collective with phases of given time meets other messages"};
    if (!whole_.network.medium->on_ports) throw Unfoldable{overlapping};
    for (const Dim& dim : whole_.network.dims)
        if (dim.shape == Shape::mesh && dim.npus > 1) throw Unfoldable{passing};
    const std::vector<const Phase*> unknown = unchecked(c, kind);
    if (unknown.empty()) return;
    const Seat seat{classes_.first_group[kind], 0};
    std::vector<std::uint64_t> labels;  // per member: its class, then as far as its steps tell it from others
    for (std::uint32_t p = 0; p < size(kind); ++p) labels.push_back(static_cast<std::uint64_t>(classes_.of[rank_at(seat, p)]));
    number(labels);
    Words places{facts_.places(classes_.first_group[kind])};
    for (const Phase* p : unknown)
        places.insert(places.end(),
                      {facts_.schedule(p->schedule), static_cast<std::uint64_t>(p->stride), static_cast<std::uint64_t>(p->n)});
    const auto content = [&places](const std::vector<std::uint64_t>& of) {
        Words out = places;
        pack(of, out);
        return out;
    };
    const auto refined = facts_.store->steps(
        content(labels), [&] { return std::make_shared<const std::vector<std::uint64_t>>(refine(unknown, kind, labels)); });
    facts_.store->steps(content(*refined), [&refined] { return refined; });  // they stay as they are: asked for when classes are split
    if (*refined != labels)
        throw Asymmetric{{"members of one class take different steps in a collective"},
                         {classes_.shape(kind), {refined->begin(), refined->end()}}};
    for (const Phase* phase : unknown) {
        const auto [entry, fresh] = checked_.try_emplace({kind, phase->schedule, phase->stride, phase->n});
        if (fresh) entry->second = checked_.size();
    }
}

// Labels that tell apart whose steps differ.
std::vector<std::uint64_t> Quotient::refine(const std::vector<const Phase*>& phases, std::uint32_t kind,
                                            std::vector<std::uint64_t> labels) {
    std::uint64_t count = number(labels);
    for (std::size_t next = 0, same = 0; same < phases.size() && count < labels.size(); next = (next + 1) % phases.size()) {
        labels = steps(*phases[next], kind, labels);
        const std::uint64_t before = std::exchange(count, number(labels));
        same = count > before ? 0 : same + 1;  // phases in a row that tell nobody apart
    }
    return labels;
}

// Whether the participants of a phase share a label, in each of its lines.
bool Quotient::uniform(const Phase& phase, const std::vector<std::uint64_t>& labels) {
    for (std::uint32_t p = 0; p < labels.size(); ++p)
        if (labels[p] != labels[p - static_cast<std::uint32_t>(index_in(phase, p) * phase.stride)]) return false;
    return true;
}

// Whether the participants of a phase differ in its dim, and in no other.
bool Quotient::in_its_dim(const Phase& phase, std::uint32_t kind) const {
    const auto d = static_cast<std::size_t>(phase.dim);
    const Geometry geometry(whole_.network);
    const Seat seat{classes_.first_group[kind], 0};
    const auto npu = [&](std::uint32_t p) { return whole_.npu_of[rank_at(seat, p)]; };
    for (std::uint32_t p = 0; p < size(kind); ++p) {
        const int index = index_in(phase, p), first = npu(p - static_cast<std::uint32_t>(index * phase.stride));
        const int moved = geometry.coordinate(npu(p), d) - geometry.coordinate(first, d);
        if (npu(p) != first + moved * geometry.stride(d) || (index > 0 && moved == 0)) return false;
    }
    return true;
}

// Whether rotating a phase's participants (xor: flipping them) keeps every message's way: they are in one switch, or a whole dim
// in order.
bool Quotient::symmetric(const Phase& phase, std::uint32_t kind) const {
    if (phase.dim < 0) return false;
    const auto d = static_cast<std::size_t>(phase.dim);
    const Dim& dim = whole_.network.dims[d];
    const bool exclusive = phase.schedule->mode == PeerMode::xor_, flips = dim.shape == Shape::hypercube;
    if (dim.shape != Shape::switch_ && exclusive != flips) return false;
    const Geometry geometry(whole_.network);
    const Seat seat{classes_.first_group[kind], 0};
    if (!in_its_dim(phase, kind)) return false;
    if (dim.shape == Shape::switch_) return true;
    const auto place = [&](std::uint32_t p) { return geometry.coordinate(whole_.npu_of[rank_at(seat, p)], d); };
    if (phase.n != dim.npus) return false;
    for (std::uint32_t p = 0; p < size(kind); ++p)
        if (place(p) != index_in(phase, p)) return false;
    return true;
}

// Per member: its label, its program, and what it sends to whom and receives (sums, in any order). Where all run one program,
// relative to themselves, sends to one peer are alike.
std::vector<std::uint64_t> Quotient::steps(const Phase& phase, std::uint32_t kind, const std::vector<std::uint64_t>& labels) {
    const Schedule& s = *phase.schedule;
    const Seat seat{classes_.first_group[kind], 0};
    const bool alike =
        s.mode != PeerMode::absolute && std::all_of(s.program.begin(), s.program.end(), [&s](std::int32_t p) { return p == s.program[0]; });
    std::vector<Sent> sends;  // of all programs, in order
    std::vector<bool> seen(static_cast<std::size_t>(s.n), false);
    for (std::size_t k = 0; k < s.send_peer.size; ++k) {
        if (alike && seen[static_cast<std::size_t>(s.send_peer[k])]) continue;
        seen[static_cast<std::size_t>(s.send_peer[k])] = true;
        sends.push_back({k, mix(static_cast<std::size_t>(s.send_match[k]), k)});
    }
    if (alike && uniform(phase, labels) && symmetric(phase, kind)) return labels;
    if (static_cast<std::int64_t>(size(kind)) * static_cast<std::int64_t>(sends.size()) > checks * (s.mode == PeerMode::absolute ? s.n : 1))
        throw Unfoldable{"a large collective that meets messages"};
    std::vector<std::uint64_t> out(size(kind)), received(size(kind), 0), mark;  // mark: of the label
    for (const std::uint64_t label : labels) mark.push_back(mix(0, label));
    const auto n = static_cast<std::size_t>(phase.n);
    Ways ways(whole_.network, n, size(kind) > n ? n * sends.size() : 0);
    for (std::uint32_t first = 0; first < size(kind); ++first) {
        if (index_in(phase, first) != 0) continue;
        const auto member = [&](int index) { return first + static_cast<std::uint32_t>(index * phase.stride); };
        ways.line([&](int index) { return facts_.colours().coordinates(rank_at(seat, member(index))); });
        std::size_t at = 0;  // of all sends of the line
        for (int index = 0; index < phase.n; ++index) {
            const std::uint32_t p = member(index);
            const auto program = static_cast<std::size_t>(s.program[static_cast<std::size_t>(index)]);
            const auto end = static_cast<std::size_t>(s.send_ptr[program + 1]);
            auto k = std::lower_bound(sends.begin(), sends.end(), static_cast<std::size_t>(s.send_ptr[program]),
                                      [](const Sent& x, std::size_t y) { return x.number < y; });
            std::uint64_t h = mix(labels[p], program);
            for (; k != sends.end() && k->number < end; ++k, ++at) {
                const int peer = peer_of(s, index, s.send_peer[k->number]);
                h += mix(k->mark, ways.between(at, index, peer)) * mark[member(peer)];
                received[member(peer)] += k->mark * mark[p];
            }
            out[p] = h;
        }
    }
    for (std::uint32_t p = 0; p < out.size(); ++p) out[p] = mix(mix(0, out[p]), received[p]);
    return out;
}

std::uint64_t Quotient::family(std::uint32_t kind, const Phase& phase) {
    const Steps steps{kind, phase.schedule, phase.stride, phase.n};
    if (steps != last_steps_) last_steps_ = steps, last_family_ = checked_.at(steps);
    return last_family_;
}

}  // namespace astrarium
