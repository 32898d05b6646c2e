// Sends and receives of ASTRA-sim's rule book: the i-th send of a key meets the i-th receive of that key.
#pragma once
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "astra/astra_events.hpp"
#include "astra/astra_network.hpp"
#include "clock/clock.hpp"
#include "nodes/message_key.hpp"
#include "plan/plan.hpp"

namespace astrarium {

class AstraMail {
public:
    AstraMail(const Plan& plan, Clock& clock, AstraNetwork& network, DoneListener& listener);

    // `sent` when the message has arrived, `received` when it has and was asked for. With rendezvous a receive first sends a request,
    // and the send waits for it. Throw BadTrace for ends that cannot be.
    void send(const MessageKey& key, Done sent);
    void receive(const MessageKey& key, Done received);

    void arrived(std::uint32_t entry);  // astra_event::message_arrives
    void due(std::uint32_t number);     // astra_event::done_due

    std::vector<std::uint32_t> unsent(std::uint32_t rank) const;  // its nodes that wait for a send

private:
    struct Entry {  // one message
        Done sent, received;
        bool arrived = false, wanted = false;
    };
    struct Lane {                                          // the messages of one key
        std::uint32_t sends = 0, receives = 0, first = 0;  // number of the first entry
        std::deque<std::uint32_t> entries;
    };
    struct Pending {  // a message that waits for its rendezvous
        MessageKey key;
        Done done;
    };
    void check(const MessageKey& key) const;
    void send_now(const MessageKey& key, Done sent);
    void receive_now(const MessageKey& key, Done received);
    std::uint32_t entry(Lane& lane, std::uint32_t number);
    void tell(Done done);

    const Plan& plan_;
    Clock& clock_;
    AstraNetwork& network_;
    DoneListener& listener_;
    std::unordered_map<MessageKey, Lane, MessageKeyHash> lanes_;
    std::vector<Entry> entries_;
    std::vector<Done> due_;
    std::vector<std::uint32_t> free_entries_, free_due_;
    std::vector<Pending> pending_;
};

}  // namespace astrarium
