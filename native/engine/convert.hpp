// Python's Plan as views for the engine, and its Outcome as numpy arrays.
#pragma once
#include <nanobind/nanobind.h>

#include "plan.hpp"

namespace astrarium {

// Holds the arrays that a Plan's views point into.
struct BorrowedPlan {
    Plan plan;
    std::vector<nanobind::object> keep;
};

void read_plan(nanobind::handle source, BorrowedPlan& into);
nanobind::dict write_outcome(const Outcome& outcome);

}  // namespace astrarium
