// A value per node in pages that are made as somebody writes: rows of which little is used take little. One thread writes; meanwhile others
// may read, and see what `publish` wrote whole or not at all.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace astrarium {

template <class T>
class Pages {
public:
    // `bytes` counts what all pages take that it is given to.
    Pages(std::int32_t nodes, std::size_t& bytes)
        : count_((static_cast<std::size_t>(nodes) >> shift) + 1), pages_(std::make_unique<std::atomic<T*>[]>(count_)), bytes_(bytes) {
        charge(count_ * sizeof(T*));
    }
    ~Pages() { bytes_ -= charged_; }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;

    T get(std::int32_t node) const {  // zero where nobody wrote
        T* const page = pages_[static_cast<std::size_t>(node) >> shift].load(std::memory_order_acquire);
        return page == nullptr ? T{} : std::atomic_ref<T>(page[static_cast<std::size_t>(node) & rest]).load(std::memory_order_acquire);
    }
    T& operator[](std::int32_t node) {
        std::atomic<T*>& page = pages_[static_cast<std::size_t>(node) >> shift];
        if (page.load(std::memory_order_relaxed) == nullptr) page.store(fresh(), std::memory_order_release);
        return page.load(std::memory_order_relaxed)[static_cast<std::size_t>(node) & rest];
    }
    void publish(std::int32_t node, T value) { std::atomic_ref<T>((*this)[node]).store(value, std::memory_order_release); }

private:
    static constexpr std::size_t shift = 6, size = std::size_t{1} << shift, rest = size - 1, largest = 64;
    T* fresh() {
        if (left_ == 0) {
            left_ = block_, block_ = std::min(2 * block_, largest);
            blocks_.push_back(std::make_unique<T[]>(left_ * size));
            charge(left_ * size * sizeof(T));
        }
        return blocks_.back().get() + --left_ * size;
    }
    void charge(std::size_t bytes) { charged_ += bytes, bytes_ += bytes; }

    const std::size_t count_;
    std::unique_ptr<std::atomic<T*>[]> pages_;
    std::vector<std::unique_ptr<T[]>> blocks_;  // of 1, 2, 4 ... pages
    std::size_t left_ = 0, block_ = 1, charged_ = 0;
    std::size_t& bytes_;
};

}  // namespace astrarium
