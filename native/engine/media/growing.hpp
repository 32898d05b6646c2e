// Numbered things that never move: while one thread makes more, others may use those that they know of.
#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <memory>

namespace astrarium {

template <class T>
class Growing {
public:
    std::size_t size() const { return size_; }
    T& operator[](std::size_t k) { return blocks_[block(k)][k - first(block(k))]; }
    const T& operator[](std::size_t k) const { return blocks_[block(k)][k - first(block(k))]; }
    void push_back(const T& what) {
        const std::size_t b = block(size_);
        if (!blocks_[b]) blocks_[b] = std::make_unique<T[]>(b == 0 ? smallest : smallest << (b - 1));
        blocks_[b][size_ - first(b)] = what;
        ++size_;
    }

private:
    // Blocks of 1, 1, 2, 4 ... times the smallest.
    static constexpr std::size_t shift = 10, smallest = std::size_t{1} << shift;
    static std::size_t block(std::size_t k) { return static_cast<std::size_t>(std::bit_width(k >> shift)); }
    static std::size_t first(std::size_t block) { return block == 0 ? 0 : smallest << (block - 1); }
    std::array<std::unique_ptr<T[]>, 64 - shift> blocks_;
    std::size_t size_ = 0;
};

}  // namespace astrarium
