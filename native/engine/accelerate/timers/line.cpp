#include "accelerate/timers/line.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "media/distance.hpp"
#include "clock/interrupt.hpp"

namespace astrarium {
namespace {

std::size_t ports_of(const Dim& dim) {
    switch (dim.shape) {
        case Shape::ring: return 2;
        case Shape::fully_connected: return static_cast<std::size_t>(dim.npus);
        case Shape::hypercube: return static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(dim.npus)));
        default: return 1;
    }
}

struct Way {
    int hops, charged, out, in;
};

// As Ports::find_ways of one dim.
Way way(const Geometry& geometry, const Dim& dim, int from, int to) {
    const int hops = geometry.hops(0, from, to);
    switch (dim.shape) {
        case Shape::ring: {
            const int port = hops == (to >= from ? to - from : to - from + dim.npus) ? 0 : 1;
            return {hops, hops, port, port};
        }
        case Shape::ring_one_way: return {hops, hops, 0, 0};
        case Shape::fully_connected: return {hops, 1, to, from};
        case Shape::hypercube:
            return {hops, 1, std::countr_zero(static_cast<unsigned>(from ^ to)),
                    static_cast<int>(std::bit_width(static_cast<unsigned>(from ^ to))) - 1};
        default: return {hops, 1, 0, 0};
    }
}

}  // namespace

Line::Line(const Dim& dim, const std::vector<int>& places, const std::vector<Step>& steps, int window, Tick endpoint, double reduction_rate)
    : n_(static_cast<int>(places.size())), window_(window), endpoint_(endpoint), ports_(ports_of(dim)) {
    for (const auto& [repeat, size] : steps.front().chunks) chunks_ += repeat;
    usable_ = endpoint > 0 && dim.shape != Shape::mesh && n_ < 1024 && chunks_ < 1 << 20 && steps.size() < 256;
    for (const Step& step : steps)
        if (usable_) add_part(dim, places, step, endpoint, reduction_rate);
}

void Line::add_part(const Dim& dim, const std::vector<int>& places, const Step& step, Tick endpoint, double rate) {
    Part part;
    const Schedule& s = *step.schedule;
    part.first_send.push_back(0), part.first_receive.push_back(0);
    Network network;
    network.dims.push_back(dim);
    const Geometry geometry(network);
    for (int m = 0; m < n_; ++m) add_sends(part, geometry, dim, places, step, m);
    part.receives = part.first_receive.back();
    number_arrivals(part);
    std::vector<std::int64_t> blocks(part.receives, 0);
    for (const Send& send : part.sends) blocks[part.first_receive[send.to] + send.receive] = send.blocks;
    for (const auto& [repeat, size] : step.chunks) {
        part.kind.insert(part.kind.end(), static_cast<std::size_t>(repeat), static_cast<int>(part.serial.size()));
        std::vector<Tick> serial, delay;
        for (const Send& send : part.sends) {
            serial.push_back(ticks(static_cast<double>(send.blocks * size) / dim.bandwidth, false));
            usable_ = usable_ && serial.back() > 0;
        }
        for (int m = 0; m < n_; ++m) {
            const auto program = static_cast<std::size_t>(s.program[static_cast<std::size_t>(m / step.stride % step.n)]);
            for (auto r = static_cast<std::size_t>(s.recv_ptr[program]); r < static_cast<std::size_t>(s.recv_ptr[program + 1]); ++r) {
                const double passes = 3 * (static_cast<double>(blocks[delay.size()] * size) / rate * 1e9);
                delay.push_back(s.recv_reduce[r] && rate > 0 ? add(endpoint, ticks(passes, false)) : endpoint);
            }
        }
        part.serial.push_back(std::move(serial)), part.delay.push_back(std::move(delay));
    }
    usable_ = usable_ && static_cast<int>(part.kind.size()) == chunks_ && s.send_peer.size < 1u << 22;
    parts_.push_back(std::move(part));
}

// Sends by receive, then by member.
void Line::number_arrivals(Part& part) {
    for (std::uint32_t m = 0; m + 1 < part.first_send.size(); ++m)
        for (std::uint32_t k = part.first_send[m]; k < part.first_send[m + 1]; ++k) part.by_arrival.push_back({m, part.sends[k].number});
    const auto send = [&part](const auto& arrival) -> Send& {
        return part.sends[part.place[part.first_send[arrival.first] + arrival.second]];
    };
    std::sort(part.by_arrival.begin(), part.by_arrival.end(), [&](const auto& x, const auto& y) {
        return std::tuple(send(x).receive, x.first, x.second) < std::tuple(send(y).receive, y.first, y.second);
    });
    for (std::size_t at = 0; at < part.by_arrival.size(); ++at) send(part.by_arrival[at]).arrival = static_cast<std::uint32_t>(at);
}

void Line::add_sends(Part& part, const Geometry& geometry, const Dim& dim, const std::vector<int>& places, const Step& step, int m) const {
    const Schedule& s = *step.schedule;
    const int index = m / step.stride % step.n, base = m - index * step.stride;
    const auto program = static_cast<std::size_t>(s.program[static_cast<std::size_t>(index)]);
    const auto first = static_cast<std::size_t>(s.send_ptr[program]), last = static_cast<std::size_t>(s.send_ptr[program + 1]);
    std::vector<std::size_t> order(last - first);
    std::iota(order.begin(), order.end(), first);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) { return s.send_needs[x] < s.send_needs[y]; });
    const std::size_t at = part.sends.size();
    part.place.resize(at + order.size());
    for (const std::size_t k : order) {
        const int to = base + peer_of(s, index, s.send_peer[k]) * step.stride;
        const Way w = way(geometry, dim, places[static_cast<std::size_t>(m)], places[static_cast<std::size_t>(to)]);
        part.place[at + k - first] = static_cast<std::uint32_t>(part.sends.size());
        part.sends.push_back({static_cast<std::uint32_t>(k - first), static_cast<std::uint32_t>(to),
                              static_cast<std::uint32_t>(s.send_match[k]), static_cast<std::uint32_t>(s.send_needs[k]),
                              static_cast<std::uint32_t>(static_cast<std::size_t>(m) * ports_ + static_cast<std::size_t>(w.out)),
                              static_cast<std::uint32_t>(static_cast<std::size_t>(to) * ports_ + static_cast<std::size_t>(w.in)),
                              ticks(dim.latency * w.hops, false), w.charged, s.send_block_ptr[k + 1] - s.send_block_ptr[k]});
    }
    part.first_send.push_back(static_cast<std::uint32_t>(part.sends.size()));
    part.first_receive.push_back(part.first_receive.back() + static_cast<std::uint32_t>(s.recv_ptr[program + 1] - s.recv_ptr[program]));
    part.starts.push_back(!order.empty() && s.send_needs[order.front()] == 0);
}

// One run. Events of an instant as in the native rule book: what ends, then what departs, both by (member, chunk, number), then what
// arrives by (chunk, phase, receive, member).
class LineRun {
public:
    LineRun(const Line& line, const std::vector<Tick>& from) : line_(line), from_(from) {
        const auto states = static_cast<std::size_t>(line.n_) * static_cast<std::size_t>(line.chunks_);
        state_.resize(states);
        out_.exits.assign(states, -1), out_.uses.resize(static_cast<std::size_t>(line.n_));
        windows_.resize(static_cast<std::size_t>(line.n_) * line.parts_.size());
        out_free_.assign(static_cast<std::size_t>(line.n_) * line.ports_, 0), in_free_ = out_free_;
        for (const Line::Part& part : line.parts_) {
            bits_.push_back(bit_count_);
            bit_count_ += part.receives * static_cast<std::size_t>(line.chunks_);
        }
        delivered_.assign(bit_count_, 0), complete_.assign(bit_count_, 0);
    }

    Line::Out run() {
        for (std::size_t m = 0; m < static_cast<std::size_t>(line_.n_); ++m)
            for (std::size_t k = 0; k < static_cast<std::size_t>(line_.chunks_); ++k)
                push(from_[m * static_cast<std::size_t>(line_.chunks_) + k], key(done, could_enter, m, k, 0, 0));
        while (!heap_.empty() || !departs_.empty()) {
            if (!departs_.empty() && (heap_.empty() || heap_.front().time > now_ || heap_.front().key >> 62 != done)) {
                depart_all();
                continue;
            }
            const Event event = heap_.front();
            std::pop_heap(heap_.begin(), heap_.end(), Later{});
            heap_.pop_back();
            now_ = event.time;
            if ((++out_.events & 0xffff) == 0) stop_if_interrupted();
            handle(event.key);
        }
        return std::move(out_);
    }

private:
    enum Class : std::uint64_t { done, depart, arrive };
    enum Type : std::uint64_t { could_enter, started, received, sent };
    struct Event {
        Tick time;
        std::uint64_t key;
    };
    struct State {
        std::int32_t phase = -1;
        bool inside = false, there = false;  // there: it could enter the phase after
        std::uint32_t next = 0, prefix = 0, complete = 0, undelivered = 0;
    };
    struct Window {
        std::uint32_t entered = 0, left = 0;
    };

    struct Later {
        bool operator()(const Event& x, const Event& y) const { return x.time != y.time ? x.time > y.time : x.key > y.key; }
    };
    static std::uint64_t key(Class c, Type type, std::size_t member, std::size_t chunk, std::size_t number, std::size_t phase) {
        return c << 62 | type << 60 | static_cast<std::uint64_t>(member) << 50 | static_cast<std::uint64_t>(chunk) << 30 |
               static_cast<std::uint64_t>(number) << 8 | phase;
    }
    void push(Tick time, std::uint64_t what) {
        heap_.push_back({time, what});
        std::push_heap(heap_.begin(), heap_.end(), Later{});
    }

    // What departs in an instant does so once all that ends in it has ended.
    void depart_all() {
        std::sort(departs_.begin(), departs_.end());
        out_.events += departs_.size();
        for (const std::uint64_t what : departs_) leave_source(what >> 50 & 0x3ff, what >> 30 & 0xfffff, what >> 8 & 0x3fffff, what & 0xff);
        departs_.clear();
    }

    void handle(std::uint64_t what) {
        const auto m = static_cast<std::size_t>(what >> 50 & 0x3ff), chunk = static_cast<std::size_t>(what >> 30 & 0xfffff);
        const auto number = static_cast<std::size_t>(what >> 8 & 0x3fffff), phase = static_cast<std::size_t>(what & 0xff);
        if (what >> 62 != done) return land(what);
        switch (static_cast<Type>(what >> 60 & 3)) {
            case could_enter: at(m, chunk).there = true; return advance(m, 0);
            case started: return release(m, chunk);
            case received: return take(m, chunk, number);
            case sent: return deliver(m, chunk, number, phase);
        }
    }

    State& at(std::size_t member, std::size_t chunk) { return state_[member * static_cast<std::size_t>(line_.chunks_) + chunk]; }
    std::size_t bit(const Line::Part& part, std::size_t phase, std::size_t member, std::size_t chunk, std::size_t receive) const {
        return bits_[phase] + chunk * part.receives + part.first_receive[member] + receive;
    }

    void advance(std::size_t m, std::size_t phase) {
        Window& window = windows_[m * line_.parts_.size() + phase];
        while (window.entered < static_cast<std::uint32_t>(line_.chunks_)) {
            State& s = at(m, window.entered);
            if (!s.there || s.inside || s.phase + 1 != static_cast<std::int32_t>(phase)) return;
            if (line_.window_ > 0 && window.entered - window.left >= static_cast<std::uint32_t>(line_.window_)) return;
            enter(m, window.entered++, phase);
        }
    }

    void enter(std::size_t m, std::size_t chunk, std::size_t phase) {
        const Line::Part& part = line_.parts_[phase];
        State& s = at(m, chunk);
        const std::uint32_t sends = part.first_send[m + 1] - part.first_send[m],
                            receives = part.first_receive[m + 1] - part.first_receive[m];
        s = {static_cast<std::int32_t>(phase), true, true, 0, 0, 0, sends};
        if (part.starts[m]) push(add(now_, line_.endpoint_), key(done, started, m, chunk, 0, phase));
        const std::vector<Tick>& delay = part.delay[static_cast<std::size_t>(part.kind[chunk])];
        for (std::uint32_t r = 0; r < receives; ++r)
            if (delivered_[bit(part, phase, m, chunk, r)])
                push(add(now_, delay[part.first_receive[m] + r]), key(done, received, m, chunk, r, phase));
        if (sends == 0 && receives == 0) try_leave(m, chunk);
    }

    void release(std::size_t m, std::size_t chunk) {
        State& s = at(m, chunk);
        const Line::Part& part = line_.parts_[static_cast<std::size_t>(s.phase)];
        const std::size_t first = part.first_send[m], count = part.first_send[m + 1] - first;
        for (; s.next < count && part.sends[first + s.next].needs <= s.prefix; ++s.next)
            departs_.push_back(key(depart, could_enter, m, chunk, part.sends[first + s.next].number, static_cast<std::size_t>(s.phase)));
    }

    const Line::Send& send(std::size_t m, std::size_t chunk, std::size_t number, std::size_t phase, Tick& serial) const {
        const Line::Part& part = line_.parts_[phase];
        const std::size_t place = part.place[part.first_send[m] + number];
        serial = part.serial[static_cast<std::size_t>(part.kind[chunk])][place];
        return part.sends[place];
    }

    void leave_source(std::size_t m, std::size_t chunk, std::size_t number, std::size_t phase) {
        Tick serial;
        const Line::Send& x = send(m, chunk, number, phase, serial);
        const Tick start = std::max(now_, out_free_[x.out]), held = serial * x.charged;
        out_free_[x.out] = add(start, held);
        out_.uses[m].out.add(start, start + held);
        push(add(start, x.latency + held - serial), static_cast<std::uint64_t>(arrive) << 62 | static_cast<std::uint64_t>(chunk) << 42 |
                                                        static_cast<std::uint64_t>(phase) << 34 | x.arrival);
    }

    void land(std::uint64_t what) {
        const auto chunk = static_cast<std::size_t>(what >> 42 & 0xfffff), phase = static_cast<std::size_t>(what >> 34 & 0xff);
        const auto [m, number] = line_.parts_[phase].by_arrival[static_cast<std::size_t>(what & 0x3ffffffff)];
        Tick serial;
        const Line::Send& x = send(m, chunk, number, phase, serial);
        const Tick end = add(std::max(now_, in_free_[x.in]), serial);
        in_free_[x.in] = end;
        out_.uses[x.to].in.add(now_, end);
        push(end, key(done, sent, m, chunk, number, phase));
    }

    void deliver(std::size_t m, std::size_t chunk, std::size_t number, std::size_t phase) {
        Tick serial;
        const Line::Send& x = send(m, chunk, number, phase, serial);
        const Line::Part& part = line_.parts_[phase];
        delivered_[bit(part, phase, x.to, chunk, x.receive)] = 1;
        if (const State& d = at(x.to, chunk); d.inside && d.phase == static_cast<std::int32_t>(phase))
            push(add(now_, part.delay[static_cast<std::size_t>(part.kind[chunk])][part.first_receive[x.to] + x.receive]),
                 key(done, received, x.to, chunk, x.receive, phase));
        --at(m, chunk).undelivered;
        try_leave(m, chunk);
    }

    void take(std::size_t m, std::size_t chunk, std::size_t receive) {
        State& s = at(m, chunk);
        const auto phase = static_cast<std::size_t>(s.phase);
        const Line::Part& part = line_.parts_[phase];
        const std::uint32_t receives = part.first_receive[m + 1] - part.first_receive[m];
        complete_[bit(part, phase, m, chunk, receive)] = 1;
        ++s.complete;
        while (s.prefix < receives && complete_[bit(part, phase, m, chunk, s.prefix)]) ++s.prefix;
        release(m, chunk);
        try_leave(m, chunk);
    }

    void try_leave(std::size_t m, std::size_t chunk) {
        State& s = at(m, chunk);
        const auto phase = static_cast<std::size_t>(s.phase);
        const Line::Part& part = line_.parts_[phase];
        if (!s.inside || s.undelivered || s.next != part.first_send[m + 1] - part.first_send[m] ||
            s.complete != part.first_receive[m + 1] - part.first_receive[m])
            return;
        s.inside = false;
        ++windows_[m * line_.parts_.size() + phase].left;
        if (phase + 1 < line_.parts_.size()) advance(m, phase + 1);
        else out_.exits[m * static_cast<std::size_t>(line_.chunks_) + chunk] = now_;
        advance(m, phase);
    }

    const Line& line_;
    const std::vector<Tick>& from_;
    Tick now_ = 0;
    std::vector<Event> heap_;
    std::vector<std::uint64_t> departs_;  // of this instant
    std::vector<State> state_;
    std::vector<Window> windows_;
    std::vector<Tick> out_free_, in_free_;
    std::vector<std::size_t> bits_;
    std::size_t bit_count_ = 0;
    std::vector<std::uint8_t> delivered_, complete_;
    Line::Out out_;
};

Line::Out Line::run(const std::vector<Tick>& from) const { return LineRun(*this, from).run(); }

}  // namespace astrarium
