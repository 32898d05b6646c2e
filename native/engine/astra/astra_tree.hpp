// ASTRA-sim's double binary tree: each chunk runs an all_reduce up and down one of two trees, taking turns.
#pragma once
#include <cstdint>

#include "astra/astra_chunks.hpp"
#include "astra/astra_door.hpp"
#include "astra/astra_stream.hpp"

namespace astrarium {

class TreeMachine {
public:
    TreeMachine(Door& door, ChunkMail& mail) : door_(door), mail_(mail) {}

    void enter(Stream& s) const;  // throws Unsupported where ASTRA-sim would crash
    void start(Stream& s);
    bool received(Stream& s);  // true: the phase has ended
    bool crossed(Stream& s);   // the same

private:
    static constexpr std::uint32_t of_parent = 0, of_left = 1, of_right = 2;  // sources

    bool go_on_leaf(Stream& s);
    bool go_on_root(Stream& s);
    void cross(Stream& s, TreeState next, bool to_agent, bool reduces, bool sends_back);
    void send(Stream& s, std::int32_t place, std::uint32_t source);
    void receive(Stream& s, std::int32_t place, std::uint32_t source);
    void send_up(Stream& s);

    Door& door_;
    ChunkMail& mail_;
};

}  // namespace astrarium
