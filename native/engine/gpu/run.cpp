// The run: every GPU goes through a window that is as long as the latency of a link; then packets change GPUs.
#include <map>
#include <memory>
#include <utility>

#include "clock/interrupt.hpp"
#include "gpu/launch.hpp"
#include "gpu/units.hpp"

namespace astrarium::gpu {
namespace {

// By GPU, workgroup and wavefront: the lowest flagged line that it waits for, and the distance of the line's GPU.
using Readers = std::map<std::array<std::uint32_t, 3>, std::pair<std::int64_t, std::int64_t>>;

class Gpu {
public:
    Gpu(const Launch& launch, std::uint32_t number)
        : queue(2 * launch.machine.link_latency >> 13), flights(queue), chip(launch, queue, flights),
          units(launch, number, queue, chip, flights), number_(number) {}

    Queue queue;
    Instructions flights;
    Chip chip;
    Units units;

    // All events before `until`; their number.
    std::uint64_t run(Tick until) {
        std::uint64_t handled = 0;
        for (Event event; queue.pop(until, event);) {
            if ((++handled & 0xffff) == 0) stop_if_interrupted();
            chip.now = event.time;
            handle(event);
        }
        return handled;
    }

    void waits(const Readers& readers, std::uint32_t wavefronts, std::vector<Wait>& into) const;

private:
    std::uint32_t number_;

    void handle(const Event& event) {
        switch (event.stage()) {
            case Stage::done: return units.done(event.instruction);
            case Stage::timer: return units.timer(event.instruction);
            case Stage::start: return units.start(event.instruction);
            case Stage::channel: return chip.channel(event);
            case Stage::out: return chip.out(event);
            case Stage::in: return chip.into(event);
            case Stage::unit: return chip.unit(event);
            case Stage::hop: return chip.hop(event);
        }
    }
};

// One wait per workgroup and operation: for the lowest line, else for a semaphore, else for room to issue.
void Gpu::waits(const Readers& readers, std::uint32_t wavefronts, std::vector<Wait>& into) const {
    std::map<std::pair<std::uint32_t, std::uint32_t>, Wait> found;
    units.each_unfinished([&](const Work& work, const Wavefront& f) {
        const Operation* op = units.operation(f);
        if (!op || (f.phase == Phase::control && (f.index || work.arrived < wavefronts))) return;
        Wait wait{number_, work.number, f.pc, on_room, 0, 0};
        const auto reader = readers.find({number_, f.work, f.index});
        if (f.cursor == f.count && f.phase == Phase::control) wait.line = on_semaphore, wait.value = chip.count(op->semaphore);
        if (f.cursor == f.count && f.phase == Phase::load && reader != readers.end())
            wait.line = reader->second.first, wait.peer = reader->second.second;
        const auto [known, first] = found.try_emplace({work.number, f.pc}, wait);
        if (!first && wait.line >= 0 && (known->second.line < 0 || wait.line < known->second.line)) known->second = wait;
    });
    for (const auto& [where, wait] : found) into.push_back(wait);
}

using Gpus = std::vector<std::unique_ptr<Gpu>>;

void finish(const Launch& launch, const Gpus& gpus, Finished& into) {
    Readers readers;
    for (std::uint32_t i = 0; i < gpus.size(); ++i)
        gpus[i]->chip.each_reader([&](const Event& event) {
            const auto work = static_cast<std::uint32_t>(event.key >> work_bit & 0x3fff),
                       index = static_cast<std::uint32_t>(event.key >> wavefront_bit & 0x1f);
            const std::uint32_t home = gpus.size() == 1 ? 0 : (i + event.origin()) % launch.gpus;
            const std::pair<std::int64_t, std::int64_t> here{event.line, (launch.gpus - event.origin()) % launch.gpus};
            const auto [known, first] = readers.try_emplace({home, work, index}, here);
            if (!first) known->second = std::min(known->second, here);
        });
    for (const auto& gpu : gpus) {
        gpu->waits(readers, launch.wavefronts, into.waits);
        into.undispatched += gpu->units.undispatched();
        gpu->units.report(into.gpus.emplace_back());
    }
}

}  // namespace

Finished run(const Launch& launch, bool fold) {
    Gpus gpus;
    for (std::uint32_t i = 0; i < (fold ? 1 : launch.gpus); ++i) {
        gpus.push_back(std::make_unique<Gpu>(launch, i));
        gpus.back()->units.begin(launch.start(i));
    }
    Finished finished;
    while (true) {
        Tick first = never;
        for (const auto& gpu : gpus) first = std::min(first, gpu->queue.next());
        if (first == never) break;
        for (std::size_t i = 0; i < gpus.size(); ++i) {
            finished.events += gpus[i]->run(add(first, launch.machine.link_latency));
            for (const Crossing& it : gpus[i]->chip.crossings) gpus[fold ? 0 : (i + it.distance) % launch.gpus]->queue.push(it.event);
            gpus[i]->chip.crossings.clear();
        }
    }
    finish(launch, gpus, finished);
    return finished;
}

}  // namespace astrarium::gpu
