// The order in which ASTRA-sim meets node ids that it keeps in a hash set: that of libstdc++'s std::unordered_set, whatever
// library this is compiled with.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <stdexcept>
#include <unordered_map>
#include <vector>

namespace astrarium {

// Bucket counts of a set that grows by one id at a time, from its first id on: primes of libstdc++, each at least twice the
// one before. A set has at most as many ids as buckets.
inline constexpr std::uint64_t hash_buckets[] = {13,       29,        59,        127,       257,       541,        1109,
                                                 2357,     5087,      10273,     20753,     42043,     85229,      172933,
                                                 351061,   712697,    1447153,   2938679,   5967347,   12117689,   24607243,
                                                 49969847, 101473717, 206062531, 418451333, 849749479, 1725587117, 3504151727};

// One id a bucket's first: the set is a list in which the ids of a bucket stand together; a new id becomes the first of its
// bucket, or of the list where the bucket is empty.
inline std::vector<std::uint32_t> listed(const std::vector<std::uint32_t>& inserted, const std::uint64_t* id, std::uint64_t buckets) {
    std::unordered_map<std::uint64_t, std::size_t> number;
    std::vector<std::vector<std::uint32_t>> of_bucket;
    for (const std::uint32_t node : inserted) {
        const auto [found, fresh] = number.try_emplace(id[node] % buckets, of_bucket.size());
        if (fresh) of_bucket.emplace_back();
        of_bucket[found->second].push_back(node);
    }
    std::vector<std::uint32_t> list;
    for (auto bucket = of_bucket.rbegin(); bucket != of_bucket.rend(); ++bucket) list.insert(list.end(), bucket->rbegin(), bucket->rend());
    return list;
}

// The list after `inserted` (indexes of distinct ids, in order) came into an empty set that has grown `grown` times before;
// counts further growth. Growing puts the list, in its order, into an empty set of more buckets.
inline std::vector<std::uint32_t> hash_order(const std::vector<std::uint32_t>& inserted, const std::uint64_t* id, std::uint32_t& grown) {
    std::vector<std::uint32_t> list;
    for (std::size_t taken = 0;; ++grown) {
        if (grown >= std::size(hash_buckets)) throw std::length_error("a custom collective with too many nodes");
        const std::size_t room = std::min<std::size_t>(inserted.size(), hash_buckets[grown]);
        if (room > taken) {
            list.insert(list.end(), inserted.begin() + static_cast<std::ptrdiff_t>(taken),
                        inserted.begin() + static_cast<std::ptrdiff_t>(room));
            taken = room;
        }
        list = listed(list, id, hash_buckets[grown]);
        if (taken == inserted.size()) return list;
    }
}

}  // namespace astrarium
