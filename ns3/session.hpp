// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// One run: messages are sent at their times, ns-3 runs as far as it is told, and what was delivered is said. Also said is a time
// before which nothing will be delivered, so that the other side need not ask at each event of ns-3.
#pragma once
#include <queue>
#include <utility>

#include "transport.hpp"

namespace bridge {

struct Delivery {
    std::uint64_t id;
    Tick at;
};

class Session {
public:
    Session(Frame& topology, const Pipe& pipe);
    void ways(Frame& given) { fabric_->give(given); }  // that packets between two NPUs take from now on
    void step(Frame& asked);                           // runs up to a time, and writes deliveries and the next bound

private:
    struct Due {
        Tick bound;
        std::uint32_t message;
        std::uint64_t id;
        bool operator>(const Due& other) const { return std::pair(bound, id) > std::pair(other.bound, other.id); }
    };
    void send(Frame& asked);
    void delivered(std::uint32_t message);
    void failed(const std::string& why);
    Tick next();  // no open message is delivered sooner; later than now
    void say();
    void pulse();

    const Pipe& pipe_;
    Clock clock_;
    Settings settings_;
    std::unique_ptr<Fabric> fabric_;
    std::unique_ptr<Transport> transport_;
    Messages messages_;
    std::vector<std::uint32_t> free_;
    std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
    std::vector<Delivery> done_;
    std::string failure_;
    Tick now_ = 0;
    std::int64_t last_pulse_ = 0;  // ms of wall time
};

}  // namespace bridge
