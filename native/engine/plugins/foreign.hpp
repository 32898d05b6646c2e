// How plug-ins take part in a run: a foreign network on a clock of its own, remote memory, a scheduling policy.
#pragma once
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "plugins/growth.hpp"
#include "plan/plan.hpp"

namespace astrarium {

// A plug-in broke its contract, or says that it failed; the message names the plug-in.
struct PluginFault : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// One sim_send or sim_recv as the plug-in sees it. `token` is its callback.
struct ForeignMessage {
    std::uint64_t token = 0;
    std::int64_t size = 0;
    std::int32_t source = 0, destination = 0;  // NPUs
    std::int64_t tag = 0;
};

// What a plug-in may ask of the run. All throw PluginFault.
class ForeignHost {
public:
    virtual ~ForeignHost() = default;
    virtual Tick now() const = 0;
    virtual void over(std::uint64_t token) = 0;                  // the callback of a send or a receive, once
    virtual void schedule(Tick delta, std::uint32_t timer) = 0;  // `fire(timer)` then
};

// A network plug-in. It runs only when called: the engine owns the loop.
class ForeignNetwork {
public:
    virtual ~ForeignNetwork() = default;
    virtual const std::string& name() const = 0;
    virtual void attach(ForeignHost* host) = 0;  // null: the run is over, no callback may reach it
    virtual void send(const ForeignMessage& message) = 0;
    virtual void receive(const ForeignMessage& message) = 0;
    virtual Tick next_event_time() = 0;  // `never`: nothing to come
    virtual void advance(Tick to) = 0;
    virtual Tick time() = 0;
    virtual void fire(std::uint32_t timer) = 0;
    virtual std::uint64_t patience() const = 0;  // steps of its clock without a callback, after which the run is a stall
};

class ForeignMemory {
public:
    virtual ~ForeignMemory() = default;
    virtual Tick access(std::uint32_t rank, std::int64_t size, Tick now) = 0;  // how long it takes, queueing included
};

class ForeignScheduler {
public:
    virtual ~ForeignScheduler() = default;
    // Which of the ready nodes (ids ascending, two or more) of a lane goes next: an index into `nodes`.
    virtual std::size_t pick(std::uint32_t rank, int lane, const std::vector<std::uint64_t>& nodes, Tick now) = 0;
};

// Those of one run; null where the engine's own serve.
struct Plugins {
    ForeignNetwork* network = nullptr;
    ForeignMemory* memory = nullptr;
    ForeignScheduler* scheduler = nullptr;
    Growth* growth = nullptr;  // of a workload that decides as it runs
};

Outcome run_with(const Plan& plan, bool record, const Plugins& plugins);  // native rule book, every rank
// A plan of empty programs, one per rank, which `source` fills as they run; times [nodes in order of hand-out].
Outcome run_source(Plan& plan, ForeignWork& source, Plugins plugins);

}  // namespace astrarium
