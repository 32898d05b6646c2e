// Long runs without the GIL still end on Ctrl-C, or at a limit, and say how far they are: the clocks ask now and then.
#pragma once
#include <atomic>
#include <cstdint>

namespace astrarium {

// What ends the runs of several threads: `stopped`, from any of them. How far they are: the simulated time in ps, and the events (at a
// network of packets: those and the packets that took a link) of all runs so far.
struct Limit {
    std::atomic<bool> stopped{false};
    std::atomic<std::int64_t> now{0};
    std::atomic<std::uint64_t> events{0};
};

// Runs of this thread end once `limit` (null: none) is stopped, or at `until` (ns of the thread's CPU clock; 0: never).
void limit_thread(Limit* limit, std::int64_t until);

// Says to this thread's limit, where it has one, that its run is at `now` after `more` events.
void count_progress(std::int64_t now, std::uint64_t more);

// Throws Python's exception when a signal handler has raised one, or when this thread's runs are to end. Defined where the
// interpreter is known.
void stop_if_interrupted();

}  // namespace astrarium
