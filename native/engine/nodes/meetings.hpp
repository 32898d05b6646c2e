// Messages between nodes: how a delivered message and a posted receive of one key find each other, in order.
#pragma once
#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

#include "nodes/message_key.hpp"

namespace astrarium {

class Meetings {
public:
    struct Meeting {                        // messages delivered but not yet wanted, receives posted but not yet delivered
        std::vector<std::uint64_t> posted;  // those before `met` have met their message
        std::uint32_t met = 0, delivered = 0;
        bool waited_for() const { return met < posted.size(); }
    };
    using Entry = std::pair<const MessageKey, Meeting>;

    // A receive; whether its message was delivered already. Else it waits, as `who`.
    bool post(const MessageKey& key, std::uint64_t who) {
        Meeting& meeting = open_[key];
        if (meeting.delivered == 0) return meeting.posted.push_back(who), false;
        if (--meeting.delivered == 0) open_.erase(key);
        return true;
    }
    // A message was delivered: the receive that has waited longest for it.
    std::optional<std::uint64_t> deliver(const MessageKey& key) {
        Meeting& meeting = open_[key];
        if (!meeting.waited_for()) return ++meeting.delivered, std::nullopt;
        const std::uint64_t who = meeting.posted[meeting.met++];
        if (!meeting.waited_for()) open_.erase(key);
        return who;
    }

    auto begin() const { return open_.begin(); }
    auto end() const { return open_.end(); }
    std::vector<const Entry*> sorted() const {
        std::vector<const Entry*> out;
        for (const Entry& entry : open_) out.push_back(&entry);
        const auto key = [](const Entry* e) { return std::tuple(e->first.destination, e->first.source, e->first.tag, e->first.size); };
        std::sort(out.begin(), out.end(), [&](const Entry* x, const Entry* y) { return key(x) < key(y); });
        return out;
    }

private:
    std::unordered_map<MessageKey, Meeting, MessageKeyHash> open_;
};

}  // namespace astrarium
