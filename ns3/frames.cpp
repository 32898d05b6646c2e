// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
#include "frames.hpp"

#include <cerrno>
#include <unistd.h>

namespace bridge {
namespace {

constexpr std::uint32_t longest = 1U << 28;

// Reads exactly `bytes`; false at the end of the input before the first of them.
bool read_whole(int file, void* to, std::size_t bytes) {
    auto* at = static_cast<char*>(to);
    const std::size_t all = bytes;
    while (bytes > 0) {
        const ssize_t got = ::read(file, at, bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw Refused(std::string("cannot read: ") + std::strerror(errno));
        if (got == 0 && bytes == all) return false;
        if (got == 0) throw Refused("the input ends inside a frame");
        at += got;
        bytes -= static_cast<std::size_t>(got);
    }
    return true;
}

}  // namespace

void Frame::take(void* to, std::size_t bytes) {
    if (bytes > body.size() - at_) throw Refused("a frame ends too early");
    if (bytes > 0) std::memcpy(to, body.data() + at_, bytes);
    at_ += bytes;
}

void Frame::end() const {
    if (at_ != body.size()) throw Refused("a frame is longer than what it says");
}

Pipe::Pipe() : in_(0), out_(::dup(1)) {
    if (out_ < 0 || ::dup2(2, 1) < 0) throw Refused("cannot set up the pipe");
}

bool Pipe::read(Frame& frame) const {
    std::uint32_t length = 0;
    if (!read_whole(in_, &length, sizeof length)) return false;
    if (length == 0 || length > longest) throw Refused("a frame has " + std::to_string(length) + " bytes");
    std::string whole(length, '\0');
    if (!read_whole(in_, whole.data(), length)) throw Refused("the input ends inside a frame");
    frame = Frame();
    frame.kind = whole[0];
    frame.body = whole.substr(1);
    return true;
}

void Pipe::write(char kind, const std::string& body) const {
    std::string frame;
    frame.reserve(body.size() + 5);
    put(frame, static_cast<std::uint32_t>(body.size() + 1));
    frame += kind;
    frame += body;
    for (std::size_t done = 0; done < frame.size();) {
        const ssize_t put_down = ::write(out_, frame.data() + done, frame.size() - done);
        if (put_down < 0 && errno == EINTR) continue;
        if (put_down < 0) ::_exit(0);  // nobody listens any more
        done += static_cast<std::size_t>(put_down);
    }
}

}  // namespace bridge
