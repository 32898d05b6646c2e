// The engine's entry points.
#pragma once
#include "plan.hpp"

namespace astrarium {

Outcome run_astra(const Plan& plan, bool record);
Outcome run_native(const Plan& plan, bool record);

}  // namespace astrarium
