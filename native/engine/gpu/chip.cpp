#include "gpu/chip.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace astrarium::gpu {
namespace {

constexpr std::size_t most_bins = 1 << 16;  // as MOST_BINS

// Which of `count` channels or ports has a block: every row of blocks is shifted by one.
std::uint32_t skewed(std::uint32_t block, std::uint32_t count) {
    const std::uint32_t row = block / count;
    return (block + row) % count;
}

}  // namespace

Chip::Chip(const Launch& launch, Queue& queue, Instructions& flights)
    : boxes(launch.gpus), channel_requests(launch.machine.channel_router.size()), hbm_requests(channel_requests.size()),
      port_packets(2 * launch.machine.port_router.size()), launch_(launch), m_(launch.machine), queue_(queue), flights_(flights),
      l2_(m_.channel_router.size()), hbm_(m_.channel_router.size()), outward_(m_.port_router.size()), inward_(m_.port_router.size()),
      unit_in_(m_.unit_router.size()), credits_(m_.port_router.size() * static_cast<std::size_t>(m_.credits)),
      credit_at_(m_.port_router.size()), landed_(launch.flagged), counts_(launch.semaphores), polls_(launch.semaphores) {
    port_group_ = static_cast<std::uint32_t>(m_.port_router.size());
    hbm_store_ = m_.hbm_store ? m_.hbm_store : m_.hbm;
    write_back_ = m_.write_back * hbm_store_;
    for (const auto& port : launch.ports) unit_port_.push_back(port.front());
    computes_ = static_cast<std::uint32_t>(m_.unit_router.size()) - static_cast<std::uint32_t>(m_.engines);
    if (m_.round_robin) arbiters_.resize(2 * port_group_);
    for (const Grid& grid : launch.grids)
        for (const Place& place : grid.places) multimem_ |= place.peer == launch.gpus;
    if (!m_.switched && launch.gpus > 1) port_group_ /= launch.gpus - 1;
    std::uint16_t last = 0;
    for (const auto* routers : {&m_.unit_router, &m_.channel_router, &m_.port_router})
        last = std::max(last, *std::max_element(routers->begin(), routers->end()));
    const int columns = static_cast<int>(m_.columns);
    for (int i = 0; i <= last; ++i) spots_.push_back({i / columns, i % columns});
    if (m_.mesh_data) links_.resize(static_cast<std::size_t>(last / columns + 1) * static_cast<std::size_t>(columns));
}

// The router of what a packet goes to.
std::uint16_t Chip::goal(const Event& event, Stage stage) const {
    if (stage == Stage::channel) return m_.channel_router[event.channel];
    return stage == Stage::out ? m_.port_router[event.port] : m_.unit_router[unit_of[event.work()]];
}

// Carries a packet, which is at router `here` at event.time, on to a stage.
void Chip::travel(Event& event, std::uint16_t here, Stage stage) {
    const std::uint16_t there = goal(event, stage);
    event.time += m_.enter;
    if (here == there) return reached(event, stage);
    if (m_.mesh_data) {
        event.router = here, event.next = stage;
        event.set(Stage::hop);
        return queue_.push(event);
    }
    const Spot &from = spots_[here], &to = spots_[there];
    event.time += m_.hop * (std::abs(from.row - to.row) + std::abs(from.column - to.column));
    reached(event, stage);
}

void Chip::hop(Event event) {
    const auto columns = static_cast<std::uint16_t>(m_.columns);
    const std::uint16_t here = event.router, to = goal(event, event.next), column = here % columns, aim = to % columns;
    const int way = column != aim ? (aim > column ? 0 : 1) : (to > here ? 2 : 3);
    const int step[] = {1, -1, columns, -columns};
    const auto there = static_cast<std::uint16_t>(here + step[way]);
    Tick& free = links_[here][static_cast<std::size_t>(way)];
    const Tick start = std::max(free, now), service = carries_data(event.kind) ? m_.mesh_data : m_.mesh_control;
    free = start + service;
    event.router = there;
    event.time = start + m_.hop;
    if (there != to) return queue_.push(event);
    event.time += service;
    reached(event, event.next);
}

void Chip::reached(Event& event, Stage stage) {
    if (event.kind == Packet::ack && stage == Stage::unit) return flights_.back(event.instruction, event.time);
    event.set(stage);
    queue_.push(event);
}

Way Chip::way(std::uint32_t line, std::uint32_t peer) const {
    const auto row = static_cast<std::uint32_t>(m_.interleave), port_row = static_cast<std::uint32_t>(m_.port_interleave);
    Way found{static_cast<std::uint16_t>(skewed(line / row, static_cast<std::uint32_t>(m_.channel_router.size()))), 0, row - line % row};
    if (!peer) return found;
    found.port = static_cast<std::uint16_t>(first_port(peer) + skewed(line / port_row, port_group_));
    found.lines = std::min(found.lines, port_row - line % port_row);
    return found;
}

void Chip::leaves(Event& event, std::uint32_t unit, std::uint32_t peer) {
    travel(event, m_.unit_router[unit], peer ? Stage::out : Stage::channel);
}

// A packet is at a port out: a request of this GPU, or the answer to another one.
void Chip::out(Event event) {
    if (arbiters_.empty()) return sent(event);
    waits(event.port, event);
}

// A packet waits for its class's turn, and the station takes those whose turns come before.
void Chip::waits(std::size_t station, const Event& event) {
    serve(station, event.time);
    arbiters_[station].put(carries_data(event.kind), event);
}

// When a station takes its next packet.
Tick Chip::turn(std::size_t station) {
    const Arbiter& arbiter = arbiters_[station];
    if (arbiter.empty()) return never;
    const auto port = static_cast<std::uint32_t>(station % outward_.size());
    if (station >= outward_.size()) return std::max(arbiter.since, inward_[port]);
    return std::max({arbiter.since, outward_[port], m_.credits ? credit(port) : 0});
}

// What a station takes before `end`.
void Chip::serve(std::size_t station, Tick end) {
    for (Tick when = turn(station); when < end; when = turn(station), ++turns_) {
        now = when;
        const Event event = arbiters_[station].take();
        if (station < outward_.size()) sent(event);
        else entered(event);
    }
}

std::uint64_t Chip::take_turns(Tick end) {
    next_turn = never;
    for (std::size_t station = 0; station < arbiters_.size(); ++station) {
        serve(station, end);
        next_turn = std::min(next_turn, turn(station));
    }
    return std::exchange(turns_, 0);
}

void Chip::sent(Event event) {
    const std::uint32_t origin = event.origin(), distance = origin ? origin : flights_[event.instruction].peer;
    const std::uint32_t port = event.port;
    const bool data = carries_data(event.kind);
    const Tick service = data ? m_.port_data : m_.port_control;
    Tick start = std::max(outward_[port], now);
    if (m_.credits) {  // a ring of the times at which the last packets' credits are back
        Tick& back = credit(port);
        start = std::max(start, back);
        back = start + service + 2 * m_.link_latency;
        if (++credit_at_[port] == static_cast<std::uint32_t>(m_.credits)) credit_at_[port] = 0;
    }
    outward_[port] = start + service;
    if (launch_.record) used(port, start, service);
    ++port_packets[2 * port + (data ? 0 : 1)];
    event.time = start + m_.link_latency + (m_.switched ? 0 : service);
    event.set(Stage::in);
    if (!origin && distance == launch_.gpus) {  // the switch copies it; the own GPU is at distance `gpus`
        for (std::uint32_t each = 0; each < launch_.gpus; ++each) {
            event.set_origin(launch_.gpus - each);
            boxes.send(each, event);
        }
        return;
    }
    event.set_origin(origin ? 0 : launch_.gpus - distance);
    event.port = static_cast<std::uint16_t>(port - first_port(distance) + first_port(launch_.gpus - distance));
    boxes.send(distance % launch_.gpus, event);
}

// Records that a port serves a packet: in the bin in which that begins. A run with more bins is refused at its end.
void Chip::used(std::uint32_t port, Tick start, Tick service) {
    port_busy.resize(m_.port_router.size());
    std::vector<Tick>& bins = port_busy[port];
    const auto bin = static_cast<std::size_t>(start / launch_.record);
    if (bin >= most_bins) return;
    if (bins.size() <= bin) bins.resize(bin + 1);
    bins[bin] += service;
}

// A packet from another GPU: of a switch, it queues for this GPU's port.
void Chip::into(Event event) {
    if (multimem_ && !event.origin() && flights_[event.instruction].peer == launch_.gpus && !joined(event)) return;
    if (arbiters_.empty() || !m_.switched) return entered(event);
    waits(outward_.size() + event.port, event);
}

void Chip::entered(Event event) {
    if (m_.switched) {
        const Tick service = carries_data(event.kind) ? m_.port_data : m_.port_control;
        event.time = inward_[event.port] = std::max(inward_[event.port], now) + service;
    }
    travel(event, m_.port_router[event.port], event.origin() ? Stage::channel : Stage::unit);
}

// Whether the switch has the answers of all GPUs to a request, of which it hands on one.
bool Chip::joined(const Event& event) {
    const auto found = joins_.try_emplace(event.key & ~(stage_mask | origin_mask), 0).first;
    if (++found->second < launch_.gpus) return false;
    joins_.erase(found);
    return true;
}

// A request is at its channel. A load of a flagged line, and a poll, may have to wait there.
void Chip::channel(Event event) {
    const bool flagged = event.line < launch_.flagged;
    if (event.kind == Packet::load && flagged && !landed_[event.line]) return readers_[event.line].push_back(event);
    if (event.kind == Packet::poll && counts_[event.line - launch_.lines] < flights_[event.instruction].value) {
        return polls_[event.line - launch_.lines].push_back(event);
    }
    const Packet kind = event.kind;
    const std::uint32_t line = event.line;
    access(event);
    if (kind == Packet::store && flagged && !landed_[line]) landed(line);
    if (kind == Packet::signal) signalled(line - launch_.lines);
}

void Chip::landed(std::uint32_t line) {
    landed_[line] = true;
    const auto found = readers_.find(line);
    if (found == readers_.end()) return;
    for (const Event& reader : found->second) access(reader);
    readers_.erase(found);
}

void Chip::signalled(std::uint32_t semaphore) {
    const std::uint32_t count = ++counts_[semaphore];
    std::vector<Event>& polls = polls_[semaphore];
    if (polls.empty()) return;
    std::erase_if(polls, [&](const Event& poll) {
        const bool there = count >= flights_[poll.instruction].value;
        if (there) access(poll);
        return there;
    });
}

// Serves a request and sends the answer.
void Chip::access(Event event) {
    const std::uint32_t at = event.channel;
    ++channel_requests[at];
    const bool read = reads(event.kind);
    Tick end = l2_[at] = std::max(l2_[at], now) + m_.channel;
    if (event.line >= launch_.flagged && event.line < launch_.in_hbm) {
        ++hbm_requests[at];
        const Tick over = hbm_[at] = std::max(hbm_[at], end) + (read ? m_.hbm : hbm_store_);
        end = read ? over + m_.hbm_latency : std::max(end, over - write_back_);
    }
    event.kind = read ? Packet::data : Packet::ack;
    event.time = end + m_.channel_latency;
    travel(event, m_.channel_router[at], event.origin() ? Stage::out : Stage::unit);
}

// An answer is at its unit's way in.
void Chip::unit(const Event& event) {
    if (event.kind != Packet::data) return flights_.back(event.instruction, now);
    const std::uint16_t unit = unit_of[event.work()];
    Tick& free = unit_in_[unit_port_[unit]];
    free = std::max(free, now) + (unit < computes_ ? m_.unit_data : m_.engine_data);
    flights_.back(event.instruction, free);
}

}  // namespace astrarium::gpu
