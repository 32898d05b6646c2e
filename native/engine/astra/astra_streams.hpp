// The queues of the NPUs: each dim has `queues_per_dim`, each queue runs a few streams at a time.
#pragma once
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "astra/astra_meetings.hpp"
#include "astra/astra_stream.hpp"
#include "astra/astra_ties.hpp"
#include "clock/clock.hpp"
#include "plan/plan.hpp"

namespace astrarium {

// Hands out the queues of each dim in turn, and the trees; the second half of the queues runs its rings the other way round.
class Picker {
public:
    Picker(const Plan& plan, std::size_t ranks);
    Route take(std::uint32_t rank, int op, const Phase& phase);  // `op` of the collective

private:
    struct Turns {
        std::uint32_t any = 0, first = 0, last = 0;  // queue of the dim that is next, by Pick
    };
    std::uint32_t queues_;  // per dim
    std::size_t dims_;
    std::vector<Turns> turns_;         // [rank * dims + dim]
    std::vector<std::uint8_t> trees_;  // [rank][op][dim]
};

// Streams that came to a queue at one instant: their order is a choice unless they start together.
class QueueTies {
public:
    QueueTies(const Streams& streams, std::uint32_t queues, const Clock& clock, Ties& ties)
        : streams_(streams), queues_(queues), clock_(clock), ties_(ties) {}
    void entered(std::size_t queue, std::uint32_t stream);
    void before_start() {
        if (!tied_.empty()) settle();
    }

private:
    struct Tied {
        std::size_t queue;
        Tick instant;
        std::vector<std::uint32_t> streams;
    };
    struct Entry {
        Tick instant = -1;
        std::uint32_t stream = 0;
    };
    void settle();

    const Streams& streams_;
    const std::uint32_t queues_;  // of a rank
    const Clock& clock_;
    Ties& ties_;
    std::vector<Tied> tied_;
    std::vector<Entry> last_;  // per queue
    Tick settled_ = -1;
};

// Which streams wait in each queue, by priority, then in order of arrival, and how many run.
class Queues {
public:
    Queues(const Plan& plan, std::size_t ranks, Streams& streams, const Clock& clock, Ties& ties);

    // `together`: with others of its rank in an order that is no choice.
    void enter(Stream& stream, bool together);
    void leave(std::uint32_t rank, std::uint32_t queue) { --running_[at(rank, queue)]; }

    // Starts streams of a queue as long as it has room.
    template <class Start>
    void fill(std::uint32_t rank, std::uint32_t queue, Start&& start) {
        const std::size_t number = at(rank, queue);
        if (ties_.watched) queue_ties_.before_start();
        while (running_[number] < limit_ && !waiting_[number].empty()) {
            Waiting& best = waiting_[number].back();
            Stream& stream = streams_[best.first];
            best.first = stream.next;
            if (best.first == none) waiting_[number].pop_back();
            stream.started = true;
            start(stream);
            ++running_[number];
        }
    }

    std::uint32_t running() const { return std::accumulate(running_.begin(), running_.end(), 0u); }  // streams of all ranks

private:
    static constexpr std::uint32_t none = 0xffffffffu;
    struct Waiting {  // the streams of one priority, in order of arrival
        std::int32_t priority;
        std::uint32_t first, last;
    };
    std::size_t at(std::uint32_t rank, std::uint32_t queue) const { return static_cast<std::size_t>(rank) * queues_ + queue; }

    Streams& streams_;
    Ties& ties_;
    const std::uint32_t queues_, limit_;  // of a rank; streams that run in a queue
    QueueTies queue_ties_;
    std::vector<std::vector<Waiting>> waiting_;  // per queue, the highest priority last
    std::vector<std::uint32_t> running_;         // per queue
};

}  // namespace astrarium
