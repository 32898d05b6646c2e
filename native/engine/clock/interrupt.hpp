// Long runs without the GIL still end on Ctrl-C, or at a limit: the clocks ask now and then.
#pragma once
#include <atomic>
#include <cstdint>

namespace astrarium {

// What ends the runs of several threads: `stopped`, from any of them.
struct Limit {
    std::atomic<bool> stopped{false};
};

// Runs of this thread end once `limit` (null: none) is stopped, or at `until` (ns of the thread's CPU clock; 0: never).
void limit_thread(const Limit* limit, std::int64_t until);

// Throws Python's exception when a signal handler has raised one, or when this thread's runs are to end. Defined where the
// interpreter is known.
void stop_if_interrupted();

}  // namespace astrarium
