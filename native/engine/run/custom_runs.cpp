#include "run/custom_runs.hpp"

#include "run/collectives.hpp"

namespace astrarium {

const Custom& CustomRuns::custom(const Run& run) const { return *plan_.collectives[collectives_.instance(run.instance).collective].custom; }

const Program& CustomRuns::program(const Run& run) const {
    return custom(run).programs[static_cast<std::size_t>(custom(run).program_of[run.position])];
}

void CustomRuns::start(std::uint32_t instance, std::uint32_t position) {
    if (free_.empty()) {
        free_.push_back(static_cast<std::uint32_t>(runs_.size()));
        runs_.emplace_back();
    }
    const std::uint32_t id = free_.back();
    free_.pop_back();
    runs_[id] = Run{instance, position, 0, {}};
    const Program& mine = program(runs_[id]);
    runs_[id].left = static_cast<std::uint32_t>(mine.nodes());
    runs_[id].parents.assign(mine.parents.begin(), mine.parents.end());
    for (std::uint32_t node = 0; node < mine.nodes(); ++node)
        if (mine.parents[node] == 0) issue(id, node);
    if (mine.nodes() == 0) end(id);
}

void CustomRuns::end(std::uint32_t id) {
    free_.push_back(id);
    collectives_.end_member(runs_[id].instance, runs_[id].position);
}

void CustomRuns::issue(std::uint32_t id, std::uint32_t node) {
    const Run& run = runs_[id];
    const Instance& i = collectives_.instance(run.instance);
    const Program& mine = program(run);
    const Member& member = i.members[run.position];
    const auto kind = static_cast<Kind>(mine.kind[node]);
    if (kind != Kind::send && kind != Kind::recv)
        return clock_.at(add(clock_.now, mine.duration[node]), BatchClock::done, {member.key(), node, custom_over, id, node});
    const auto which = static_cast<std::size_t>(custom(run).program_of[run.position]), slot = static_cast<std::size_t>(mine.slot[node]);
    const std::uint32_t peer = collectives_.membership().rank(i.group, static_cast<std::uint32_t>(custom(run).slot_peer[which][slot]));
    const std::int32_t number = custom(run).slot_tag[which][slot];
    const std::int64_t tag = -1 - (static_cast<std::int64_t>(i.serial) << 31 | number);
    if (kind == Kind::recv && !plan_.network.medium->receives) {
        if (meetings_.post({tag, mine.size[node], peer, member.rank}, static_cast<std::uint64_t>(id) << 32 | node))
            clock_.at(clock_.now, BatchClock::done, {member.key(), node, custom_over, id, node});
        return;
    }
    post(id, node, peer, tag, static_cast<std::uint32_t>(number));
}

// A message, or a receive for media that are told of it.
void CustomRuns::post(std::uint32_t id, std::uint32_t node, std::uint32_t peer, std::int64_t tag, std::uint32_t number) {
    const Run& run = runs_[id];
    const Instance& i = collectives_.instance(run.instance);
    const std::uint32_t rank = i.members[run.position].rank;
    const MessageId message = messages_.make();
    Message& m = messages_[message];
    m.purpose = Message::custom;
    m.receives = static_cast<Kind>(program(run).kind[node]) == Kind::recv;
    m.state = id, m.peer = peer;
    m.tag = plan_.network.medium->receives ? collectives_.tag_of(i, 0, 0, number) : tag;
    m.high = i.members[run.position].key(), m.low = node;
    m.source = rank;
    m.flight = Flight(plan_.npu_of[m.receives ? peer : rank], plan_.npu_of[m.receives ? rank : peer], program(run).size[node]);
    messages_.post(message);
}

void CustomRuns::take(const Message& m) {
    const auto receiver = meetings_.deliver({m.tag, m.flight.size, m.rank(), m.peer});
    complete(m.state, static_cast<std::uint32_t>(m.low));
    if (receiver) complete(static_cast<std::uint32_t>(*receiver >> 32), static_cast<std::uint32_t>(*receiver));
}

void CustomRuns::complete(std::uint32_t id, std::uint32_t node) {
    const Program& mine = program(runs_[id]);
    for (std::int32_t e = mine.child_ptr[node]; e < mine.child_ptr[node + 1]; ++e) {
        const auto child = static_cast<std::uint32_t>(mine.child[static_cast<std::size_t>(e)]);
        if (--runs_[id].parents[child] == 0) issue(id, child);
    }
    if (--runs_[id].left == 0) end(id);
}

}  // namespace astrarium
