// An NPU's door to the network: each packet of a machine crosses it, by a fixed delay or over the shared local bus.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>

#include "astra/astra_bus.hpp"
#include "astra/astra_stream.hpp"
#include "astra/npu_events.hpp"
#include "clock/clock.hpp"
#include "plan/plan.hpp"

namespace astrarium {

class Door {
public:
    // `crossed`: of a packet that the bus has carried, as npu_event::crossed says it of others.
    Door(const Plan& plan, std::size_t ranks, Clock& clock, NpuEvents& events, Bus::Finish crossed);

    // A packet of a stream crosses, to the memory agent or from it; then npu_event::crossed, or `crossed`.
    void cross(const Stream& s, bool to_agent, bool reduces, bool sends_back, std::int64_t size) {
        if (!buses_.empty() && !is_fixed(s)) return buses_[s.rank].request(to_agent, size, reduces, sends_back, s.id, clock_.now);
        events_.after(s.rank, delay(s), {npu_event::crossed, s.id, reduces});
    }
    void reduce(const Stream& s) { events_.after(s.rank, s.reduce_delay, {npu_event::crossed, s.id, 0}); }  // a packet that has crossed
    void run_bus(std::uint32_t rank, std::uint32_t code) { buses_[rank].run(code, clock_.now); }

    Tick delay(const Stream& s) const { return is_fixed(s) ? 10000 : plan_.policy.endpoint_delay; }
    Tick reduction(const Stream& s, std::int64_t size) const;  // how long a packet's takes

private:
    static bool is_fixed(const Stream& s) { return s.local && s.phase->algorithm != Algorithm::double_binary_tree; }

    const Plan& plan_;
    Clock& clock_;
    NpuEvents& events_;
    std::deque<Bus> buses_;  // per rank, or none
};

}  // namespace astrarium
