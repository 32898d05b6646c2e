// Sends that wait for their turn at a link: what they wait for is known as they are released, so a message exists only from its turn
// on. 8,192 NPUs that send to each other have 67 million messages to send, and 8,192 on their way.
#pragma once
#include <vector>

#include "run/instance.hpp"
#include "run/messages.hpp"

namespace astrarium {

class Collectives;

class Turns {
public:
    Turns(const Plan& plan, Collectives& collectives, Messages& messages, BatchClock& clock)
        : cut_through_(plan.network.cut_through), pulls_(plan.network.medium->pulls && plan.network.medium->pulls(plan.network)),
          collectives_(collectives), messages_(messages), clock_(clock) {}
    // Sends `number` to `end` of a participant ask for their links.
    void queue(std::uint32_t instance, std::uint32_t state, std::uint32_t number, std::uint32_t end);
    // The next message of a queue, which leaves in its turn.
    void send_next(std::uint32_t queue);
    MessageId pull_next(std::uint32_t queue);  // of a medium that pulls
    void write(StateWords& to, std::uint32_t queue) const;

private:
    struct Queue {  // sends of a participant that wait for one link, `left` of them from `next` on
        std::uint32_t instance = 0, state = 0, next = 0, left = 0;
        Medium::Turn turn;  // of the next one
    };
    void line_up(std::uint32_t instance, std::uint32_t state, std::uint32_t number, std::uint32_t end);
    std::uint32_t keep(const Queue& queue);
    void step(Queue& queue, const Sender& from) const;  // to the next send for the same link

    const bool cut_through_, pulls_;
    Collectives& collectives_;
    Messages& messages_;
    BatchClock& clock_;
    std::vector<Queue> queues_;
    std::vector<std::uint32_t> free_;
};

}  // namespace astrarium
