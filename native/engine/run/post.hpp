// What nodes that are no collectives do beyond their rank: messages between nodes, and remote memory.
#pragma once
#include <vector>

#include "nodes/meetings.hpp"
#include "run/accelerator.hpp"
#include "run/messages.hpp"
#include "run/nodes.hpp"

namespace astrarium {

class Post {
public:
    Post(const Plan& plan, BatchClock& clock, Nodes& nodes, Messages& messages, const Equals* equals)
        : plan_(plan), clock_(clock), nodes_(nodes), messages_(messages), equals_(equals) {}

    void send(std::uint32_t rank, std::uint32_t node, std::size_t slot);
    void receive(std::uint32_t rank, std::uint32_t node, std::size_t slot);
    void access(std::uint32_t rank, std::uint32_t node);  // of a memory at a switch
    void take(const Message& message);                    // that was delivered

    void explain(std::vector<Wait>& why) const;  // per rank: receives that wait
    void write(StateWords& to) const;
    auto state() { return std::tie(meetings_); }

private:
    std::int32_t memory_of(std::int32_t npu, std::size_t number) const;
    void check_peer(std::uint32_t rank, std::uint32_t node, std::uint32_t peer) const;
    void post_receive(std::uint32_t rank, std::uint32_t node, std::uint32_t peer, std::int64_t tag);

    const Plan& plan_;
    BatchClock& clock_;
    Nodes& nodes_;
    Messages& messages_;
    const Equals* const equals_;
    Meetings meetings_;
};

class RemoteMemory {
public:
    RemoteMemory(const Plan& plan, ForeignMemory* foreign) : plan_(plan), foreign_(foreign) {}
    // When an access of a rank's node ends.
    Tick end(const Nodes& nodes, std::uint32_t rank, std::uint32_t node, Tick now);
    void write(StateWords& to) const;
    auto state() { return std::tie(free_); }

private:
    const Plan& plan_;
    ForeignMemory* foreign_;
    std::vector<Tick> free_;  // when what serves one access at a time is free
};

}  // namespace astrarium
