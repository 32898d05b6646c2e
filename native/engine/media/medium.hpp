// What moves bytes: the one interface of ports, links and flows.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace astrarium {

class LinkHolds;
class Traffic;
using MessageId = std::uint32_t;

// A message on its way. Where every rank runs, its two ends are one pair: it leaves `source` for `destination`, and arrives there. Where
// one rank stands for its equals, or one NPU for all, it arrives as an equal's does: at `to`, from `from`.
struct Flight {
    std::int32_t source = 0, destination = 0, from = 0, to = 0;  // NPUs
    std::int32_t at = 0;                                         // where its head is
    bool at_switch = false;                                      // of the dim that it crosses
    bool ends_at_switch = false;                                 // or begins there; known with:
    std::uint16_t left = 0;                                      // links ahead in one direction; 0: not known yet
    std::uint32_t link = 0;                                      // the first of them
    std::int64_t size = 0;
    Tick tail = 0;  // cut through: when its last byte is where its head is
    Flight() = default;
    Flight(std::int32_t leaves, std::int32_t goes_to, std::int64_t bytes)
        : source(leaves), destination(goes_to), from(leaves), to(goes_to), at(leaves), size(bytes) {}
};

// The run, as a medium sees it.
class Carried {
public:
    virtual ~Carried() = default;
    virtual Flight& flight(MessageId id) = 0;
    virtual void ask_again(MessageId id, Tick when) = 0;  // among what arrives in that instant
    virtual void deliver(MessageId id, Tick when) = 0;
    // The medium itself is called in that instant: before or after all else that ends, or once all has begun.
    enum class Turn { before, after, end };
    virtual void wake(std::uint32_t what, Tick when, Turn turn) = 0;
    virtual Tick now() const = 0;
    // For media that pull (MediumKind::pulls): the message that waited behind this one for the same link, made now; or no_message.
    static constexpr MessageId no_message = 0xffffffffu;
    virtual MessageId follow(MessageId id) = 0;
    // For media that are told of both ends: what a send and its receive have in common, and which of them a message is.
    static constexpr std::int64_t first_tag_of_collectives = std::int64_t{1} << 40;
    virtual std::int64_t tag(MessageId id) const = 0;
    virtual bool receives(MessageId id) const = 0;
};

// One of a run. Knows nothing of ranks, collectives and nodes.
class Medium {
public:
    virtual ~Medium() = default;
    // A message asks for its source now; where the medium said so, again for what comes next. Not of one in which messages queue.
    virtual void ask(MessageId, Tick) { refuse("a medium that takes no messages"); }
    virtual void wake(std::uint32_t what, Tick now) = 0;
    virtual Traffic* traffic() = 0;         // null: it counts none
    virtual void report(Outcome&) const {}  // what it measured beside traffic
    // Of a medium in which messages queue at links (MediumKind::queues): when links are free, which is all of its state, so that periods of
    // a run can be recognised; a turn at the first link, and when a message that leaves in its turn is at the next device.
    virtual std::vector<Tick> free_times() const { return {}; }
    struct Turn {
        std::size_t link = 0;
        Tick start = 0, serial = 0;
        Tick gives_up = never;  // when it goes another way instead: the link fails
    };
    // A link further, in its turn: when it is at the next device, or asks for another way where it is.
    virtual Tick pass(Flight&, Tick) { return 0; }
    virtual Turn reserve(const Flight&, Tick) { return {}; }
    virtual std::size_t first_link(const Flight&) const { return 0; }  // of one that pulls, too
    virtual Tick leave(Flight&, const Turn&) { return 0; }

    // Of a medium with a clock of its own (MediumKind::own_clock). It runs only when called.
    virtual void begin() {}
    virtual Tick next(Tick) { return never; }  // when it has something to do
    virtual void run(Tick) {}                  // does all up to then
    virtual bool busy() const { return false; }
    virtual std::uint64_t patience() const {
        return ~std::uint64_t{0};
    }  // steps without an end of a message, after which the run is a stall
    virtual std::vector<std::string> waits(Tick, std::uint64_t) const { return {}; }  // what it has that never ended

    // Of a medium that queues: from now on it tells which links messages ask for.
    virtual void watch(LinkHolds&) {}
};

// By name; null where there is none. One more medium is a file with a `Registered` of its own.
const MediumKind* find_medium(std::string_view name);

struct Registered {
    explicit Registered(const MediumKind& kind);
};

template <class Of>
std::unique_ptr<Medium> open_as(const Plan& plan, bool record, Carried& run) {
    return std::make_unique<Of>(plan, record, run);
}

}  // namespace astrarium
