// Numbered things in blocks, each twice as large as the last: growing never moves or copies them, however many there are.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <memory>
#include <vector>

namespace astrarium {

template <class T>
class Pool {
public:
    Pool() = default;
    Pool(const Pool& other) { *this = other; }
    Pool& operator=(const Pool& other) {
        blocks_.resize(other.blocks_.size());
        for (std::size_t b = 0; b < blocks_.size(); ++b) {
            if (!blocks_[b]) blocks_[b] = std::make_unique<T[]>(first << b);
            std::copy_n(other.blocks_[b].get(), std::min(first << b, other.size_ - begin(b)), blocks_[b].get());
        }
        size_ = other.size_;
        return *this;
    }
    std::size_t size() const { return size_; }
    T& operator[](std::size_t i) {
        const std::size_t b = block(i);
        return blocks_[b][i - begin(b)];
    }
    const T& operator[](std::size_t i) const {
        const std::size_t b = block(i);
        return blocks_[b][i - begin(b)];
    }
    void emplace_back() {
        if (size_ == begin(blocks_.size())) blocks_.push_back(std::make_unique<T[]>(first << blocks_.size()));
        ++size_;
    }

private:
    static constexpr std::size_t first = 8;  // elements of the first block
    static std::size_t block(std::size_t i) { return static_cast<std::size_t>(std::bit_width(i / first + 1)) - 1; }
    static std::size_t begin(std::size_t b) { return (first << b) - first; }
    std::vector<std::unique_ptr<T[]>> blocks_;
    std::size_t size_ = 0;
};

}  // namespace astrarium
