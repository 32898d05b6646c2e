// Events of one GPU. Their key orders an instant: stage, distance of the origin, workgroup, wavefront, serial number.
#pragma once
#include <cstdint>

#include "plan/plan.hpp"

namespace astrarium::gpu {

enum class Stage : std::uint8_t { done, timer, start, channel, out, in, unit, hop };
enum class Packet : std::uint8_t { load, store, signal, poll, data, ack };

inline bool carries_data(Packet kind) { return kind == Packet::store || kind == Packet::data; }
inline bool reads(Packet kind) { return kind == Packet::load || kind == Packet::poll; }

inline constexpr int stage_bit = 60, origin_bit = 50, work_bit = 36, wavefront_bit = 31;
inline constexpr std::uint64_t origin_mask = std::uint64_t{0x3ff} << origin_bit, stage_mask = std::uint64_t{0x7} << stage_bit;

struct Event {
    Tick time;
    std::uint64_t key;
    std::uint32_t line;           // of memory that a packet asks for; else the workgroup that starts
    std::uint32_t instruction;    // of the origin; of a timer the wavefront
    std::uint16_t router;         // of a hop: where the packet is
    std::uint16_t channel, port;  // of the line: divisions are done once, when the packet leaves its unit
    Packet kind;
    Stage next;  // of a hop: where it leads to

    Stage stage() const { return static_cast<Stage>(key >> stage_bit); }
    std::uint32_t origin() const { return static_cast<std::uint32_t>((key & origin_mask) >> origin_bit); }
    std::uint32_t work() const { return static_cast<std::uint32_t>(key >> work_bit & 0x3fff); }
    void set(Stage to) { key = (key & ~stage_mask) | static_cast<std::uint64_t>(to) << stage_bit; }
    void set_origin(std::uint64_t distance) { key = (key & ~origin_mask) | distance << origin_bit; }
    bool before(const Event& other) const { return time != other.time ? time < other.time : key < other.key; }
};

static_assert(sizeof(Event) == 32);

}  // namespace astrarium::gpu
