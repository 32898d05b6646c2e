// Python's Plan as views for the engine, and its Outcome as numpy arrays.
#pragma once
#include <nanobind/nanobind.h>

#include <memory>

#include "bind/known_ranks.hpp"
#include "plan/plan.hpp"

namespace astrarium {

// Holds the arrays that a Plan's views point into.
struct BorrowedPlan {
    Plan plan;
    std::vector<nanobind::object> keep;
    std::shared_ptr<const Ranks> ranks;
};

// `known`: programs, ranks and groups that were read before, or null.
void read_plan(nanobind::handle source, BorrowedPlan& into, KnownRanks* known = nullptr);
nanobind::dict write_outcome(const Outcome& outcome);
// Of a run that ended without an outcome: (kind of error, what). What are (message, rank, node, its work), and of a stall such waits.
nanobind::tuple write_fault(const char* kind, const Fault& fault);
nanobind::tuple write_stall(const Stall& stall);

}  // namespace astrarium
