#include "clock/crew.hpp"

namespace astrarium {

Crew::Crew(std::size_t size) : thrown_(size) {
    for (std::size_t k = 1; k < size; ++k) threads_.emplace_back([this, k] { serve(k); });
}

Crew::~Crew() {
    over_.store(true);
    ++pieces_, pieces_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

template <class Number>
void Crew::wait_while(const std::atomic<Number>& number, Number old) {
    for (int k = 0; k < patience; ++k)
        if (number.load(std::memory_order_acquire) != old) return;
    while (number.load(std::memory_order_acquire) == old) number.wait(old);
}

void Crew::run(const std::function<void(std::size_t)>& piece) {
    work_ = &piece;
    busy_.store(static_cast<std::uint32_t>(threads_.size()));
    ++pieces_, pieces_.notify_all();
    work(0);
    for (std::uint32_t left; (left = busy_.load(std::memory_order_acquire)) > 0;) wait_while(busy_, left);
    for (std::exception_ptr& thrown : thrown_)
        if (thrown) {
            const std::exception_ptr first = thrown;
            thrown_.assign(thrown_.size(), nullptr);
            std::rethrow_exception(first);
        }
}

void Crew::serve(std::size_t number) {
    for (std::uint64_t done = 0;; ++done) {
        wait_while(pieces_, done);
        if (over_.load()) return;
        work(number);
        if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
    }
}

void Crew::work(std::size_t number) {
    try {
        (*work_)(number);
    } catch (...) { thrown_[number] = std::current_exception(); }
}

}  // namespace astrarium
