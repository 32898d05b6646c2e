// How the two ends of a message find each other: tag, size, source and destination rank, then order.
#pragma once
#include <cstddef>
#include <cstdint>

namespace astrarium {

struct MessageKey {
    std::int64_t tag, size;
    std::uint32_t source, destination;
    bool operator==(const MessageKey&) const = default;
};

struct MessageKeyHash {
    std::size_t operator()(const MessageKey& k) const {
        std::uint64_t h = static_cast<std::uint64_t>(k.tag) * 0x9e3779b97f4a7c15ull;
        h ^= (static_cast<std::uint64_t>(k.size) + h) * 0xbf58476d1ce4e5b9ull;
        h ^= ((static_cast<std::uint64_t>(k.source) << 32 | k.destination) + h) * 0x94d049bb133111ebull;
        return h ^ h >> 29;
    }
};

}  // namespace astrarium
