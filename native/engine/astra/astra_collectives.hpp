// Collectives: a node's chunks become streams, which walk their phases through the queues, a machine in each.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "astra/astra_chunks.hpp"
#include "astra/astra_custom.hpp"
#include "astra/astra_door.hpp"
#include "astra/astra_events.hpp"
#include "astra/astra_halving.hpp"
#include "astra/astra_meetings.hpp"
#include "astra/astra_messages.hpp"
#include "astra/astra_network.hpp"
#include "astra/astra_ring.hpp"
#include "astra/astra_stream.hpp"
#include "astra/astra_streams.hpp"
#include "astra/astra_ties.hpp"
#include "astra/astra_tree.hpp"
#include "astra/npu_events.hpp"
#include "clock/clock.hpp"
#include "plan/plan.hpp"

namespace astrarium {

// What collectives stand on.
struct CollectiveBase {
    const Plan& plan;
    std::size_t ranks;  // that run
    bool alone;         // one member runs, and stands for all
    bool record;
    Clock& clock;
    NpuEvents& events;
    AstraNetwork& network;
    AstraMail& mail;
    Ties& ties;
};

class AstraCollectives {
public:
    // The listener is told of nodes, when the last chunk of their collective has ended at their rank.
    AstraCollectives(const CollectiveBase& base, DoneListener& listener);

    void issue(std::uint32_t rank, std::uint32_t node);
    void issue_alone();  // collectives[0], by its only member

    // Events.
    void arrived(std::uint32_t stream, std::uint32_t phase, std::uint32_t source) {
        if (chunks_.arrived(streams_[stream], phase, source)) received(stream);
    }
    void received_late(std::uint32_t stream) {
        chunks_.received(streams_[stream]);
        received(stream);
    }
    void received(std::uint32_t stream) {
        Stream& s = streams_[stream];
        switch (s.phase->algorithm) {
            case Algorithm::halving_doubling: return halving_.received(s);
            case Algorithm::double_binary_tree:
                if (tree_.received(s)) proceed(stream);
                return;
            default: return ring_.received(s);
        }
    }
    void crossed(std::uint32_t stream, bool reduces) {
        Stream& s = streams_[stream];
        if (reduces) return door_.reduce(s);
        if (machine_crossed(s)) proceed(stream);
    }
    void custom_done(std::uint32_t stream, std::uint32_t node) {
        if (custom_.completed(streams_[stream], node)) proceed(stream);
    }
    void run_bus(std::uint32_t rank, std::uint32_t code) { door_.run_bus(rank, code); }

    void explain(std::uint32_t rank, Wait& wait) const { meetings_.explain(rank, wait); }

private:
    static constexpr std::uint32_t none = 0xffffffffu;

    bool machine_crossed(Stream& s) {
        switch (s.phase->algorithm) {
            case Algorithm::halving_doubling: return halving_.crossed(s);
            case Algorithm::double_binary_tree: return tree_.crossed(s);
            default: return ring_.crossed(s);
        }
    }
    void start_chunks(std::uint32_t meeting, std::uint32_t position, std::uint32_t rank, int priority);
    int next_priority(std::uint32_t rank, int given);
    void proceed(std::uint32_t stream);
    void chunk_ended(std::uint32_t stream);
    void enter_next_phase(Stream& s);
    void enter_machine(Stream& s);
    void start_machine(Stream& s);
    void fill(std::uint32_t rank, std::uint32_t queue) {
        queues_.fill(rank, queue, [this](Stream& s) { start_machine(s); });
    }

    const Plan& plan_;
    Clock& clock_;
    NpuEvents& events_;
    DoneListener& listener_;
    Streams streams_;
    AstraMeetings meetings_;
    Picker picker_;
    Queues queues_;
    Door door_;
    ChunkMail chunks_;
    RingMachine ring_;
    HalvingMachine halving_;
    TreeMachine tree_;
    CustomMachine custom_;
    std::vector<int> priority_;  // per rank: of its next collective, where the policy counts
    bool issuing_ = false;
};

}  // namespace astrarium
