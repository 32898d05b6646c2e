// ASTRA-sim's rule book put together: ranks, their collectives, the mail between them, one network, one clock.
#pragma once
#include <cstdint>
#include <string>

#include "astra/astra_collectives.hpp"
#include "astra/astra_events.hpp"
#include "astra/astra_messages.hpp"
#include "astra/astra_network.hpp"
#include "astra/astra_rank.hpp"
#include "astra/astra_remote.hpp"
#include "astra/astra_ties.hpp"
#include "astra/npu_events.hpp"
#include "clock/clock.hpp"
#include "plan/plan.hpp"
#include "plan/run.hpp"

namespace astrarium {

// A run: first scheduled, first run within an instant. Every rule is one that ASTRA-sim was measured to follow.
class AstraEngine final : NodeStarter, DoneListener {
public:
    enum class Runs { every_rank, members, one_member };  // the latter two of one collective by itself, see Alone

    AstraEngine(const Plan& plan, bool record, Runs runs);
    AstraEngine(const AstraEngine&) = delete;
    Outcome run();
    Alone run_members();
    Alone run_one_member();

private:
    void start(std::uint32_t rank, std::uint32_t node) override;
    void ended(Done done) override;
    void run_clock();
    void handle(const Event& event);
    void handle_npu(const NpuEvent& event);
    Outcome outcome();
    Alone alone();
    void explain_stall() const;
    Wait wait_of(std::uint32_t rank) const;

    const Plan& plan_;
    const bool record_, one_member_;
    Tick ended_ = -1;  // the one member
    Clock clock_;
    Ties ties_;
    NpuEvents events_;
    AstraNetwork network_;
    AstraMail mail_;
    AstraCollectives collectives_;
    AstraRemote remote_;
    AstraRanks ranks_;
};

}  // namespace astrarium
