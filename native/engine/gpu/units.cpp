#include "gpu/units.hpp"

#include <algorithm>

namespace astrarium::gpu {

Units::Units(const Launch& launch, std::uint32_t gpu, Queue& queue, Chip& chip, Instructions& flights)
    : launch_(launch), m_(launch.machine), grid_(launch.grid(gpu)), queue_(queue), chip_(chip), flights_(flights) {
    std::int64_t most = 0;  // wavefronts of the grid
    for (const std::uint32_t stream : grid_.streams) most += launch.streams[stream].wavefronts;
    const Unit unit{Ready(static_cast<std::size_t>(std::min(m_.wavefronts_per_unit, most))),
                    m_.workgroups_per_unit,
                    m_.wavefronts_per_unit,
                    m_.limit_wavefront,
                    m_.limit_workgroup,
                    m_.limit_unit,
                    m_.unit_store ? m_.unit_store : m_.unit_data,
                    m_.unit_control,
                    m_.dispatch};
    units_.resize(m_.unit_router.size(), unit);
    for (std::size_t i = units_.size() - static_cast<std::size_t>(m_.engines); i < units_.size(); ++i) {
        units_[i].limit_wavefront = units_[i].limit_workgroup = units_[i].limit_unit = m_.engine_limit;
        units_[i].store = m_.engine_data, units_[i].control = m_.engine_control, units_[i].dispatch = m_.engine_dispatch;
    }
    for (const Stream& stream : launch.streams) {
        dealt_.emplace_back().on.resize(units_.size());
        for (const std::uint16_t number : stream.units) dealt_.back().on[number] = true;
    }
    chip_.unit_of.resize(grid_.works());
    if (launch.record) over_.assign(grid_.operations.size(), -1);
    for (std::uint32_t w = 0; w < grid_.works(); ++w) {
        const std::uint32_t stream = grid_.streams[w], wavefronts = launch.streams[stream].wavefronts;
        works_.push_back({.number = w,
                          .stream = stream,
                          .first = static_cast<std::uint32_t>(wavefronts_.size()),
                          .wavefronts = wavefronts,
                          .blocked = {}});
        dealt_[stream].works.push_back(w);
        for (std::uint32_t i = 0; i < wavefronts; ++i) {
            const std::uint64_t key = std::uint64_t{w} << work_bit | std::uint64_t{i} << wavefront_bit;
            wavefronts_.push_back({.key = key, .work = w, .index = i, .at = i});
        }
    }
}

void Units::begin(Tick when) {
    end_ = when;
    for (std::uint32_t s = 0; s < dealt_.size(); ++s) {
        const Tick start = launch_.streams[s].start;
        if (start == 0) deal(s, when);
        else if (dealt_[s].waits()) later(when + start, Stage::start, leader(works_[dealt_[s].works[0]]), 0, dealt_[s].works[0]);
    }
}

// A stream comes: deals its workgroups round-robin to its units, as long as there is room.
void Units::deal(std::uint32_t stream, Tick when) {
    Dealt& dealt = dealt_[stream];
    const std::vector<std::uint16_t>& units = launch_.streams[stream].units;
    dealt.came = true;
    for (std::size_t full = 0; dealt.waits() && full < units.size();) {
        const std::uint16_t unit = units[dealt.next];
        dealt.next = dealt.next + 1 == units.size() ? 0 : dealt.next + 1;
        if (fits(unit, launch_.streams[stream])) full = 0, place(stream, unit, when);
        else ++full;
    }
}

// Whether a unit has room for a workgroup, or all units of its port for a cluster.
bool Units::fits(std::uint32_t unit, const Stream& stream) const {
    if (stream.cluster == 1) return room(units_[unit], stream);
    return std::ranges::all_of(launch_.ports[unit], [&](std::uint16_t each) { return room(units_[each], stream); });
}

void Units::place(std::uint32_t stream, std::uint32_t unit, Tick when) {
    if (launch_.streams[stream].cluster == 1) return put(stream, unit, when);
    for (const std::uint16_t each : launch_.ports[unit]) put(stream, each, when);
}

void Units::put(std::uint32_t stream, std::uint32_t unit, Tick when) {
    Work& work = works_[dealt_[stream].works[dealt_[stream].placed++]];
    ++dispatched_;
    units_[unit].places -= launch_.streams[stream].places, units_[unit].wavefronts -= work.wavefronts;
    work.unit = unit, work.start = when + units_[unit].dispatch;
    chip_.unit_of[work.number] = static_cast<std::uint16_t>(unit);
    later(work.start, Stage::start, leader(work), 0, work.number);
}

// A workgroup begins; or its stream comes, of which it is the first.
void Units::start(std::uint32_t number) {
    const Work& work = works_[number];
    if (work.start < 0) return deal(work.stream, now());
    for (std::uint32_t i = 0; i < work.wavefronts; ++i) proceed(wavefronts_[work.first + i]);
    serve(units_[work.unit]);
}

void Units::later(Tick when, Stage stage, const Wavefront& f, std::uint32_t serial, std::uint32_t what) {
    Event event{when, f.key | serial, what, what, 0, 0, 0, Packet::load, stage};
    event.set(stage);
    queue_.push(event);
}

// Goes on with the next operation that has something to do for this wavefront, or with more of this one.
void Units::proceed(Wavefront& f) {
    Work& work = works_[f.work];
    const Stream& stream = stream_of(work);
    for (const Operation* op = operation(f); op; op = operation(f)) {
        if (op->kind == OpKind::nop) {
            f.phase = Phase::nop;
            return later(add(now(), op->time), Stage::timer, f, f.serial, number(f));
        }
        if (op->kind > OpKind::multiply) {
            f.phase = Phase::control;
            f.cursor = f.count = 0;
            if (++work.arrived == work.wavefronts) control(work);
            return;
        }
        const std::int64_t left = (op->size + m_.instruction - 1) / m_.instruction - f.at;
        if (left > 0) {
            f.step = static_cast<std::uint32_t>(std::min<std::int64_t>(stream.unroll, (left + stream.wavefronts - 1) / stream.wavefronts));
            return op->sources ? phase(f, Phase::load, op->sources) : phase(f, Phase::store, op->targets);
        }
        next(f);
    }
    --work.left;
    end_if_over(work);
}

void Units::phase(Wavefront& f, Phase to, std::uint32_t places) {
    f.phase = to, f.cursor = 0, f.count = f.step * places;
    unit_of(f).ready.push(number(f));
}

// All loads of a step are back.
void Units::loaded(Wavefront& f) {
    const Operation& op = *operation(f);
    const bool multiplies = op.kind == OpKind::multiply;
    const Tick more = multiplies ? op.time : op.kind == OpKind::memcpy ? 0 : (op.sources - 1) * m_.reduce;
    if (!more) return added(f);
    std::uint32_t requests = 0;
    for (std::uint32_t j = 0; j < f.step; ++j) requests += span(f, op, j).count;
    Unit& unit = unit_of(f);
    Tick& pipe = multiplies ? unit.matrix : unit.alu;
    pipe = add(std::max(pipe, now()), more * requests);
    later(pipe, Stage::timer, f, f.serial, number(f));
}

void Units::added(Wavefront& f) {
    if (const Operation& op = *operation(f); op.targets) return phase(f, Phase::store, op.targets);
    stepped(f);
}

void Units::stepped(Wavefront& f) {
    f.at += f.step * works_[f.work].wavefronts;
    proceed(f);
}

Units::Span Units::span(const Wavefront& f, const Operation& op, std::uint32_t j) const {
    const auto size = static_cast<std::uint32_t>(m_.instruction), first = (f.at + j * works_[f.work].wavefronts) * size;
    return {first, std::min(size, op.size - first)};
}

// All wavefronts are at a control operation.
void Units::control(Work& work) {
    Wavefront& f = leader(work);
    const Operation& op = *operation(f);
    if (op.kind == OpKind::barrier) return later(now() + m_.barrier, Stage::timer, f, f.serial, number(f));
    if (op.kind != OpKind::release || !op.fence) return ask(f);
    if (work.out) work.fencing = true;
    else fence(work);
}

void Units::fence(Work& work) {
    const Wavefront& f = leader(work);
    later(now() + m_.fence, Stage::timer, f, f.serial, number(f));
}

void Units::ask(Wavefront& leader) {
    leader.cursor = 0, leader.count = 1;
    unit_of(leader).ready.push(number(leader));
}

void Units::controlled(Work& work) {
    work.arrived = 0;
    for (std::uint32_t i = 0; i < work.wavefronts; ++i) {
        Wavefront& f = wavefronts_[work.first + i];
        next(f);
        proceed(f);
    }
}

// What a wavefront waited for is over: a nop, an addition, a fence or a barrier.
void Units::timer(std::uint32_t wavefront) {
    Wavefront& f = wavefronts_[wavefront];
    if (f.phase == Phase::nop) {
        next(f);
        proceed(f);
    } else if (f.phase == Phase::load) {
        added(f);
    } else if (operation(f)->kind == OpKind::release) {
        ask(f);
    } else {
        controlled(works_[f.work]);
    }
    serve(unit_of(f));
}

// The instruction that a wavefront issues next.
Units::Wanted Units::wanted(const Wavefront& f) const {
    const Operation& op = *operation(f);
    if (f.phase == Phase::control) {
        const bool poll = op.kind == OpKind::acquire;
        return {poll ? Packet::poll : Packet::signal, launch_.lines + op.semaphore, 1, poll ? 0u : op.peer};
    }
    const bool load = f.phase == Phase::load;
    const std::uint32_t places = load ? op.sources : op.targets;
    const Place& place = grid_.places[(load ? op.source : op.target) + f.cursor % places];
    const Span part = span(f, op, f.cursor / places);
    const Buffer& buffer = launch_.buffers[place.buffer];
    return {load ? Packet::load : Packet::store, buffer.first + (place.offset + part.first) * buffer.lines, part.count * buffer.lines,
            place.peer};
}

// Issues as limits allow; ready wavefronts take turns.
void Units::serve(Unit& unit) {
    while (!unit.ready.empty()) {
        const std::uint32_t id = unit.ready.front();
        Wavefront& f = wavefronts_[id];
        Work& work = works_[f.work];
        const Wanted want = wanted(f);
        if (unit.out + want.count > unit.limit_unit) return;
        unit.ready.pop();
        if (f.out + want.count > unit.limit_wavefront) {
            f.blocked = true;
        } else if (work.out + want.count > unit.limit_workgroup) {
            work.blocked.push_back(id);
        } else {
            issue(unit, f, want);
            if (++f.cursor < f.count) unit.ready.push(id);
            else if (want.kind == Packet::store) stepped(f);
            else if (want.kind == Packet::signal) controlled(work);
        }
    }
}

void Units::issue(Unit& unit, Wavefront& f, const Wanted& want) {
    const Tick service = want.kind == Packet::store ? unit.store : unit.control;
    Work& work = works_[f.work];
    count(unit, want.count);
    f.out += want.count, work.out += want.count;
    f.loads += want.kind == Packet::load;
    requests_[want.kind == Packet::load ? 0 : want.kind == Packet::store ? 1 : 2] += want.count;
    const std::uint32_t value = want.kind == Packet::poll ? operation(f)->value : 0;
    const std::uint32_t id = flights_.add(
        {f.key | f.serial, now(), 0, number(f), want.count, want.count, value, static_cast<std::uint16_t>(want.peer), want.kind});
    unit.outward = std::max(unit.outward, now());
    for (std::uint32_t line = want.line, end = want.line + want.count; line < end;) {
        const Way way = chip_.way(line, want.peer);
        for (const std::uint32_t last = std::min(end, line + way.lines); line < last; ++line) {
            unit.outward += service;
            Event event{unit.outward, f.key | f.serial++, line, id, 0, way.channel, way.port, want.kind, Stage::done};
            chip_.leaves(event, work.unit, want.peer);
        }
    }
}

void Units::count(Unit& unit, std::int64_t change) {
    outstanding_ += unit.out * (now() - unit.since);
    unit.since = now(), unit.out += change;
}

// All requests of an instruction are back.
void Units::done(std::uint32_t instruction) {
    const Instruction it = flights_[instruction];
    flights_.over(instruction);
    Wavefront& f = wavefronts_[it.wavefront];
    Work& work = works_[f.work];
    Unit& unit = units_[work.unit];
    count(unit, -static_cast<std::int64_t>(it.count));
    latency_ += it.count * (now() - it.issued);
    f.out -= it.count, work.out -= it.count;
    if (it.kind == Packet::load) {
        if (--f.loads == 0 && f.cursor == f.count) loaded(f);
    } else if (it.kind == Packet::poll) {
        controlled(work);
    }
    if (f.blocked) {
        f.blocked = false;
        unit.ready.push(it.wavefront);
    }
    for (const std::uint32_t other : work.blocked) unit.ready.push(other);
    work.blocked.clear();
    if (work.fencing && work.out == 0) {
        work.fencing = false;
        fence(work);
    }
    end_if_over(work);
    serve(unit);
}

void Units::end_if_over(Work& work) {
    if (work.left || work.out || work.end >= 0) return;
    work.end = now();
    end_ = std::max(end_, now());
    Unit& unit = units_[work.unit];
    unit.places += stream_of(work).places, unit.wavefronts += work.wavefronts;
    if (dispatched_ == works_.size()) return;
    for (std::uint32_t s = 0; s < dealt_.size(); ++s)
        while (dealt_[s].came && dealt_[s].waits() && dealt_[s].on[work.unit] && fits(work.unit, launch_.streams[s]))
            place(s, work.unit, now());
}

void Units::report(Report& into) const {
    into.end = end_, into.outstanding = outstanding_, into.latency = latency_, into.requests = requests_;
    for (const Work& work : works_) into.starts.push_back(work.start), into.ends.push_back(work.end);
    into.over = over_, into.units = chip_.unit_of, into.port_busy = chip_.port_busy;
    into.channel_requests = chip_.channel_requests, into.hbm_requests = chip_.hbm_requests, into.port_packets = chip_.port_packets;
}

}  // namespace astrarium::gpu
