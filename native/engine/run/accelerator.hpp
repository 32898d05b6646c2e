// What leaves work out of a run, as the run sees it: two interfaces. Without them it simulates every rank and every message. What stands
// behind them is in accelerate/.
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
    const bool record, folded;  // folded: one rank per class
    BatchClock& clock;
    Nodes& nodes;
    Messages& messages;
    Post& post;
    RemoteMemory& memory;
    Collectives& collectives;
};

// Times collectives by themselves. None of the messages of such a collective is simulated: its members end when the accelerator says. That
// is exact as long as nothing else uses its ports or links meanwhile; media tell of messages that do (`LinkHolds`). Where one did, the collective
// has *met* others: the run does not count from where it began, and it runs as messages from then on.
class Accelerator {
public:
    struct Member {  // of a collective: number `collective` of the plan, `serial` of its group
        std::uint32_t rank, node, group, position, collective, serial;
    };
    virtual ~Accelerator() = default;

    // A run begins.
    virtual void begin(const Parts& run) = 0;
    // A member comes. True: the collective is timed, and the accelerator ends its members once all have come. False: it runs as messages.
    virtual bool measure(const Member& member) = 0;
    // Whether all that ran so far counts: no timed collective met others.
    virtual bool exact() const = 0;

    // For the period skipper. Since when it matters to collectives whose members come what happened; the state; how many collectives came.
    virtual Tick horizon(Tick now) const = 0;
    virtual void write(StateWords& to) const = 0;
    virtual std::size_t issues() const = 0;
    // Of a period that has just ended: its collectives per group, and how many came. How often it recurs at most; and that it is left out.
    struct Period {
        std::vector<std::uint32_t> serials;
        std::size_t issues = 0;
    };
    virtual std::uint64_t periods_alike(const Period& period, std::uint64_t most) const = 0;
    virtual void skip(const Period& period, std::uint64_t periods) = 0;
};

// One rank runs for each class of equal ranks, in a plan of the classes: who stands for whom.
class Equals {
public:
    virtual ~Equals() = default;
    virtual PortRows rows() const = 0;
    // The place in its own group of the class at a position of the plan's group.
    virtual std::uint32_t place(std::uint32_t group, std::uint32_t position) const = 0;
    // A collective is to run as messages. Throws Unfoldable unless equals do the same in every step.
    virtual void check(const Collective& collective, std::uint32_t group) = 0;
    // Where the sends of a member's chunk go in its phase, the same for all chunks, and which leave as trains; and where that of a node goes.
    virtual const Sends& sends(std::uint32_t group, const ChunkState& chunk) = 0;
    virtual Aim aim(std::uint32_t rank, std::size_t slot) const = 0;
    // A message comes to a port in one instant with others of its order. Throws Unfoldable unless their senders stand in one order for all equals.
    virtual void check_ties(const Message& message, const std::vector<Ports::Order>& others) = 0;
};

struct RunOptions {
    bool record = false;
    bool alone = false;  // one member of the plan's first collective runs for all: its messages arrive at itself
    Plugins plugins = {};
    Equals* equals = nullptr;
    Accelerator* accelerator = nullptr;
};

}  // namespace astrarium
