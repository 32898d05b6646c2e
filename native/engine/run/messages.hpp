// The messages of a native run, from when they are posted until they are delivered: a medium carries them.
#pragma once
#include <memory>
#include <tuple>
#include <utility>

#include "clock/batches.hpp"
#include "media/medium.hpp"
#include "media/ports.hpp"
#include "nodes/pool.hpp"
#include "run/accelerator.hpp"
#include "run/what.hpp"

namespace astrarium {

// What a step further needs stands in the first of two cache lines.
struct alignas(64) Message {
    Flight flight;
    enum For : std::uint8_t { node, chunk, custom, access } purpose = node;
    bool receives = false;          // foreign networks only: a receive that waits for its message
    bool to_switch = false;         // chunk: that computes
    std::uint32_t queue = nothing;  // of sends that come to be after it
    std::uint32_t source = 0;       // the rank from which it arrives
    std::uint32_t collective = 0;
    std::uint32_t phase = 0, receive = 0;                     // chunk
    std::uint64_t high = 0, low = 0;                          // high: rank << 32 | node that sends; low: chunk << 32 | number
    std::uint32_t instance = 0, source_state = 0, state = 0;  // chunk
    std::uint32_t together = 1;                               // messages of a train: this one is the last
    std::uint32_t next = nothing;                             // the one that departs after it, in one event
    std::uint32_t peer = 0;                                   // node
    std::int64_t tag = 0;
    std::uint32_t rank() const { return static_cast<std::uint32_t>(high >> 32); }  // the sender's; access: the one with the memory
};
static_assert(sizeof(Message) == 128);

class Messages final : public Carried {
public:
    // Who is told.
    class Ends {
    public:
        virtual void deliver(MessageId id, Tick when) = 0;     // it will be delivered then
        virtual void send_next(std::uint32_t queue) = 0;       // its queue's next one may come to be
        virtual MessageId pull_next(std::uint32_t queue) = 0;  // it comes to be

    protected:
        ~Ends() = default;
    };

    Messages(const Plan& plan, BatchClock& clock, const RunOptions& options, Ends& ends);
    Messages(const Messages&) = delete;
    Messages& operator=(const Messages&) = delete;

    Message& operator[](MessageId id) { return pool_[id]; }
    void prefetch(MessageId id) const {
        const char* const at = reinterpret_cast<const char*>(&pool_[id]);
        __builtin_prefetch(at), __builtin_prefetch(at + sizeof(Message) - 1);
    }
    MessageId make();
    void free(MessageId id) { free_.push_back(id); }
    void post(MessageId id);   // it leaves in this instant
    void leave(MessageId id);  // with those that leave in the same event
    void step(MessageId id);   // to the next device of its way, on a medium
    void leave_in_turn(MessageId id, const Medium::Turn& turn) { ask_again(id, medium_->leave(pool_[id].flight, turn)); }
    void arrive(MessageId id);        // at its in port, or at the next device
    void reach_adder(MessageId id) {  // what is there in one instant goes in the order of what arrives
        Keyed key = arrives(id);
        key.kind = astrarium::reach_adder;
        clock_.at(clock_.now, BatchClock::arrive, key);
    }
    Keyed arrives(MessageId id) const;  // its event
    std::size_t size() const { return pool_.size(); }

    Ports* ports() { return ports_.get(); }  // one of these
    Medium* medium() { return medium_.get(); }
    void watch(LinkHolds& holds) { ports_ ? ports_->watch(holds) : medium_->watch(holds); }
    Traffic* traffic() { return ports_ ? &ports_->traffic : medium_->traffic(); }
    bool recurs() const { return ports_ || queues_; }
    void write(StateWords& to) const;  // what the medium has
    auto state() { return std::tie(pool_, free_); }

private:
    void depart(MessageId id);

    // for the medium
    Flight& flight(MessageId id) override { return pool_[id].flight; }
    void ask_again(MessageId id, Tick when) override {
        if (when != never) clock_.arrival(when, id);
    }
    void deliver(MessageId id, Tick when) override {
        if (when > clock_.now) return ends_.deliver(id, when);  // known beforehand: often no event of its own
        clock_.at(when, BatchClock::done, {pool_[id].high, pool_[id].low, send_over, id, 0});
    }
    void wake(std::uint32_t what, Tick when, Turn turn) override {
        const bool after = turn == Turn::after;
        clock_.at(when, turn == Turn::end ? BatchClock::arrive : BatchClock::done,
                  {after ? ~std::uint64_t{0} : 0, after ? what : 0, medium_due, what, 0});
    }
    Tick now() const override { return clock_.now; }
    MessageId follow(MessageId id) override {
        const std::uint32_t queue = std::exchange(pool_[id].queue, nothing);
        return queue == nothing ? no_message : ends_.pull_next(queue);
    }
    std::int64_t tag(MessageId id) const override { return pool_[id].tag; }
    bool receives(MessageId id) const override { return pool_[id].receives; }

    BatchClock& clock_;
    Ends& ends_;
    Equals* const equals_;
    std::unique_ptr<Ports> ports_;
    std::unique_ptr<Medium> medium_;
    bool queues_ = false;  // the medium
    Pool<Message> pool_;
    std::vector<MessageId> free_;
};

// A run that does not fit into memory is refused: before it begins, and while messages pile up.
void refuse_too_large(const Plan& plan, bool record);
void refuse_too_many(std::size_t messages);

}  // namespace astrarium
