// The events of one NPU: all of one instant run as one batch, where the first of them was scheduled.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "astra/astra_events.hpp"
#include "clock/clock.hpp"

namespace astrarium {

struct NpuEvent {
    std::uint32_t kind, a, b = 0;
};

class NpuEvents {
public:
    NpuEvents(Clock& clock, std::size_t npus) : clock_(clock), batches_(npus) {}

    void after(std::uint32_t npu, Tick delta, NpuEvent event) {
        const Tick time = add(clock_.now, delta);
        std::uint32_t id = free_;
        if (id == none) {
            id = static_cast<std::uint32_t>(pool_.size());
            pool_.emplace_back();
        } else {
            free_ = pool_[id].next;
        }
        pool_[id] = {none, event};
        auto& open = batches_[npu];
        for (Batch& batch : open) {
            if (batch.time != time) continue;
            pool_[batch.tail].next = id;
            batch.tail = id;
            return;
        }
        open.push_back({time, id, id});
        clock_.at(time, {astra_event::npu_batch, npu, 0});
    }

    // The NPU's batch of this instant, each event through `handle`.
    template <class Handle>
    void run(std::uint32_t npu, Handle&& handle) {
        std::uint32_t id = none;
        for (const Batch& batch : batches_[npu])
            if (batch.time == clock_.now) id = batch.head;
        for (;;) {
            handle(NpuEvent(pool_[id].event));
            const std::uint32_t next = pool_[id].next;  // handling may have appended
            pool_[id].next = free_;
            free_ = id;
            if (next == none) break;
            id = next;
        }
        auto& open = batches_[npu];
        for (std::size_t i = 0; i < open.size(); ++i) {
            if (open[i].time != clock_.now) continue;
            open[i] = open.back();
            open.pop_back();
            return;
        }
    }

private:
    static constexpr std::uint32_t none = 0xffffffffu;
    struct Listed {
        std::uint32_t next;
        NpuEvent event;
    };
    struct Batch {
        Tick time;
        std::uint32_t head, tail;
    };
    Clock& clock_;
    std::vector<Listed> pool_;
    std::uint32_t free_ = none;
    std::vector<std::vector<Batch>> batches_;
};

}  // namespace astrarium
