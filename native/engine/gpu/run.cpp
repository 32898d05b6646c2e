// The run: every GPU goes through a window that is as long as the latency of a link; then packets change GPUs.
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "clock/crew.hpp"
#include "clock/interrupt.hpp"
#include "gpu/launch.hpp"
#include "gpu/units.hpp"

namespace astrarium::gpu {
namespace {

// By GPU, workgroup and wavefront: the lowest flagged line that it waits for, and the distance of the line's GPU.
using Readers = std::map<std::array<std::uint32_t, 3>, std::pair<std::int64_t, std::int64_t>>;

// What a packet needs from one station to the next, at least: a way on the chip, or a link of the mesh.
Tick shortest(const Machine& m) { return std::min(m.mesh_data ? std::min(m.enter, m.hop) : m.enter, m.link_latency); }

class Gpu {
public:
    Gpu(const Launch& launch, std::uint32_t number)
        : queue(shortest(launch.machine)), flights(queue), chip(launch, queue, flights), units(launch, number, queue, chip, flights),
          number_(number) {}

    Queue queue;
    Instructions flights;
    Chip chip;
    Units units;

    std::uint64_t handled = 0;  // events

    // The first window in which something happens here, or at a GPU to which this one sent in the last window of a link.
    std::int64_t next() const {
        const Tick soonest = chip.boxes.soonest;
        return std::min(coming(), soonest == never ? Queue::nothing : queue.window_of(soonest));
    }

    // All events of windows before `until`. `asks`: whether the run may be interrupted here.
    void run(std::int64_t until, bool asks) {
        for (std::int64_t window = coming(); window < until; window = coming()) {
            if (asks && (handled ^ asked_) >> 16) asked_ = handled, stop_if_interrupted();
            queue.open(window);
            handled += batch(Stage::channel, [this](const Event& event) { chip.channel(event); });
            handled += batch(Stage::out, [this](const Event& event) { chip.out(event); });
            handled += batch(Stage::in, [this](const Event& event) { chip.into(event); });
            handled += batch(Stage::hop, [this](const Event& event) { chip.hop(event); });
            handled += batch(Stage::unit, [this](const Event& event) { chip.unit(event); });
            handled += chip.take_turns(queue.begin_of(window + 1));
            for (Event event; queue.pop(event); ++handled) {
                chip.now = event.time;
                work(event);
            }
        }
    }

    void waits(const Readers& readers, std::vector<Wait>& into) const;

private:
    std::uint32_t number_;
    std::uint64_t asked_ = 0;

    // The next window in which an event or a turn of a port is.
    std::int64_t coming() const {
        return std::min(queue.next(), chip.next_turn == never ? Queue::nothing : queue.window_of(chip.next_turn));
    }

    template <class Handle>
    std::size_t batch(Stage stage, Handle&& handle) {
        const std::span<const Event> packets = queue.packets(stage);
        for (const Event& event : packets) {
            chip.now = event.time;
            handle(event);
        }
        return packets.size();
    }

    void work(const Event& event) {
        if (event.stage() == Stage::done) return units.done(event.instruction);
        if (event.stage() == Stage::timer) return units.timer(event.instruction);
        units.start(event.instruction);
    }
};

// One wait per workgroup and operation: for the lowest line, else for a semaphore, else for room to issue.
void Gpu::waits(const Readers& readers, std::vector<Wait>& into) const {
    std::map<std::pair<std::uint32_t, std::uint32_t>, Wait> found;
    units.each_unfinished([&](const Work& work, const Wavefront& f) {
        const Operation* op = units.operation(f);
        if (!op || (f.phase == Phase::control && (f.index || work.arrived < work.wavefronts))) return;
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

// All GPUs through windows of the latency of a link. What one does in such a window reaches others after it, so threads take one GPU after
// the other, empty the boxes that were sent to it in the window before, and run it alone.
class Windows {
public:
    Windows(const Launch& launch, Gpus& gpus, std::size_t threads)
        : launch_(launch), gpus_(gpus), links_(launch.machine.link_latency / gpus[0]->queue.begin_of(1)),
          crew_(std::min(threads, gpus.size())) {}

    void run() {
        const std::function<void(std::size_t)> work = [this](std::size_t thread) { some(thread == 0); };
        for (std::size_t turn = 0;; turn = 1 - turn) {
            std::int64_t first = Queue::nothing;
            for (const auto& gpu : gpus_) first = std::min(first, gpu->next());
            if (first == Queue::nothing) return;
            turn_ = turn, until_ = first + links_, taken_.store(0, std::memory_order_relaxed);
            for (const auto& gpu : gpus_) gpu->chip.boxes.turn(turn);
            crew_.run(work);
        }
    }

private:
    const Launch& launch_;
    Gpus& gpus_;
    const std::int64_t links_;  // windows of a chip in one of a link
    Crew crew_;
    std::size_t turn_ = 0;
    std::int64_t until_ = 0;
    std::atomic<std::size_t> taken_{0};

    void some(bool asks) {
        for (std::size_t i; (i = taken_.fetch_add(1, std::memory_order_relaxed)) < gpus_.size();) {
            Gpu& gpu = *gpus_[i];
            for (std::uint32_t d = 0; d < launch_.gpus; ++d) {  // 0: copies of the switch for this GPU
                Gpu& from = *gpus_[gpus_.size() == 1 ? 0 : (i + launch_.gpus - d) % launch_.gpus];
                gpu.chip.boxes.take(from.chip.boxes, d, [&](const Event& event) { gpu.queue.push(event); });
            }
            gpu.run(until_, asks);
        }
    }
};

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
        gpu->waits(readers, into.waits);
        into.undispatched += gpu->units.undispatched();
        gpu->units.report(into.gpus.emplace_back());
    }
}

}  // namespace

Finished run(const Launch& launch, bool fold, std::size_t threads) {
    Gpus gpus;
    for (std::uint32_t i = 0; i < (fold ? 1 : launch.gpus); ++i) {
        gpus.push_back(std::make_unique<Gpu>(launch, i));
        gpus.back()->units.begin(launch.start(i));
    }
    Windows(launch, gpus, threads).run();
    Finished finished;
    for (const auto& gpu : gpus) finished.events += gpu->handled;
    finish(launch, gpus, finished);
    return finished;
}

}  // namespace astrarium::gpu
