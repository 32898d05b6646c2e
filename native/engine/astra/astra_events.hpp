// What can happen in a run under ASTRA-sim's rule book, and what an ending ends (a node, or a member of a collective).
#pragma once
#include <cstdint>

namespace astrarium {

// Kinds of the events on the run's clock.
namespace astra_event {
enum : std::uint32_t {
    npu_batch,        // a: NPU; its events of this instant
    chunk_arrives,    // a: stream, b: phase number << 32 | source; without rendezvous
    chunk_received,   // a: stream; the message of a receive was there before it
    message_arrives,  // a: entry of AstraMail
    done_due,         // a: see AstraMail::due
    next_hop,         // a: message of AstraLinks
    link_free         // a: link of AstraLinks
};
}

// Kinds of the events in an NPU's batch (NpuEvents).
namespace npu_event {
enum : std::uint32_t {
    node_done,    // a: rank, b: node
    crossed,      // a: stream, b: whether a reduction follows; a packet has crossed the endpoint
    remote_free,  // a: port of AstraRemote
    custom_done,  // a: stream, b: node of its custom program
    bus           // a: rank, b: see Bus::run
};
}

// Whom to tell that something has ended: a message, a collective, a delay.
struct Done {
    enum What : std::uint8_t { nothing, node, stream, request_in, request_out, custom } what = nothing;
    std::uint32_t a = 0, b = 0;  // node: rank, node; stream: stream; request_*: of AstraMail; custom: stream, node
};

class DoneListener {
public:
    virtual void ended(Done done) = 0;  // a node, stream or custom node

protected:
    ~DoneListener() = default;
};

}  // namespace astrarium
