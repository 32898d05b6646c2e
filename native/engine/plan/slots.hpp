// Columns of arguments that the comm nodes of a program share: what each is used for.
#pragma once
#include <cstdint>
#include <vector>

#include "plan/plan.hpp"

namespace astrarium {

struct SlotUse {
    Kind kind = Kind::skip;
    std::uint32_t count = 0;  // nodes that use it
    std::int64_t size = 0;
};

inline bool comm(Kind kind) { return kind == Kind::collective || kind == Kind::send || kind == Kind::recv; }

// By slot. Throws std::invalid_argument where a comm node has none, a slot is left out, or its nodes differ.
std::vector<SlotUse> slots_of(const Program& program);

}  // namespace astrarium
