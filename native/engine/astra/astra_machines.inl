// The token machines of ring, direct, halving_doubling and double_binary_tree.

inline std::uint32_t Astra::rank_at(const Stream& s, int index) const {
    return membership_.rank(instances_[s.instance].group, static_cast<std::uint32_t>(s.base + index * s.phase->stride));
}

inline std::uint32_t Astra::stream_at(const Stream& s, int index) const {
    const Instance& i = instances_[s.instance];
    const auto position = alone_ ? 0u : static_cast<std::uint32_t>(s.base + index * s.phase->stride);
    return i.streams + position * static_cast<std::uint32_t>(plan_.collectives[i.collective].total_chunks) + s.chunk;
}

// A place of a ring from a number between -n and 2n - 1.
static inline int wrap(int index, int n) { return index < 0 ? index + n : index < n ? index : index - n; }

inline Tick Astra::reduction(const Stream& s, std::int64_t size) const {
    const double rate = plan_.reduction_rate(plan_.npu_of[s.rank]);
    if (rate <= 0) return 0;
    const double pass = static_cast<double>(size) / rate * 1e9;
    return plan_.network.whole_ns ? 3 * ticks(pass, true) : ticks(3 * pass, false);
}

inline void Astra::enter_phase(std::uint32_t id) {
    Stream& s = streams_[id];
    const Phase& phase = phases_of(s)[static_cast<std::size_t>(s.phase_number)];
    s.phase = &phase;
    s.local = phase.local;
    s.n = phase.n;
    const auto position = static_cast<std::int32_t>(s.position);
    s.index = position / phase.stride % phase.n;
    s.base = position - s.index * phase.stride;
    s.parallel = 1, s.free = s.inserted = s.popped = s.received = s.zero = s.nonzero = 0;
    s.toggle = false;
    s.reductions = 0;
    s.state = at_begin;
    s.last_wait = s.last_received = -1;
    const int n = phase.n, op = phase.op;
    const std::int64_t size = phase.size;
    const bool shrinks = op != op_all_gather;
    switch (phase.algorithm) {
        case Algorithm::ring:
        case Algorithm::direct: {
            s.message = shrinks ? size / n : size;
            s.sends_left = op == op_all_reduce ? 2 * (n - 1) : n - 1;
            if (phase.algorithm == Algorithm::direct)
                s.parallel = phase.window == -1 ? n - 1 : std::min(phase.window, n - 1);
            else if (op == op_all_to_all)
                s.sends_left = (n - 1) * n / 2;
            s.reduce_delay = reduction(s, s.message);
            break;
        }
        case Algorithm::halving_doubling: {
            const int bits = std::bit_width(static_cast<unsigned>(n)) - 1;
            if (n != 1 << bits)
                throw Unsupported("halving_doubling over " + std::to_string(n) +
                                  " NPUs: ASTRA-sim's needs a power of two (it hangs otherwise)");
            s.sends_left = op == op_all_reduce ? 2 * bits : bits;
            s.halving = op != op_all_gather;
            s.offset = s.halving ? 1 : n / 2;
            s.message = s.halving ? size / 2 : size;
            break;
        }
        case Algorithm::double_binary_tree: init_tree(s); break;
        default: throw Unsupported("a schedule phase under ASTRA-sim's rule book");
    }
    s.delay = -1;
}

// In-order perfect tree over n - 1 nodes plus a root, which is the last node (RootMax) or the first (RootMin).
inline void Astra::init_tree(Stream& s) {
    const int n = s.n;
    if (n < 2 || (n & (n - 1)) != 0)
        throw Unsupported("double_binary_tree over " + std::to_string(n) +
                          " NPUs: ASTRA-sim's needs a power of two (it crashes otherwise)");
    s.message = s.phase->size;
    s.reduce_delay = reduction(s, s.message);
    const int shift = s.tree_min ? 0 : 1;  // tree number = index + shift, 1..n-1; the root is 0 (min) or n (max)
    const int number = s.index + shift, root = s.tree_min ? 0 : n;
    s.parent = s.left = s.right = -1;
    if (number == root) {
        s.left = n / 2 - shift;
        return;
    }
    const int low = number & -number;
    const int up = number & (low << 1) ? number - low : number + low;
    s.parent = (low == n / 2 ? root : up) - shift;
    if (low == 1) return;
    s.left = number - low / 2 - shift;
    s.right = number + low / 2 - shift;
}

inline void Astra::init_machine(std::uint32_t id) {
    if (plan_.collectives[instances_[streams_[id].instance].collective].custom) return start_custom(id);
    const Stream& s = streams_[id];
    if (s.phase->algorithm == Algorithm::double_binary_tree) return run_tree(id, Signal::init);
    const int parallel = s.parallel;
    for (int i = 0; i < parallel; ++i) insert_packet(id);
}

// Reductions are charged by ASTRA-sim's token counters, not by what a step does: the first packet of each round of
// `zero + nonzero` is free, in all_reduce every second round is.
inline Astra::Packet Astra::next_packet(Stream& s) {
    const Algorithm algorithm = s.phase->algorithm;
    const int op = s.phase->op;
    if (s.zero == 0 && s.nonzero == 0) {
        s.zero = s.parallel;
        if (algorithm == Algorithm::halving_doubling)
            s.nonzero = std::bit_width(static_cast<unsigned>(s.n)) - 1 - s.parallel;
        else if (algorithm == Algorithm::ring || s.local)
            s.nonzero = (s.n - 1) * s.parallel;
        else
            s.nonzero = s.parallel;
        s.toggle = !s.toggle;
    }
    const bool first = s.zero > 0;
    const bool reduces = !first && (op == op_reduce_scatter || (op == op_all_reduce && s.toggle));
    const bool sends_back = !first && s.nonzero > s.parallel;
    --(first ? s.zero : s.nonzero);
    ++s.inserted;
    return {first, reduces, sends_back};
}

inline void Astra::insert_packet(std::uint32_t id) {
    Stream& s = streams_[id];
    const Packet packet = next_packet(s);
    const std::int64_t size = s.message;
    if (s.phase->algorithm == Algorithm::halving_doubling) {
        s.packet_size = size;
        s.packet_step = s.halving ? s.offset : -s.offset;  // the way back meets the same partners with other sizes
        s.reduce_delay = reduction(s, size);
        s.offset = s.halving ? s.offset * 2 : s.offset / 2;
        s.message = s.halving ? s.message / 2 : s.message * 2;
        if (s.offset == s.n && s.phase->op == op_all_reduce) {
            s.halving = false;
            s.offset /= 2;
            s.message *= 2;
        }
    }
    bundle(id, packet.first, packet.reduces, packet.sends_back, size);
}

// While one stream is all that moves, nothing comes between the steps of its ring and all of them but the last are made at
// once: a packet's way through the member (with one more event where its reduction takes time), then one to the neighbour.
inline void Astra::make_steps(Stream& s) {
    for (; s.sends_left > 0; --s.sends_left, ++s.popped, ++s.received) {
        if ((s.sends_left & 0xfffff) == 0) stop_if_interrupted();
        const Tick reduces = next_packet(s).reduces ? s.reduce_delay : 0;
        clock_.now = add(add(clock_.now, add(own_delay(s), reduces)), s.delay);
        clock_.handled += reduces > 0 ? 3 : 2;
    }
}

// One member of equal ones, where a step of its ring takes the same time whenever it is made.
inline bool Astra::moves_alone(const Stream& s) const {
    return alone_ && !record_ && s.phase->algorithm == Algorithm::ring && !plan_.network.medium->meets &&
           std::accumulate(running_.begin(), running_.end(), 0u) == 1;
}

inline bool Astra::own_delay_is_fixed(const Stream& s) {
    return s.local && s.phase->algorithm != Algorithm::double_binary_tree;
}

inline Tick Astra::own_delay(const Stream& s) const { return own_delay_is_fixed(s) ? 10000 : policy_.endpoint_delay; }

inline void Astra::bundle(std::uint32_t id, bool to_ma, bool reduces, bool sends_back, std::int64_t size) {
    const Stream& s = streams_[id];
    if (policy_.shared_bus && !own_delay_is_fixed(s)) {
        buses_[s.rank].request(to_ma, size, reduces, sends_back, id, clock_.now);
        return;
    }
    own(s.rank, own_delay(s), bundle_ready, id, reduces);
}

inline void Astra::run_general(std::uint32_t id) {
    Stream& s = streams_[id];
    switch (s.phase->algorithm) {
        case Algorithm::double_binary_tree: return run_tree(id, Signal::general);
        case Algorithm::direct:
            ++s.free;
            if (s.phase->op == op_all_reduce && s.sends_left <= s.n - 1) {
                tie_ |= s.last_received == clock_.now;
                s.last_wait = clock_.now;
                if (s.received < s.n - 1) return;
                for (int i = 0; i < s.parallel; ++i) send_next(id);
                return try_exit(id);
            }
            break;
        default: ++s.free;
    }
    send_next(id);
    try_exit(id);
}

inline void Astra::run_received(std::uint32_t id) {
    if (streams_[id].phase->algorithm == Algorithm::double_binary_tree) return run_tree(id, Signal::received);
    ++streams_[id].received;
    tie_ |= streams_[id].last_wait == clock_.now;
    streams_[id].last_received = clock_.now;
    if (moves_alone(streams_[id])) make_steps(streams_[id]);
    insert_packet(id);
}

inline bool Astra::send_next(std::uint32_t id) {
    Stream& s = streams_[id];
    if (s.inserted == s.popped || s.sends_left == 0 || s.free == 0) return false;
    const int n = s.n, number = s.popped;
    --s.sends_left, ++s.popped, --s.free;
    if (s.phase->algorithm == Algorithm::halving_doubling) {
        const int distance = std::abs(s.packet_step);
        const int peer = wrap(s.index / distance % 2 == 0 ? s.index + distance : s.index - distance, n);
        const auto bit = static_cast<std::uint32_t>(std::bit_width(static_cast<unsigned>(distance)) - 1) +
                         (s.packet_step < 0 ? 16U : 0U);
        const std::int64_t size = s.packet_size;
        chunk_send(id, peer, bit, size);
        chunk_receive(id, peer, bit, size);
        return true;
    }
    const int distance = s.phase->algorithm == Algorithm::ring ? 1 : number % (n - 1) + 1;
    const int to = wrap(s.index + s.direction * distance, n), from = wrap(s.index - s.direction * distance, n);
    const bool ring = s.phase->algorithm == Algorithm::ring;
    chunk_send(id, to, ring ? 0 : static_cast<std::uint32_t>(wrap(s.index - to, n)), s.message);
    chunk_receive(id, from, ring ? 0 : static_cast<std::uint32_t>(wrap(from - streams_[id].index, n)), streams_[id].message);
    return true;
}

inline void Astra::try_exit(std::uint32_t id) {
    const Stream& s = streams_[id];
    if (s.sends_left == 0 && s.free == s.parallel) proceed(id);
}

// Sources of a tree: 0 parent, 1 left, 2 right.
inline void Astra::run_tree(std::uint32_t id, Signal signal) {
    Stream& s = streams_[id];
    const std::int64_t size = s.message;
    const bool root = s.parent < 0, leaf = !root && s.left < 0;
    const auto send_up = [&] {
        const Stream& me = streams_[id];
        // Which child of the parent am I?
        Stream parent = me;
        parent.index = me.parent;
        init_tree(parent);
        chunk_send(id, me.parent, parent.left == me.index ? 1 : 2, size);
        chunk_receive(id, streams_[id].parent, 0, size);
    };
    if (s.state == at_begin) {
        if (leaf) {
            s.state = send_parent;
            return bundle(id, true, false, false, size);
        }
        s.state = root ? wait_one : wait_two;
        const int left = s.left, right = s.right;
        chunk_receive(id, left, 1, size);
        if (!root) chunk_receive(id, right, 2, size);
    } else if (leaf) {
        if (s.state == send_parent) {
            s.state = wait_parent;
            send_up();
        } else if (s.state == wait_parent) {
            s.state = at_end;
            bundle(id, false, false, false, size);
        } else {
            proceed(id);
        }
    } else if (root) {
        if (s.state == wait_one) {
            s.state = send_children;
            return bundle(id, false, true, true, size);
        }
        chunk_send(id, s.left, 0, size);
        proceed(id);
    } else if (s.state == wait_two && signal == Signal::received) {
        s.state = wait_one;
        bundle(id, false, true, false, size);
    } else if (s.state == wait_one && signal == Signal::received) {
        s.state = send_parent;
        bundle(id, false, true, true, size);
    } else if (s.reductions < 1 && signal == Signal::general) {
        ++s.reductions;
    } else if (s.state == send_parent) {
        s.state = wait_parent;
        send_up();
    } else if (s.state == wait_parent && signal == Signal::received) {
        s.state = send_children;
        bundle(id, false, true, true, size);
    } else if (s.state == send_children) {
        const int left = s.left, right = s.right;
        chunk_send(id, left, 0, size);
        chunk_send(id, right, 0, size);
        proceed(id);
    }
}
