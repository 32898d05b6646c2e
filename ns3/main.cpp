// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// Runs ns-3 for a simulator at the other end of a pipe (stdin, stdout). Frames are described in design/0018-ns3.md.
#include <csignal>
#include <exception>
#include <unistd.h>

#include "session.hpp"

namespace {

constexpr std::uint32_t protocol = 2;

int serve(const bridge::Pipe& pipe) {
    std::string hello = "astrarium-ns3";
    bridge::put(hello, protocol);
    pipe.write('H', hello + NS3_VERSION);
    bridge::Frame frame;
    if (!pipe.read(frame)) return 0;
    if (frame.kind != 'T') throw bridge::Refused("the first frame is no topology");
    bridge::Session session(frame, pipe);
    std::string ready;
    bridge::put(ready, bridge::never);
    pipe.write('N', ready);
    while (pipe.read(frame)) {
        if (frame.kind != 'S' && frame.kind != 'W') throw bridge::Refused("a frame of an unknown kind");
        if (frame.kind == 'W') session.ways(frame);
        else session.step(frame);
    }
    ::_exit(0);  // ns-3's own end walks through all that is left
}

}  // namespace

int main() {
    std::signal(SIGPIPE, SIG_DFL);
    const bridge::Pipe pipe;
    try {
        return serve(pipe);
    } catch (const std::exception& error) {
        pipe.write('E', error.what());
        ::_exit(1);
    }
}
