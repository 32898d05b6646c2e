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
