// A run with one rank per class whose messages are events: who stands for whom. A message of a representative arrives at the
// representative of its receiver's class, as the message that that one receives from an equal of the sender.
#pragma once
#include <compare>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "accelerate/memo/facts.hpp"
#include "accelerate/quotient/classes.hpp"
#include "run/accelerator.hpp"

namespace astrarium {

class Quotient final : public Equals {
public:
    static constexpr std::uint32_t all = 0;  // the kind of "all ranks"

    // Throws Unfoldable for what it cannot stand for.
    Quotient(const Plan& whole, const RankClasses& classes, Facts& facts);
    Quotient(const Quotient&) = delete;
    Quotient& operator=(const Quotient&) = delete;

    // The plan with classes for ranks. Its group k - 1 has the classes of kind k; a receive's tag is its slot, a send's that of
    // the receive at its peer.
    const Plan& plan() const { return small_; }
    const Plan& whole() const { return whole_; }
    const RankClasses& classes() const { return classes_; }
    std::int64_t members(std::size_t cls) const { return members_[cls]; }
    std::int32_t slot_of(std::int32_t npu) const { return slot_of_npu_[static_cast<std::size_t>(npu)]; }
    PortRows rows() const override { return {classes_.first.size(), &slot_of_npu_, &members_, npu_of_, false}; }
    std::int32_t npu(std::size_t cls) const { return npu_of_[cls]; }

    std::uint32_t kind_of(std::uint32_t group) const { return group == groups_.size() ? all : group + 1; }
    std::uint32_t place(std::uint32_t group, std::uint32_t position) const override {
        return seats_[kind_of(group)][class_in(group, position)].place;
    }
    const Sends& sends(std::uint32_t group, const ChunkState& chunk) override;
    Aim aim(std::uint32_t rank, std::size_t slot) const override;
    void check_ties(const Message& message, const std::vector<Ports::Order>& others) override;
    // Throws unless equals do the same in every step of a collective of a kind of group.
    void check(const Collective& collective, std::uint32_t group) override;

    std::size_t size(std::uint32_t kind) const {
        const std::int32_t group = classes_.first_group[kind];
        return group < 0 ? whole_.ranks() : whole_.groups[static_cast<std::size_t>(group)].size;
    }

private:
    using Steps = std::tuple<std::uint32_t, const Schedule*, int, int>;  // kind, schedule, stride, n: phases that take the same steps
    struct Seat {
        std::int32_t group = -1;
        std::uint32_t place = 0xffffffffu;
    };
    void find_seats();
    void make_plan();
    std::uint32_t class_in(std::uint32_t group, std::uint32_t position) const {
        return group == groups_.size() ? position : static_cast<std::uint32_t>(groups_[group][position]);
    }
    Aim find_aim(std::uint32_t group, std::uint32_t mine, const Phase& phase, std::uint32_t to, std::uint32_t receive) const;
    std::vector<std::uint32_t> find_trains(const std::vector<Aim>& aims, const ChunkState& s) const;
    bool through_switch(const Flight& flight, std::size_t& dim) const;
    std::uint64_t family(std::uint32_t kind, const Phase& phase);  // a number for the steps of a phase
    // Whether the ranks from which the members of a class have two messages (receives' slots) stand in one order for all of them.
    bool ordered(std::uint32_t cls, std::uint32_t one, std::uint32_t other);
    std::vector<const Phase*> unchecked(const Collective& collective, std::uint32_t kind) const;
    std::vector<std::uint64_t> refine(const std::vector<const Phase*>& phases, std::uint32_t kind, std::vector<std::uint64_t> labels);
    static bool uniform(const Phase& phase, const std::vector<std::uint64_t>& labels);
    bool in_its_dim(const Phase& phase, std::uint32_t kind) const;
    bool symmetric(const Phase& phase, std::uint32_t kind) const;
    std::vector<std::uint64_t> steps(const Phase& phase, std::uint32_t kind, const std::vector<std::uint64_t>& labels);
    std::uint32_t rank_at(const Seat& seat, std::uint32_t place) const {
        return seat.group < 0 ? place : static_cast<std::uint32_t>(whole_.groups[static_cast<std::size_t>(seat.group)][place]);
    }
    Flight flight(std::uint32_t rank, std::uint32_t goes_to, std::uint32_t from, std::uint32_t to) const;

    const Plan& whole_;
    const RankClasses& classes_;
    Facts& facts_;
    Plan small_;
    std::vector<std::int32_t> program_of_, npu_of_, slot_a_, slot_b_, slot_c_, slot_of_npu_;
    std::vector<std::int64_t> slot_ptr_, members_;
    std::vector<std::vector<std::int32_t>> groups_;                                    // per kind from 1: classes, ascending
    std::vector<std::vector<Seat>> seats_;                                             // [kind][class]
    std::map<Steps, std::uint64_t> checked_;                                           // their numbers
    std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, bool> ordered_;  // as far as asked for
    Steps last_steps_{};                                                               // asked for, of
    std::uint64_t last_family_ = 0;
    std::vector<std::vector<Sends>> sends_;  // by family and class
};

}  // namespace astrarium
