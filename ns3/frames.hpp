// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// Frames over a pipe: 4 bytes length of what follows, 1 byte kind, then the body. All numbers are little-endian.
#pragma once
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace bridge {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "frames are read and written as they lie in memory");

// The other side broke the protocol, or the network cannot do what it asks. The message is for the user.
struct Refused : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// A received frame, read from front to back. Functions throw Refused beyond its end.
class Frame {
public:
    char kind = 0;
    std::string body;

    template <class T>
    T number() {
        T value;
        take(&value, sizeof value);
        return value;
    }
    template <class T>
    std::vector<T> numbers(std::size_t count) {
        if (count > body.size() / sizeof(T)) throw Refused("a frame ends too early");
        std::vector<T> values(count);
        take(values.data(), count * sizeof(T));
        return values;
    }
    void end() const;  // throws Refused where bytes are left

private:
    void take(void* to, std::size_t bytes);
    std::size_t at_ = 0;
};

// Appends the bytes of a number.
template <class T>
void put(std::string& body, T value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    body.append(bytes, sizeof value);
}

// Both directions. What ns-3 itself prints goes to stderr.
class Pipe {
public:
    Pipe();
    bool read(Frame& frame) const;  // false: the other side has closed its end between two frames
    void write(char kind, const std::string& body) const;

private:
    int in_, out_;
};

}  // namespace bridge
