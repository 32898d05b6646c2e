#include "gpu/units.hpp"

#include <algorithm>

namespace astrarium::gpu {

Units::Units(const Launch& launch, std::uint32_t gpu, Queue& queue, Chip& chip, Instructions& flights)
    : launch_(launch), m_(launch.machine), grid_(launch.grid(gpu)), queue_(queue), chip_(chip), flights_(flights) {
    const std::int64_t room = std::min(m_.workgroups_per_unit, m_.wavefronts_per_unit / launch.wavefronts);
    units_.resize(m_.unit_router.size(), Unit{Ready(static_cast<std::size_t>(room * launch.wavefronts)), room});
    chip_.unit_of.resize(grid_.works());
    if (launch.record) over_.assign(grid_.operations.size(), -1);
    for (std::uint32_t w = 0; w < grid_.works(); ++w) {
        works_.push_back({.number = w, .left = launch.wavefronts, .blocked = {}});
        for (std::uint32_t i = 0; i < launch.wavefronts; ++i) {
            const std::uint64_t key = std::uint64_t{w} << work_bit | std::uint64_t{i} << wavefront_bit;
            wavefronts_.push_back({.key = key, .work = w, .index = i, .at = i});
        }
    }
}

void Units::begin(Tick when) {
    end_ = when;
    std::size_t here = 0, places = static_cast<std::size_t>(units_[0].room) * units_.size();
    for (; places > 0 && dispatched_ < works_.size(); --places) {
        place(static_cast<std::uint32_t>(here), when);
        here = here + 1 == units_.size() ? 0 : here + 1;
    }
}

void Units::place(std::uint32_t unit, Tick when) {
    Work& work = works_[dispatched_++];
    --units_[unit].room;
    work.unit = unit, work.start = when + m_.dispatch;
    chip_.unit_of[work.number] = static_cast<std::uint16_t>(unit);
    later(work.start, Stage::start, leader(work), 0, work.number);
}

void Units::start(std::uint32_t work) {
    for (std::uint32_t i = 0; i < launch_.wavefronts; ++i) proceed(wavefronts_[work * launch_.wavefronts + i]);
    serve(units_[works_[work].unit]);
}

void Units::later(Tick when, Stage stage, const Wavefront& f, std::uint32_t serial, std::uint32_t what) {
    Event event{when, f.key | serial, what, what, 0, 0, 0, Packet::load, stage};
    event.set(stage);
    queue_.push(event);
}

// Goes on with the next operation that has something to do for this wavefront, or with more of this one.
void Units::proceed(Wavefront& f) {
    Work& work = works_[f.work];
    for (const Operation* op = operation(f); op; op = operation(f)) {
        if (op->kind == OpKind::nop) {
            f.phase = Phase::nop;
            return later(add(now(), op->time), Stage::timer, f, f.serial, number(f));
        }
        if (op->kind > OpKind::reduce) {
            f.phase = Phase::control;
            f.cursor = f.count = 0;
            if (++work.arrived == launch_.wavefronts) control(work);
            return;
        }
        const std::int64_t left = (op->size + m_.instruction - 1) / m_.instruction - f.at;
        if (left > 0) {
            f.step =
                static_cast<std::uint32_t>(std::min<std::int64_t>(launch_.unroll, (left + launch_.wavefronts - 1) / launch_.wavefronts));
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
    const Tick more = op.kind == OpKind::memcpy ? 0 : (op.sources - 1) * m_.reduce;
    if (!more) return added(f);
    std::uint32_t requests = 0;
    for (std::uint32_t j = 0; j < f.step; ++j) requests += span(f, op, j).count;
    Unit& unit = unit_of(f);
    unit.alu = std::max(unit.alu, now()) + more * requests;
    later(unit.alu, Stage::timer, f, f.serial, number(f));
}

void Units::added(Wavefront& f) {
    if (const Operation& op = *operation(f); op.targets) return phase(f, Phase::store, op.targets);
    stepped(f);
}

void Units::stepped(Wavefront& f) {
    f.at += f.step * launch_.wavefronts;
    proceed(f);
}

Units::Span Units::span(const Wavefront& f, const Operation& op, std::uint32_t j) const {
    const auto size = static_cast<std::uint32_t>(m_.instruction), first = (f.at + j * launch_.wavefronts) * size;
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
    for (std::uint32_t i = 0; i < launch_.wavefronts; ++i) {
        Wavefront& f = wavefronts_[work.number * launch_.wavefronts + i];
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
        if (unit.out + want.count > m_.limit_unit) return;
        unit.ready.pop();
        if (f.out + want.count > m_.limit_wavefront) {
            f.blocked = true;
        } else if (work.out + want.count > m_.limit_workgroup) {
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
    const Tick service = want.kind == Packet::store ? m_.unit_data : m_.unit_control;
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
    ++units_[work.unit].room;
    if (dispatched_ < works_.size()) place(work.unit, now());
}

void Units::report(Report& into) const {
    into.end = end_, into.outstanding = outstanding_, into.latency = latency_, into.requests = requests_;
    for (const Work& work : works_) into.starts.push_back(work.start), into.ends.push_back(work.end);
    into.over = over_, into.units = chip_.unit_of, into.port_busy = chip_.port_busy;
    into.channel_requests = chip_.channel_requests, into.port_packets = chip_.port_packets;
}

}  // namespace astrarium::gpu
