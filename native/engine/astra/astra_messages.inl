// Messages: matching, rendezvous, and the two analytical networks.

inline std::int16_t& Astra::surplus(const Stream& s, std::uint32_t phase, std::uint32_t source_number) {
    Instance& i = instances_[s.instance];
    const auto chunks = static_cast<std::size_t>(plan_.collectives[i.collective].total_chunks);
    return i.surplus[(s.position * chunks + s.chunk) * i.surplus_width + i.phase_offset[phase] + source_number];
}

static inline std::int64_t stream_tag(std::uint32_t serial, std::uint32_t chunk) {
    return -1 - (static_cast<std::int64_t>(serial) << 24 | chunk);
}

inline void Astra::chunk_send(std::uint32_t id, int to_index, std::uint32_t source_number, std::int64_t size) {
    Stream& s = streams_[id];
    const std::uint32_t to = rank_at(s, to_index);
    if (policy_.rendezvous)
        return send({stream_tag(instances_[s.instance].serial, s.chunk), size, s.rank, to}, {}, true);
    const Event then{chunk_arrives, stream_at(s, to_index),
                     static_cast<std::uint64_t>(s.phase_number) << 32 | source_number};
    if (!plan_.network.medium->meets && !record_) {
        const bool fixed = s.phase->algorithm == Algorithm::ring;
        if (!fixed || s.delay < 0)
            s.delay = unshared_delay(static_cast<std::uint32_t>(plan_.npu_of[s.rank]),
                                     static_cast<std::uint32_t>(plan_.npu_of[to]), size);
        clock_.after(s.delay, then);
        return;
    }
    transmit(static_cast<std::uint32_t>(plan_.npu_of[s.rank]), static_cast<std::uint32_t>(plan_.npu_of[to]), size, then);
}

inline void Astra::chunk_receive(std::uint32_t id, int from_index, std::uint32_t source_number, std::int64_t size) {
    const Stream& s = streams_[id];
    if (policy_.rendezvous) {
        receive({stream_tag(instances_[s.instance].serial, s.chunk), size, rank_at(s, from_index), s.rank},
                {Callback::stream, id, 0}, true);
        return;
    }
    if (surplus(s, static_cast<std::uint32_t>(s.phase_number), source_number)-- > 0)
        clock_.after(0, {chunk_received, id, 0});
}

// Which of several chunks goes on first would be a choice, where messages of several ranks come at one instant: it matters
// where the chunks then ask for one link.
inline void Astra::note_arrival(std::uint32_t rank, std::uint32_t stream, std::uint32_t source) {
    if (!plan_.network.medium->links) return;
    last_arrival_.resize(ranks_.size());
    Arrival& last = last_arrival_[rank];
    if (last.instant != clock_.now) last = {clock_.now, stream, source, false, false};
    last.streams |= last.stream != stream;
    last.sources |= last.source != source;
    tie_ |= last.streams && last.sources;
}

inline void Astra::chunk_arrived(std::uint32_t id, std::uint32_t phase, std::uint32_t source_number) {
    const Stream& s = streams_[id];
    if (watch_ && s.begun == clock_.now) tie_ = true;  // whether the chunk had begun yet would be a choice
    if (surplus(s, phase, source_number)++ >= 0) return;
    if (watch_) note_arrival(s.rank, id, source_number);
    run_received(id);
}

inline void Astra::send(MessageKey key, Callback sent, bool may_rendezvous) {
    if (key.source == key.destination)
        throw BadTrace("rank " + std::to_string(key.source) + " sends to itself (tag " + std::to_string(key.tag) + ")");
    if (key.destination >= plan_.ranks())
        throw BadTrace("rank " + std::to_string(key.source) + " sends to rank " + std::to_string(key.destination) +
                          ", which does not exist");
    if (may_rendezvous && policy_.rendezvous) {  // wait for the receiver's request
        pending_.push_back({key, sent});
        const MessageKey request{key.tag ^ (std::int64_t{1} << 61), 8192, key.destination, key.source};
        return receive(request, {Callback::request_in, static_cast<std::uint32_t>(pending_.size() - 1), 0}, false);
    }
    Lane_& lane = lanes_[key];
    const std::uint32_t id = entry(lane, lane.sends++);
    entries_[id].sent = sent;
    transmit(static_cast<std::uint32_t>(plan_.npu_of[key.source]), static_cast<std::uint32_t>(plan_.npu_of[key.destination]),
             key.size, {message_arrives, id, 0});
}

inline void Astra::receive(MessageKey key, Callback received, bool may_rendezvous) {
    if (may_rendezvous && policy_.rendezvous) {  // ask the sender first, post when the request has left
        pending_.push_back({key, received});
        const MessageKey request{key.tag ^ (std::int64_t{1} << 61), 8192, key.destination, key.source};
        return send(request, {Callback::request_out, static_cast<std::uint32_t>(pending_.size() - 1), 0}, false);
    }
    Lane_& lane = lanes_[key];
    const std::uint32_t id = entry(lane, lane.receives++);
    if (entries_[id].arrived) {
        entry_free_.push_back(id);
        if (callback_free_.empty()) {
            callback_free_.push_back(static_cast<std::uint32_t>(callbacks_.size()));
            callbacks_.emplace_back();
        }
        const std::uint32_t c = callback_free_.back();
        callback_free_.pop_back();
        callbacks_[c] = received;
        return clock_.after(0, {callback_due, c, 0});
    }
    entries_[id].received = received;
    entries_[id].wanted = true;
}

// The entry of a lane's message number `number`, made by whichever side comes first and dropped when both have come.
inline std::uint32_t Astra::entry(Lane_& lane, std::uint32_t number) {
    while (lane.first + lane.entries.size() <= number) {
        if (entry_free_.empty()) {
            entry_free_.push_back(static_cast<std::uint32_t>(entries_.size()));
            entries_.emplace_back();
        }
        const std::uint32_t id = entry_free_.back();
        entry_free_.pop_back();
        entries_[id] = Entry{};
        lane.entries.push_back(id);
    }
    const std::uint32_t id = lane.entries[number - lane.first];
    while (!lane.entries.empty() && lane.first < lane.sends && lane.first < lane.receives) {
        lane.entries.pop_front();
        ++lane.first;
    }
    return id;
}

inline void Astra::message_arrived(std::uint32_t id) {
    const Entry e = entries_[id];
    if (e.wanted) {
        entry_free_.push_back(id);
    } else {
        entries_[id].arrived = true;
    }
    call(e.sent);
    if (e.wanted) call(e.received);
}

inline void Astra::call(Callback c) {
    switch (c.what) {
        case Callback::nothing: break;
        case Callback::node: complete(c.a, c.b); break;
        case Callback::stream: run_received(c.a); break;
        case Callback::request_in: {
            const Pending p = pending_[c.a];
            send(p.key, p.callback, false);
            break;
        }
        case Callback::request_out: {
            const Pending p = pending_[c.a];
            receive(p.key, p.callback, false);
            break;
        }
        case Callback::custom: custom_completed(c.a, c.b); break;
    }
}

// Over the lowest dim in which two NPUs differ, and that one only.
static inline Tick unshared(const Plan& plan, const Geometry& geometry, int from, int to, std::int64_t size, std::size_t& dim) {
    const auto& dims = plan.network.dims;
    for (dim = 0; dim + 1 < dims.size() && from % dims[dim].npus == to % dims[dim].npus; ++dim) from /= dims[dim].npus, to /= dims[dim].npus;
    const Dim& link = dims[dim];
    const int hops = geometry.hops(dim, from % link.npus, to % link.npus);
    return ticks(hops * link.latency + static_cast<double>(size) / link.bandwidth, true);
}

inline Tick Astra::unshared_delay(std::uint32_t from, std::uint32_t to, std::int64_t size) {
    std::size_t dim = 0;
    const Tick delay = unshared(plan_, geometry_, static_cast<int>(from), static_cast<int>(to), size, dim);
    if (record_) {
        port_bytes_[from * plan_.network.dims.size() + dim] += size;
        const Tick busy = ticks(static_cast<double>(size) / plan_.network.dims[dim].bandwidth, true);
        port_busy_[from * plan_.network.dims.size() + dim] += busy;
        usage_.add(dim, clock_.now, busy);
    }
    return delay;
}

inline void Astra::transmit(std::uint32_t from, std::uint32_t to, std::int64_t size, Event then) {
    if (!plan_.network.medium->meets) return clock_.after(unshared_delay(from, to, size), then);
    std::uint32_t m = message_free_;
    if (m == none) {
        m = static_cast<std::uint32_t>(messages_.size());
        messages_.emplace_back();
    } else {
        message_free_ = messages_[m].next;
    }
    const int n = plan_.network.dims[0].npus;
    const int forward = wrap(static_cast<int>(to) - static_cast<int>(from), n);
    messages_[m] = {then, size, none, static_cast<std::int32_t>(from), static_cast<std::int32_t>(to),
                    n - forward < forward ? -1 : 1, true};
    hop(m);
}

// One dim: ring links 2 per NPU (forward, backward), switch an up and a down link per NPU, fully_connected one per pair.
inline std::uint32_t Astra::next_link(Message& m) const {
    const int n = plan_.network.dims[0].npus;
    const int at = m.at;
    switch (plan_.network.dims[0].shape) {
        case Shape::ring:
            m.at = wrap(at + m.direction, n);
            return static_cast<std::uint32_t>((alone_ ? 0 : at * 2) + (m.direction < 0));
        case Shape::switch_:
            m.at = at == n ? m.destination : n;
            return static_cast<std::uint32_t>(at == n ? n + (alone_ ? 0 : m.destination) : alone_ ? 0 : at);
        default: m.at = m.destination; return static_cast<std::uint32_t>(at * n + m.destination);
    }
}

inline void Astra::hop(std::uint32_t m) {
    const std::uint32_t id = next_link(messages_[m]);
    Link& link = links_[id];
    if (watch_) {  // messages of several ranks (alone: images): who of them is first at an instant would be a choice
        tie_ |= link.last_later == clock_.now || (!messages_[m].first && link.last_first == clock_.now);
        (messages_[m].first ? link.last_first : link.last_later) = clock_.now;
        messages_[m].first = false;
    }
    messages_[m].next = none;
    if (!link.busy) return start_link(id, m);
    if (link.head == none)
        link.head = m;
    else
        messages_[link.tail].next = m;
    link.tail = m;
}

inline void Astra::start_link(std::uint32_t id, std::uint32_t m) {
    links_[id].busy = true;
    const std::int64_t size = messages_[m].size;
    if (size != last_size_) {
        const Dim& dim = plan_.network.dims[0];
        const double serial = static_cast<double>(size) / dim.bandwidth;
        last_size_ = size, last_serial_ = ticks(serial, true), last_transfer_ = ticks(dim.latency + serial, true);
    }
    if (record_) note_use(id, size);
    clock_.after(last_transfer_, {next_hop, m, 0});
    clock_.after(last_serial_, {link_free, id, 0});
}

inline void Astra::note_use(std::uint32_t link, std::int64_t size) {
    port_bytes_[link] += size, port_busy_[link] += last_serial_;
    const Dim& dim = plan_.network.dims[0];
    if (dim.shape != Shape::switch_ || link < static_cast<std::uint32_t>(dim.npus)) usage_.add(0, clock_.now, last_serial_);
}

inline void Astra::link_freed(std::uint32_t id) {
    Link& link = links_[id];
    link.busy = false;
    if (link.head == none) return;
    const std::uint32_t m = link.head;
    link.head = messages_[m].next;
    start_link(id, m);
}
