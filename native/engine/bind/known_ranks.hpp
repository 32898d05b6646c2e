// Programs, ranks and groups of Python's Plans, read and checked once for all plans that have the same arrays: the same objects.
#pragma once
#include <nanobind/nanobind.h>

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "accelerate/memo/facts.hpp"
#include "accelerate/memo/line_store.hpp"

namespace astrarium {

struct Ranks {
    std::vector<nanobind::object> keep;  // what the views point into
    std::size_t bytes = 0;
    Plan part;  // programs, ranks and groups only
    std::shared_ptr<Common> common;
};

// By identity, which for objects that are held and that nobody can write to says as much as their content. Those of arrays that can
// be written to, and large ones, are not kept. With the GIL held.
class KnownRanks {
public:
    using Key = std::pair<int, std::array<PyObject*, 8>>;  // NPUs, and the objects
    std::shared_ptr<const Ranks> find(const Key& key);
    static bool takes(const Ranks& ranks) { return ranks.bytes <= most_bytes / 4; }
    void insert(const Key& key, std::shared_ptr<const Ranks> ranks);

private:
    static constexpr std::size_t most = 256, most_bytes = 1 << 26;
    struct Entry {
        std::shared_ptr<const Ranks> ranks;
        std::uint64_t used;
    };
    void make_room();

    std::map<Key, Entry> known_;
    std::uint64_t used_ = 0;
};

// What runs share.
struct Shared {
    explicit Shared(std::size_t most) : measurements(most) {}
    Measurements measurements;
    KnownRanks ranks;
};

}  // namespace astrarium
