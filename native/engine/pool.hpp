// Numbered things in blocks: growing never moves or copies them, however many there are.
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

namespace astrarium {

template <class T>
class Pool {
public:
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
