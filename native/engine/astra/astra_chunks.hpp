// Messages of chunks. Without rendezvous no key is needed: the message goes to the stream of the same chunk at its destination,
// which counts what came from each source against the receives that were posted.
#pragma once
#include <cstdint>
#include <vector>

#include "astra/astra_meetings.hpp"
#include "astra/astra_messages.hpp"
#include "astra/astra_network.hpp"
#include "astra/astra_ties.hpp"
#include "clock/clock.hpp"
#include "plan/plan.hpp"

namespace astrarium {

class ChunkMail {
public:
    ChunkMail(const Plan& plan, Clock& clock, AstraNetwork& network, AstraMail& mail, AstraMeetings& meetings, Ties& ties)
        : plan_(plan), clock_(clock), network_(network), mail_(mail), meetings_(meetings), ties_(ties) {}

    // To a place of the stream's ring, and from one; `source` tells a phase's receives apart, the same at both ends.
    void send(Stream& s, std::uint32_t place, std::uint32_t source, std::int64_t size) {
        const std::uint32_t to = meetings_.rank_at(s, place);
        if (plan_.policy.rendezvous) return mail_.send({tag(s), size, s.rank, to}, {});
        const Event then{astra_event::chunk_arrives, meetings_.stream_at(s, place),
                         static_cast<std::uint64_t>(s.phase_number) << 32 | source};
        const std::uint32_t from_npu = npu(s.rank), to_npu = npu(to);
        if (!network_.only_delays()) return network_.carry(from_npu, to_npu, size, then);
        if (s.phase->algorithm != Algorithm::ring || s.delay < 0) s.delay = network_.delay(from_npu, to_npu, size);
        clock_.after(s.delay, then);
    }

    void receive(const Stream& s, std::uint32_t place, std::uint32_t source, std::int64_t size) {
        if (plan_.policy.rendezvous) return mail_.receive({tag(s), size, meetings_.rank_at(s, place), s.rank}, {Done::stream, s.id, 0});
        if (meetings_.surplus(s, static_cast<std::uint32_t>(s.phase_number), source)-- > 0)
            clock_.after(0, {astra_event::chunk_received, s.id, 0});
    }

    // A message is at its destination: whether a receive waited for it.
    bool arrived(const Stream& s, std::uint32_t phase, std::uint32_t source) {
        if (ties_.watched && s.begun == clock_.now) ties_.found = true;  // whether the chunk had begun yet would be a choice
        if (meetings_.surplus(s, phase, source)++ >= 0) return false;
        if (ties_.watched) note(s, source);
        return true;
    }
    // A receive was posted for a message that was there.
    void received(const Stream& s) {
        if (ties_.watched) note(s, 0xffffffffu);
    }

private:
    struct Arrival {  // the last instant at which chunks of a rank received messages
        Tick instant = -1;
        std::uint32_t stream = 0, source = 0;
        bool streams = false, sources = false;  // several of them
    };
    std::uint32_t npu(std::uint32_t rank) const { return static_cast<std::uint32_t>(plan_.npu_of[rank]); }
    std::int64_t tag(const Stream& s) const { return -1 - (static_cast<std::int64_t>(meetings_.of(s).serial) << 24 | s.chunk); }
    void note(const Stream& s, std::uint32_t source);

    const Plan& plan_;
    Clock& clock_;
    AstraNetwork& network_;
    AstraMail& mail_;
    AstraMeetings& meetings_;
    Ties& ties_;
    std::vector<Arrival> last_;  // per rank, where links are shared and ties watched
};

}  // namespace astrarium
