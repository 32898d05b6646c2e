// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
#include "session.hpp"

#include <chrono>

#include "ns3/simulator.h"

namespace bridge {
namespace {

constexpr std::size_t per_frame = 1 << 14;  // deliveries
constexpr std::int64_t between_pulses = 1000;
constexpr std::uint32_t largest_packet = 65'000;

std::int64_t wall_time() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Settings read_settings(Frame& topology) {
    Settings settings;
    settings.tcp = topology.number<std::uint32_t>() != 0;
    settings.packet = topology.number<std::uint32_t>();
    settings.queue = topology.number<std::uint32_t>();
    settings.window = topology.number<std::uint64_t>();
    settings.most = topology.number<std::uint64_t>();
    if (settings.packet == 0 || settings.packet > largest_packet || settings.queue == 0)
        throw Refused("packets of " + std::to_string(settings.packet) + " bytes, queues of " + std::to_string(settings.queue));
    return settings;
}

}  // namespace

Session::Session(Frame& topology, const Pipe& pipe)
    : pipe_(pipe), settings_(read_settings(topology)), fabric_(std::make_unique<Fabric>(topology, settings_)) {
    topology.end();
    const Listener listener{[this](std::uint32_t message) { delivered(message); }, [this](const std::string& why) { failed(why); }};
    transport_ = (settings_.tcp ? make_tcp : make_udp)(*fabric_, settings_, messages_, listener);
}

void Session::step(Frame& asked) {
    const auto until = asked.number<Tick>();
    const auto sends = asked.number<std::uint32_t>();
    if (until < now_ || until == never) throw Refused("asked to run to " + std::to_string(until) + " ps");
    for (std::uint32_t i = 0; i < sends; ++i) send(asked);
    asked.end();
    last_pulse_ = wall_time();
    clock_.run(until, [this] { pulse(); });
    if (!failure_.empty()) throw Refused(failure_);
    now_ = until;
    say();
    done_.clear();
}

void Session::send(Frame& asked) {
    Message message;
    message.id = asked.number<std::uint64_t>();
    message.source = asked.number<std::uint32_t>();
    message.destination = asked.number<std::uint32_t>();
    message.size = asked.number<std::int64_t>();
    message.open = true;
    const auto at = asked.number<Tick>();
    const std::uint32_t npus = fabric_->npus();
    if (message.source >= npus || message.destination >= npus || message.source == message.destination || message.size < 0 || at < now_)
        throw Refused("asked to send " + std::to_string(message.size) + " bytes from NPU " + std::to_string(message.source) + " to " +
                      std::to_string(message.destination) + " at " + std::to_string(at) + " ps");
    const auto way = fabric_->way(message.source, message.destination);
    message.last = way.back();
    std::uint32_t place;
    if (free_.empty()) {
        place = static_cast<std::uint32_t>(messages_.size());
        messages_.push_back(message);
    } else {
        place = free_.back();
        free_.pop_back();
        messages_[place] = message;
    }
    ns3::Simulator::ScheduleWithContext(message.source, ns3::PicoSeconds(at - Clock::now()), &Transport::start, transport_.get(), place);
    due_.push({transport_->first_bound(message, way, at), place, message.id});
}

void Session::delivered(std::uint32_t place) {
    Message& message = messages_[place];
    message.open = false;
    done_.push_back({message.id, Clock::now()});
    free_.push_back(place);
}

void Session::failed(const std::string& why) {
    if (failure_.empty()) failure_ = "at " + std::to_string(Clock::now()) + " ps " + why;
    Clock::stop();
}

Tick Session::next() {
    const Tick idle = Clock::next();  // until then all stays as it is
    while (!due_.empty()) {
        const Due first = due_.top();
        const Message& message = messages_[first.message];
        const bool open = message.open && message.id == first.id;
        if (open && first.bound > now_) return first.bound;
        if (open && idle == never) return never;  // it will not be delivered
        due_.pop();
        if (open) due_.push({std::max(transport_->bound(first.message, idle), idle), first.message, first.id});
    }
    return never;
}

void Session::pulse() {
    const std::int64_t wall = wall_time();
    if (wall - last_pulse_ < between_pulses) return;
    last_pulse_ = wall;
    std::string body;
    put(body, Clock::now());
    pipe_.write('B', body);
}

void Session::say() {
    for (std::size_t from = 0; from < done_.size(); from += per_frame) {
        const std::size_t to = std::min(done_.size(), from + per_frame);
        std::string body;
        for (std::size_t i = from; i < to; ++i) {
            put(body, done_[i].id);
            put(body, done_[i].at);
        }
        pipe_.write('D', body);
    }
    std::string body;
    put(body, next());
    pipe_.write('N', body);
}

}  // namespace bridge
