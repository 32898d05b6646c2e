// Threads that do one piece of work together: the caller and so many others, which wait between pieces.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace astrarium {

class Crew {
public:
    explicit Crew(std::size_t size);
    ~Crew();
    Crew(const Crew&) = delete;
    Crew& operator=(const Crew&) = delete;
    std::size_t size() const { return threads_.size() + 1; }
    // Calls `work` with 0 to size() - 1, each in a thread of its own; 0 in the caller's. Throws what the first of them threw.
    void run(const std::function<void(std::size_t)>& work);
    // Where the part of each thread begins among `count` things: about as much weight for each. One more: the end.
    template <class Weight>
    std::vector<std::size_t> parts(std::size_t count, Weight weight) const {
        std::size_t all = 0, some = 0;
        for (std::size_t k = 0; k < count; ++k) all += weight(k);
        std::vector<std::size_t> from{0};
        for (std::size_t k = 0; k < count; ++k) {
            some += weight(k);
            while (from.size() < size() && some * size() >= all * from.size()) from.push_back(k + 1);
        }
        from.resize(size() + 1, count);
        return from;
    }

private:
    static constexpr int patience = 4000;  // looks at a number before a thread sleeps
    void serve(std::size_t number);
    void work(std::size_t number);
    template <class Number>
    static void wait_while(const std::atomic<Number>& number, Number old);

    std::vector<std::thread> threads_;
    std::vector<std::exception_ptr> thrown_;
    const std::function<void(std::size_t)>* work_ = nullptr;
    std::atomic<std::uint64_t> pieces_{0};  // begun
    std::atomic<std::uint32_t> busy_{0};
    std::atomic<bool> over_{false};
};

}  // namespace astrarium
