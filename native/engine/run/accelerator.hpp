// The two interfaces through which work is left out of a run; accelerate/ implements them. A run without them simulates every rank and
// every message.
#pragma once
#include <cstdint>
#include <vector>

#include "media/ports.hpp"
#include "nodes/state_words.hpp"
#include "plugins/foreign.hpp"
#include "run/instance.hpp"

namespace astrarium {

class BatchClock;
class Collectives;
class Messages;
class Nodes;
class Post;
class RemoteMemory;
struct Message;

// What a run consists of.
struct Parts {
    const Plan& plan;
    const bool record, folded;  // whether traffic is recorded; folded: one rank per class
    BatchClock& clock;
    Nodes& nodes;
    Messages& messages;
    Post& post;
    RemoteMemory& memory;
    Collectives& collectives;
};

// Times collectives by themselves: none of the messages of such a collective is simulated, and its members end when the accelerator says.
// This is exact as long as nothing else uses its ports or links meanwhile. Media report each use (`LinkHolds`). If a timed collective *met*
// other traffic, the run does not count from the time at which it began, and from then on the collective runs as messages.
class Accelerator {
public:
    // A member of a collective: `collective` is its number in the plan, `serial` its number in the group.
    struct Member {
        std::uint32_t rank, node, group, position, collective, serial;
    };
    virtual ~Accelerator() = default;

    // A run begins.
    virtual void begin(const Parts& run) = 0;
    // A member comes to a collective. True: the collective is timed; the accelerator ends its members once all have come. False: the run
    // simulates its messages.
    virtual bool measure(const Member& member) = 0;
    // Whether all that ran so far counts: no timed collective met other traffic.
    virtual bool exact() const = 0;

    // --- For the period skipper (accelerate/periods).

    // The time since which events matter to collectives that wait for members.
    virtual Tick horizon(Tick now) const = 0;
    virtual void write(StateWords& to) const = 0;
    virtual std::size_t issues() const = 0;  // collectives so far
    struct Period {
        std::vector<std::uint32_t> serials;  // per group: its collectives in the period
        std::size_t issues = 0;              // in the period
    };
    // How often, at most, the period that has just ended recurs in a row. Then so many are left out.
    virtual std::uint64_t periods_alike(const Period& period, std::uint64_t most) const = 0;
    virtual void skip(const Period& period, std::uint64_t periods) = 0;
};

// Maps a plan of classes of equal ranks, of which one rank each runs, to the ranks that they represent.
class Equals {
public:
    virtual ~Equals() = default;
    virtual PortRows rows() const = 0;
    // The position in its own group of the rank that runs for the class at `position` of a group of the plan.
    virtual std::uint32_t place(std::uint32_t group, std::uint32_t position) const = 0;
    // A collective will run as messages. Throws Unfoldable unless equal ranks do the same in every step.
    virtual void check(const Collective& collective, std::uint32_t group) = 0;
    // The receivers of the sends of a member's chunk in its phase, and which sends leave as trains; the receiver of a node's send.
    virtual const Sends& sends(std::uint32_t group, const ChunkState& chunk) = 0;
    virtual Aim aim(std::uint32_t rank, std::size_t slot) const = 0;
    // A message comes to a port in one instant with others of its order. Throws Unfoldable unless the ranks of their senders have one order
    // for all equal ranks.
    virtual void check_ties(const Message& message, const std::vector<Ports::Order>& others) = 0;
};

struct RunOptions {
    bool record = false;  // node times and traffic
    bool nodes = false;   // node times
    Tick most = never;    // see FoldOptions
    bool alone = false;   // one member of the plan's first collective runs for all: its messages arrive at itself
    Plugins plugins = {};
    Equals* equals = nullptr;
    Accelerator* accelerator = nullptr;
};

}  // namespace astrarium
