// One more word into a hash.
#pragma once
#include <cstdint>

namespace astrarium {

inline std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
    hash ^= word + 0x9e3779b97f4a7c15ull + (hash << 6) + (hash >> 2);
    hash ^= hash >> 32;
    hash *= 0xd6e8feb86659fd93ull;
    return hash ^ hash >> 32;
}

}  // namespace astrarium
