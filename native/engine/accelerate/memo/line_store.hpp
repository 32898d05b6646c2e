// What lines do, kept for other collectives, plans and threads: found once per line and pattern of arrivals.
#pragma once
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "accelerate/timers/line.hpp"

namespace astrarium {

using Words = std::vector<std::uint64_t>;
struct WordsHash {
    std::size_t operator()(const Words& words) const;
};
// Appends small numbers, two to a word.
template <class Number>
void pack(const std::vector<Number>& numbers, Words& out) {
    for (std::size_t i = 0; i < numbers.size(); i += 2)
        out.push_back(static_cast<std::uint64_t>(numbers[i]) << 32 |
                      (i + 1 < numbers.size() ? static_cast<std::uint32_t>(numbers[i + 1]) : 0));
}

// Times by chunk: the first, and the number of the others relative to it.
struct Pattern {
    Tick base = 0;
    std::uint32_t shape = 0;
    bool operator==(const Pattern&) const = default;
};

// What one collective does, by itself.
struct Measured {
    std::vector<Tick> done;          // per participant class
    std::vector<std::uint8_t> late;  // natively, per participant class: it ends after arrivals of that instant
    Tick quiet = 0;                  // when the last port is free again
    std::uint64_t events = 0;
    std::vector<std::vector<Load>> loads;  // per participant class, or one for all
    std::vector<Step> steps;               // of all members of one group
    Uses uses;                             // per participant class, where known
};

// Keys are contents, exactly. Numbers and what they stand for stay as long as the store.
class LineStore {
public:
    struct Found {
        std::vector<Pattern> exits;  // per member
        std::uint64_t events = 0;
        std::vector<PortUse> uses;          // that differ
        std::vector<std::uint32_t> use_of;  // per member: which of them; empty: the first of all
        const PortUse& use(std::size_t member) const { return uses[use_of.empty() ? 0 : use_of[member]]; }
    };

    std::uint32_t schedule(const Schedule& schedule);
    std::uint32_t number(Words content);  // of anything: the same for the same
    // The line with this content, made where it is new; none where it is not usable.
    static constexpr std::uint32_t none = 0xffffffffu;
    template <class Make>
    std::uint32_t line(const Words& content, Make&& make) {
        const std::lock_guard<std::mutex> held(lock_);
        const auto [it, fresh] = numbers_.try_emplace(content, none);
        if (fresh) {
            auto made = std::make_unique<Line>(make());
            count(8 * content.size() + 1024);
            if (made->usable()) it->second = static_cast<std::uint32_t>(lines_.size()), lines_.push_back(std::move(made));
        }
        return it->second;
    }
    // One member of a collective that stands for all, its messages looped back: by content; null where none can.
    using Looped = std::shared_ptr<const Alone>;
    template <class Make>
    Looped looped(const Words& content, Make&& make) {
        return keep(looped_, content, make, [](const Looped& made) { return made ? sizeof(Alone) + 8 * sizeof(PortUse) : 0; });
    }
    // What a collective does; or that members of one class differ, and by which labels they can be told apart.
    struct Kept {
        Measured found;
        std::string why;
        std::vector<std::uint32_t> apart;
    };
    template <class Make>
    std::shared_ptr<const Kept> measured(const Words& content, Make&& make) {
        return keep(measured_, content, make, [](const std::shared_ptr<const Kept>& made) {
            return sizeof(Kept) + 16 * made->found.done.size() + 4 * made->apart.size() + made->found.uses.bytes();
        });
    }
    // Labels of members, refined until members of one label take the same steps.
    using Labelled = std::shared_ptr<const std::vector<std::uint64_t>>;
    template <class Make>
    Labelled steps(const Words& content, Make&& make) {
        return keep(steps_, content, make, [](const Labelled& made) { return 8 * made->size(); });
    }
    // Whether all members of a group stand alike in a phase.
    template <class Make>
    bool alike(const Words& content, Make&& make) {
        return keep(alike_, content, make, [](bool) { return 1; });
    }
    Pattern pattern(const std::vector<Tick>& times);
    Tick last(const Pattern& pattern) const;
    // What a line does when its members' chunks come like this; `members` relative to the first of them.
    const Found& run(std::uint32_t line, const std::vector<Pattern>& members);
    std::size_t bytes() const { return bytes_; }

private:
    Found found(std::uint32_t line, const std::vector<Pattern>& members);
    void count(std::size_t bytes) { bytes_ += bytes + 128; }
    template <class Map, class Make, class Bytes>
    typename Map::mapped_type keep(Map& map, const Words& content, Make&& make, Bytes&& bytes) {
        {
            const std::lock_guard<std::mutex> held(lock_);
            if (const auto it = map.find(content); it != map.end()) return it->second;
        }
        typename Map::mapped_type made = make();
        const std::lock_guard<std::mutex> held(lock_);
        count(8 * content.size() + bytes(made));
        return map.try_emplace(content, std::move(made)).first->second;
    }

    mutable std::mutex lock_;
    std::unordered_map<Words, std::uint32_t, WordsHash> contents_, numbers_, shapes_;
    std::vector<std::unique_ptr<const Line>> lines_;
    std::vector<const Words*> shape_;
    std::unordered_map<Words, Looped, WordsHash> looped_;
    std::unordered_map<Words, std::shared_ptr<const Kept>, WordsHash> measured_;
    std::unordered_map<Words, Labelled, WordsHash> steps_;
    std::unordered_map<Words, bool, WordsHash> alike_;
    std::unordered_map<Words, std::unique_ptr<const Found>, WordsHash> runs_;
    std::size_t bytes_ = 0;
};

// What runs share. A store that has grown beyond `most` bytes is left to those that use it, and a new one begins.
class Measurements {
public:
    explicit Measurements(std::size_t most) : most_(most), store_(std::make_shared<LineStore>()) {}
    std::shared_ptr<LineStore> store() {
        const std::lock_guard<std::mutex> held(lock_);
        if (store_->bytes() > most_) store_ = std::make_shared<LineStore>();
        return store_;
    }

private:
    std::size_t most_;
    std::mutex lock_;
    std::shared_ptr<LineStore> store_;
};

}  // namespace astrarium
