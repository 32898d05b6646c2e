#include "run/messages.hpp"

#include <utility>

#include "clock/interrupt.hpp"
#include "media/foreign_medium.hpp"

namespace astrarium {

Messages::Messages(const Plan& plan, BatchClock& clock, const RunOptions& options, Ends& ends)
    : clock_(clock), ends_(ends), equals_(options.equals) {
    ForeignNetwork* const foreign = options.plugins.network;
    if (equals_) ports_ = std::make_unique<Ports>(plan, equals_->rows(), options.record);
    else if (plan.network.medium->on_ports)
        ports_ = std::make_unique<Ports>(plan, options.alone ? PortRows::looped() : PortRows::each(plan), options.record);
    else medium_ = foreign ? std::make_unique<ForeignMedium>(*foreign, *this) : plan.network.medium->open(plan, options.record, *this);
    queues_ = medium_ && plan.network.medium->queues;
}

MessageId Messages::make() {
    if (free_.empty()) {
        free_.push_back(static_cast<MessageId>(pool_.size()));
        if ((pool_.size() & 0xffff) == 0) refuse_too_many(pool_.size()), stop_if_interrupted();
        pool_.emplace_back();
    }
    const MessageId id = free_.back();
    free_.pop_back();
    pool_[id] = Message{};
    return id;
}

void Messages::post(MessageId id) {
    const Message& m = pool_[id];
    clock_.at(clock_.now, m.receives ? BatchClock::issue : BatchClock::depart, {m.high, m.low, leave_source, id, 0});
}

void Messages::leave(MessageId id) {
    for (MessageId next; id != nothing; id = next) next = pool_[id].next, depart(id);
}

void Messages::depart(MessageId id) {
    if (medium_) return step(id);
    Message& m = pool_[id];
    if (m.together == 1) return clock_.arrival(ports_->depart(m.flight, clock_.now), id);
    const Keyed last = arrives(id);
    clock_.arrival(ports_->depart_together(m.flight, m.together, clock_.now, {last.high, last.low + 1 - m.together, 0}), id);
}

void Messages::step(MessageId id) {
    if (!queues_) return medium_->ask(id, clock_.now);
    Flight& flight = pool_[id].flight;
    if (flight.at == flight.destination) return ends_.deliver(id, clock_.now);
    ask_again(id, medium_->pass(flight, clock_.now));
}

// What arrives in one instant goes by what its receiver makes of it: by collective, chunk, phase and receive, other messages after
// these and by bytes. Then by the sender's rank and node.
Keyed Messages::arrives(MessageId id) const {
    const Message& m = pool_[id];
    const std::uint64_t source = std::uint64_t{m.source} << 32 | (m.high & 0xffffffffu);
    if (m.purpose != Message::chunk) return {~std::uint64_t{0}, static_cast<std::uint64_t>(m.flight.size), reach_next, id, source};
    return {std::uint64_t{m.collective} << 32 | m.low >> 32, std::uint64_t{m.phase} << 32 | m.receive, reach_next, id, source};
}

void Messages::arrive(MessageId id) {
    if (medium_) {
        if (const std::uint32_t queue = std::exchange(pool_[id].queue, nothing); queue != nothing) ends_.send_next(queue);
        return step(id);
    }
    const Message& m = pool_[id];
    if (!ports_->arrived(m.flight)) return depart(id);  // along a mesh
    if (!equals_) return ends_.deliver(id, ports_->deliver(m.flight, clock_.now));
    const Keyed key = arrives(id);
    const Tick when = ports_->deliver(m.flight, clock_.now, {key.high, key.low, static_cast<std::uint32_t>(m.tag)});
    if (!ports_->ties().empty()) equals_->check_ties(m, ports_->ties());
    ends_.deliver(id, when);
}

void Messages::write(StateWords& to) const {
    for (const Tick free : ports_ ? ports_->free_times() : medium_->free_times()) to.until(free);
    if (ports_)
        ports_->each_train([&to](std::size_t port, const Ports::Train& train) {
            to.count(port), to.time(train.next), to.word(train.step), to.word(train.left);
            to.word(static_cast<std::int64_t>(train.order.high)), to.word(static_cast<std::int64_t>(train.order.low));
        });
}

}  // namespace astrarium
