#include "accelerate/memo/line_store.hpp"

#include <algorithm>

namespace astrarium {

std::size_t WordsHash::operator()(const Words& words) const {
    std::uint64_t h = words.size();
    for (const std::uint64_t word : words) {
        h ^= word + 0x9e3779b97f4a7c15ull;
        h *= 0xd6e8feb86659fd93ull;
        h ^= h >> 29;
    }
    return static_cast<std::size_t>(h);
}

std::uint32_t LineStore::schedule(const Schedule& s) {
    Words content{static_cast<std::uint64_t>(s.mode), static_cast<std::uint64_t>(s.n)};
    for (const auto* each :
         {&s.program, &s.send_ptr, &s.send_peer, &s.send_needs, &s.send_match, &s.send_block_ptr, &s.recv_ptr, &s.recv_peer}) {
        content.push_back(each->size);
        content.insert(content.end(), each->begin(), each->end());
    }
    content.insert(content.end(), s.recv_reduce.begin(), s.recv_reduce.end());
    return number(std::move(content));
}

std::uint32_t LineStore::number(Words content) {
    const std::lock_guard<std::mutex> held(lock_);
    const auto [it, fresh] = contents_.try_emplace(std::move(content), static_cast<std::uint32_t>(contents_.size()));
    if (fresh) count(8 * it->first.size());
    return it->second;
}

Pattern LineStore::pattern(const std::vector<Tick>& times) {
    const Tick base = *std::min_element(times.begin(), times.end());
    Words shape;
    shape.reserve(times.size());
    for (const Tick t : times) shape.push_back(static_cast<std::uint64_t>(t - base));
    const std::lock_guard<std::mutex> held(lock_);
    const auto [it, fresh] = shapes_.try_emplace(std::move(shape), static_cast<std::uint32_t>(shape_.size()));
    if (fresh) shape_.push_back(&it->first), count(8 * it->first.size());
    return {base, it->second};
}

Tick LineStore::last(const Pattern& pattern) const {
    const std::lock_guard<std::mutex> held(lock_);
    const Words& shape = *shape_[pattern.shape];
    return add(pattern.base, static_cast<Tick>(*std::max_element(shape.begin(), shape.end())));
}

const LineStore::Found& LineStore::run(std::uint32_t line, const std::vector<Pattern>& members) {
    Words key{line};
    const bool alike = std::all_of(members.begin(), members.end(),
                                   [&](const Pattern& p) { return p.base == members[0].base && p.shape == members[0].shape; });
    for (const Pattern& p : members) {
        key.push_back(p.shape);
        if (alike) break;
        key.push_back(static_cast<std::uint64_t>(p.base));
    }
    {
        const std::lock_guard<std::mutex> held(lock_);
        if (const auto it = runs_.find(key); it != runs_.end()) return *it->second;
    }
    auto made = std::make_unique<const Found>(found(line, members));
    const std::lock_guard<std::mutex> held(lock_);
    count(8 * key.size() + made->exits.size() * sizeof(Pattern) + made->uses.size() * sizeof(PortUse) +
          made->use_of.size() * sizeof(std::uint32_t) + sizeof(Found));
    return *runs_.try_emplace(std::move(key), std::move(made)).first->second;
}

LineStore::Found LineStore::found(std::uint32_t line, const std::vector<Pattern>& members) {
    const Line* known = nullptr;
    std::vector<Tick> from;
    {
        const std::lock_guard<std::mutex> held(lock_);
        known = lines_[line].get();
        for (const Pattern& p : members)
            for (const std::uint64_t word : *shape_[p.shape]) from.push_back(p.base + static_cast<Tick>(word));
    }
    Line::Out out = known->run(from);
    Found made{{}, out.events, {}, {}};
    for (const PortUse& use : out.uses) {
        const auto known_use = std::find(made.uses.begin(), made.uses.end(), use);
        made.use_of.push_back(static_cast<std::uint32_t>(known_use - made.uses.begin()));
        if (known_use == made.uses.end()) made.uses.push_back(use);
    }
    if (made.uses.size() == 1) made.use_of = {};
    made.uses.shrink_to_fit();
    const auto chunks = static_cast<std::ptrdiff_t>(known->chunks());
    for (auto it = out.exits.begin(); it != out.exits.end(); it += chunks) made.exits.push_back(pattern({it, it + chunks}));
    return made;
}

}  // namespace astrarium
