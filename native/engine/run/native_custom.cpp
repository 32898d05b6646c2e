// Native rule book, custom collectives: a small program of sends, receives and delays per position.
#include "run/native.hpp"

namespace astrarium {

const Program& Native::custom_program(const CustomRun& run) const {
    const Custom& custom = *plan_.collectives[instances_[run.instance].collective].custom;
    return custom.programs[static_cast<std::size_t>(custom.program_of[run.position])];
}

void Native::start_custom(std::uint32_t instance, std::uint32_t position) {
    if (custom_free_.empty()) {
        custom_free_.push_back(static_cast<std::uint32_t>(custom_.size()));
        custom_.emplace_back();
    }
    const std::uint32_t id = custom_free_.back();
    custom_free_.pop_back();
    custom_[id] = CustomRun{instance, position, 0, {}};
    const Program& program = custom_program(custom_[id]);
    custom_[id].left = static_cast<std::uint32_t>(program.nodes());
    custom_[id].parents.assign(program.parents.begin(), program.parents.end());
    for (std::uint32_t node = 0; node < program.nodes(); ++node)
        if (program.parents[node] == 0) issue_custom(id, node);
    if (program.nodes() == 0) end_custom(id);
}

void Native::end_custom(std::uint32_t id) {
    const std::uint32_t instance = custom_[id].instance, position = custom_[id].position;
    custom_free_.push_back(id);
    Instance& i = instances_[instance];
    Member& member = i.members[position];
    member.chunks_left = 0;
    ++i.done;
    const std::uint64_t key = static_cast<std::uint64_t>(member.rank) << 32 | member.node;
    clock_.at(clock_.now, BatchClock::done, {key, 0, node_over, member.rank, member.node});
    close_if_done(instance);
}

void Native::issue_custom(std::uint32_t id, std::uint32_t node) {
    const CustomRun& run = custom_[id];
    const Instance& i = instances_[run.instance];
    const Custom& custom = *plan_.collectives[i.collective].custom;
    const auto which = static_cast<std::size_t>(custom.program_of[run.position]);
    const Program& program = custom.programs[which];
    const std::uint32_t rank = i.members[run.position].rank;
    const std::uint64_t high = static_cast<std::uint64_t>(rank) << 32 | i.members[run.position].node;
    const auto kind = static_cast<Kind>(program.kind[node]);
    if (kind != Kind::send && kind != Kind::recv)
        return clock_.at(add(clock_.now, program.duration[node]), BatchClock::done, {high, node, custom_over, id, node});
    const auto slot = static_cast<std::size_t>(program.slot[node]);
    const std::uint32_t peer = membership_.rank(i.group, static_cast<std::uint32_t>(custom.slot_peer[which][slot]));
    const std::int64_t tag = -1 - (static_cast<std::int64_t>(i.serial) << 31 | custom.slot_tag[which][slot]);
    if (kind == Kind::recv && !plan_.network.medium->receives) {
        const MessageKey key{tag, program.size[node], peer, rank};
        Meeting& meeting = meetings_[key];
        if (meeting.delivered == 0) return meeting.posted.push_back(static_cast<std::uint64_t>(id) << 32 | node);
        if (--meeting.delivered == 0) meetings_.erase(key);
        return clock_.at(clock_.now, BatchClock::done, {high, node, custom_over, id, node});
    }
    const std::uint32_t message = new_message();
    Message& m = messages_[message];
    m.purpose = Message::custom;
    m.receives = kind == Kind::recv;
    m.state = id, m.node_index = node, m.rank = rank, m.peer = peer;
    m.tag = plan_.network.medium->receives ? tag_of(i, 0, 0, static_cast<std::uint32_t>(custom.slot_tag[which][slot])) : tag;
    m.high = high, m.low = node;
    m.source = rank;
    m.flight = Flight(plan_.npu_of[m.receives ? peer : rank], plan_.npu_of[m.receives ? rank : peer], program.size[node]);
    post(message);
}

void Native::custom_complete(std::uint32_t id, std::uint32_t node) {
    const Program& program = custom_program(custom_[id]);
    for (std::int32_t e = program.child_ptr[node]; e < program.child_ptr[node + 1]; ++e) {
        const auto child = static_cast<std::uint32_t>(program.child[static_cast<std::size_t>(e)]);
        if (--custom_[id].parents[child] == 0) issue_custom(id, child);
    }
    if (--custom_[id].left == 0) end_custom(id);
}

}  // namespace astrarium
