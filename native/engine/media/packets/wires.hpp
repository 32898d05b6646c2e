// Links and ways as packets see them: links by their numbers in the graph (of dims: in the graph that dims stand for), and the next link.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "media/epochs.hpp"
#include "media/fabric.hpp"

namespace astrarium::packets {

inline constexpr std::uint32_t none = 0xffffffffu;

std::uint64_t mix64(std::uint64_t word);  // splitmix64

struct Wire {
    std::size_t number = 0;               // in the traffic
    std::size_t dim = 0;                  // of the traffic
    std::int32_t source = 0, target = 0;  // nodes
    bool leaves_npu = false;
    std::int64_t buffer = 0;  // bytes at its end; 0: any number
    Tick latency = 0;
    double bandwidth = 0;
    bool inside = false;  // a host: not a hop of the transport
    Tick serial(std::int64_t bytes) const { return ticks(static_cast<double>(bytes) / bandwidth, false); }
};

class Ways {
public:
    virtual ~Ways() = default;
    // The link by which a message leaves its source. `pair`: the hash of its two ends.
    virtual std::uint32_t first(std::int32_t source, std::int32_t destination, std::uint64_t pair) = 0;
    // The link after `link`, which does not end at the destination. Where several begin cheapest ways: by the pair, or where packets are
    // sprayed in turn of what came by this link.
    virtual std::uint32_t next(std::uint32_t link, std::int32_t destination, const std::uint64_t& pair) = 0;
    // Where links fail: which routes are left, and when that changes; null elsewhere.
    virtual Epochs* epochs() { return nullptr; }
    // The link by which a message leaves a node that it was not to leave by another one.
    virtual std::uint32_t onward(std::int32_t, std::int32_t, const std::uint64_t&) { return none; }
    // The link after `link` where nothing is sprayed.
    virtual std::uint32_t usual(std::uint32_t link, std::int32_t destination, const std::uint64_t& pair) {
        return next(link, destination, pair);
    }
    // Between windows: forgets what takes too much memory. Within one, several threads may ask for ways.
    virtual void forget() {}
    std::uint64_t pair(std::int32_t source, std::int32_t destination) const { return hash(seed_, source, destination); }

    std::vector<Wire> wires;
    std::int32_t nodes = 0;

protected:
    static std::uint64_t hash(std::uint64_t seed, std::int32_t source, std::int32_t destination) {
        return mix64(seed ^ (std::uint64_t{static_cast<std::uint32_t>(source)} << 32 | static_cast<std::uint32_t>(destination)));
    }
    std::uint64_t seed_ = 0;  // mixed
};

std::unique_ptr<Ways> open_ways(const Plan& plan, const Traffic& traffic);

}  // namespace astrarium::packets
