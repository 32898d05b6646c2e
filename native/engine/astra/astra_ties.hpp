// Ties: whether an order within one instant was chosen that could have been another (Alone::tie).
#pragma once

namespace astrarium {

struct Ties {
    const bool watched;  // of collectives that run by themselves; `found` means nothing elsewhere
    bool found = false;
};

}  // namespace astrarium
