// Protocol buffer wire format, read by hand from bytes that nobody vouches for.
//
// Every read is checked against the end of its message; a fault throws ParseError with the byte offset of the item that
// is wrong. Nothing here allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace astrarium::trace {

struct ParseError {
    std::size_t offset;
    const char* what;
};

struct Span {
    const std::uint8_t* data = nullptr;
    std::size_t size = 0;
};

enum Wire : std::uint32_t { VARINT = 0, FIXED64 = 1, DELIMITED = 2, GROUP = 3, END_GROUP = 4, FIXED32 = 5 };

constexpr int MAX_GROUP_DEPTH = 64;

// A position inside one message of a file that starts at `base`.
class Cursor {
public:
    Cursor(const std::uint8_t* base, const std::uint8_t* at, const std::uint8_t* end) : base_(base), at_(at), end_(end) {}
    Cursor(const Cursor& file, Span message) : Cursor(file.base_, message.data, message.data + message.size) {}

    bool done() const { return at_ == end_; }
    const std::uint8_t* at() const { return at_; }
    const std::uint8_t* end() const { return end_; }
    std::size_t offset() const { return offset(at_); }
    std::size_t offset(const std::uint8_t* place) const { return static_cast<std::size_t>(place - base_); }
    std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }

    [[noreturn]] void fail(const std::uint8_t* place, const char* what) const { throw ParseError{offset(place), what}; }

    std::uint64_t varint() {
        if (at_ < end_ && *at_ < 0x80) return *at_++;
        return long_varint();
    }

    // Field number and wire type, checked.
    std::uint32_t tag() {
        const std::uint8_t* start = at_;
        const std::uint64_t value = varint();
        if (value > 0xffffffffu) fail(start, "field number out of range");
        if (value < 8) fail(start, "field number 0");
        if ((value & 7) > FIXED32) fail(start, "unknown wire type");
        return static_cast<std::uint32_t>(value);
    }

    Span delimited() {
        const std::uint8_t* start = at_;
        const std::uint64_t size = varint();
        if (size > left()) fail(start, "a length runs past the end of its message");
        const Span found{at_, static_cast<std::size_t>(size)};
        at_ += size;
        return found;
    }

    std::uint64_t fixed64() { return little<std::uint64_t>(); }
    std::uint32_t fixed32() { return little<std::uint32_t>(); }

    void skip(std::uint32_t tag) {
        if ((tag & 7) >= GROUP && (tag & 7) != FIXED32) return skip_group(tag);
        skip_scalar(tag);
    }

private:
    template <class T>
    T little() {
        if (left() < sizeof(T)) fail(at_, "a value runs past the end of its message");
        T value = 0;
        for (std::size_t i = 0; i < sizeof(T); i++) value |= static_cast<T>(at_[i]) << (8 * i);
        at_ += sizeof(T);
        return value;
    }

    std::uint64_t long_varint() {
        const std::uint8_t* start = at_;
        std::uint64_t value = 0;
        for (int shift = 0; shift < 70; shift += 7) {
            if (at_ == end_) fail(start, "a number runs past the end of its message");
            const std::uint8_t byte = *at_++;
            value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
            if (byte < 0x80) return value;
        }
        fail(start, "a number is longer than 10 bytes");
    }

    void skip_scalar(std::uint32_t tag) {
        switch (tag & 7) {
            case VARINT: varint(); break;
            case FIXED64: fixed64(); break;
            case DELIMITED: delimited(); break;
            default: fixed32(); break;
        }
    }

    // Unknown groups nest; an explicit stack of field numbers instead of recursion.
    void skip_group(std::uint32_t tag) {
        const std::uint8_t* start = at_;
        if ((tag & 7) == END_GROUP) fail(start, "a group ends that never began");
        std::uint32_t open[MAX_GROUP_DEPTH];
        int depth = 0;
        open[depth++] = tag >> 3;
        while (depth > 0) {
            if (done()) fail(start, "a group runs past the end of its message");
            const std::uint8_t* place = at_;
            const std::uint32_t inner = this->tag();
            if ((inner & 7) == GROUP) {
                if (depth == MAX_GROUP_DEPTH) fail(place, "groups nest too deeply");
                open[depth++] = inner >> 3;
            } else if ((inner & 7) == END_GROUP) {
                if (open[--depth] != inner >> 3) fail(place, "a group ends that never began");
            } else {
                skip_scalar(inner);
            }
        }
    }

    const std::uint8_t* base_;
    const std::uint8_t* at_;
    const std::uint8_t* end_;
};

// Walks the fields of a message; throws ParseError where it is not one.
inline void validate(Cursor cursor) {
    while (!cursor.done()) cursor.skip(cursor.tag());
}

inline bool same(Span left, Span right) {
    return left.size == right.size && (left.size == 0 || std::memcmp(left.data, right.data, left.size) == 0);
}

}  // namespace astrarium::trace
