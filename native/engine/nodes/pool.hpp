// Numbered things in blocks: growing never moves or copies them, however many there are.
#pragma once
#include <algorithm>
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
            if (!blocks_[b]) blocks_[b] = std::make_unique<T[]>(mask + 1);
            std::copy_n(other.blocks_[b].get(), mask + 1, blocks_[b].get());
        }
        size_ = other.size_;
        return *this;
    }
    std::size_t size() const { return size_; }
    T& operator[](std::size_t i) { return blocks_[i >> shift][i & mask]; }
    const T& operator[](std::size_t i) const { return blocks_[i >> shift][i & mask]; }
    void emplace_back() {
        if ((size_ & mask) == 0) blocks_.push_back(std::make_unique<T[]>(mask + 1));
        ++size_;
    }

private:
    static constexpr std::size_t shift = 8, mask = (1u << shift) - 1;
    std::vector<std::unique_ptr<T[]>> blocks_;
    std::size_t size_ = 0;
};

}  // namespace astrarium
