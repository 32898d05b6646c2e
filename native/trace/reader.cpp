// Parses a file of varint-delimited messages: GlobalMetadata, then Node until the end.
#include <charconv>
#include <limits>

#include "trace_class.hpp"

namespace astrarium::trace {
namespace {

// Empty nodes are legal (every field at its default), but a file of zero bytes must not become a billion nodes.
constexpr std::size_t MAX_EMPTY_NODES = 1024;
constexpr std::size_t MAX_MESSAGE = std::numeric_limits<std::int32_t>::max();

Span frame(Cursor& file) {
    const std::uint8_t* start = file.at();
    const Span message = file.delimited();
    if (message.size > MAX_MESSAGE) file.fail(start, "a message is longer than 2 GiB");
    return message;
}

std::size_t count_nodes(Cursor file) {
    std::size_t nodes = 0, empty = 0;
    while (!file.done()) {
        const std::uint8_t* start = file.at();
        if (frame(file).size == 0 && ++empty > MAX_EMPTY_NODES) file.fail(start, "more than 1024 empty nodes");
        if (++nodes > MAX_MESSAGE) file.fail(start, "more than 2^31 nodes");
    }
    return nodes;
}

void read_ids(std::vector<std::uint64_t>& into, Cursor packed) {
    while (!packed.done()) into.push_back(packed.varint());
}

}  // namespace

class Reader {
public:
    Reader(TraceClass& into, Strings& strings) : to_(into), c_(into.columns_), strings_(strings) {}

    void run() {
        Cursor file(to_.data_.data, to_.data_.data, to_.data_.data + to_.data_.size);
        if (file.done()) file.fail(file.at(), "the file is empty");
        to_.metadata_ = frame(file);
        validate(Cursor(file, to_.metadata_));
        to_.holes_.push_back({0, static_cast<std::uint32_t>(file.offset()), -1, HoleKind::METADATA, Attr::OTHER, Filling::NOTHING});
        c_.resize(count_nodes(file));
        for (node_ = 0; !file.done(); node_++) {
            const std::uint8_t* start = file.at();
            const Span body = frame(file);
            read_node(Cursor(file, body), file.offset(start));
        }
    }

private:
    void read_node(Cursor cursor, std::size_t start) {
        const std::size_t offset = cursor.offset();
        c_.offset[node_] = offset;
        c_.size[node_] = static_cast<std::uint32_t>(cursor.left());
        holes_.clear();
        values_ = Span{};
        add_hole(start, offset, HoleKind::FRAME);
        while (!cursor.done()) read_field(cursor);
        c_.data_ptr[node_ + 1] = static_cast<std::int64_t>(c_.data_dep.size());
        if (!c_.ctrl_dep.empty()) c_.ctrl_ptr[node_ + 1] = static_cast<std::int64_t>(c_.ctrl_dep.size());
        add_hole(cursor.offset(), cursor.offset(), HoleKind::END);
        if (is_comm(static_cast<NodeType>(c_.type[node_]))) finish_comm(cursor);
        if (values_.size > 0 && static_cast<NodeType>(c_.type[node_]) == NodeType::METADATA) finish_metadata(cursor);
    }

    void read_field(Cursor& cursor) {
        const std::uint32_t tag = cursor.tag();
        switch (tag) {
            case 1 << 3 | VARINT: c_.id[node_] = cursor.varint(); break;
            case 2 << 3 | DELIMITED: read_name(cursor); break;
            case 3 << 3 | VARINT: read_type(cursor.varint()); break;
            case 4 << 3 | VARINT: c_.ctrl_dep.push_back(cursor.varint()); break;
            case 4 << 3 | DELIMITED: read_ids(c_.ctrl_dep, Cursor(cursor, cursor.delimited())); break;
            case 5 << 3 | VARINT: c_.data_dep.push_back(cursor.varint()); break;
            case 5 << 3 | DELIMITED: read_ids(c_.data_dep, Cursor(cursor, cursor.delimited())); break;
            case 6 << 3 | VARINT: c_.start[node_] = cursor.varint(); break;
            case 7 << 3 | VARINT: c_.duration[node_] = cursor.varint(); break;
            case 8 << 3 | DELIMITED: read_inputs(Cursor(cursor, cursor.delimited())); break;
            case 9 << 3 | DELIMITED: validate(Cursor(cursor, cursor.delimited())); break;
            case 10 << 3 | DELIMITED: read_attr(cursor); break;
            default: cursor.skip(tag);
        }
    }

    void read_type(std::uint64_t value) { c_.type[node_] = static_cast<std::uint8_t>(value <= 7 ? value : 255); }

    void read_name(Cursor& cursor) {
        const std::size_t start = cursor.offset();
        const Span name = cursor.delimited();
        c_.name_offset[node_] = cursor.offset(name.data);
        c_.name_size[node_] = static_cast<std::uint32_t>(name.size);
        add_hole(start, cursor.offset(), HoleKind::NAME);
    }

    void read_inputs(Cursor info) {
        while (!info.done()) {
            const std::uint32_t tag = info.tag();
            if (tag == (1 << 3 | DELIMITED)) values_ = info.delimited();
            else info.skip(tag);
        }
    }

    void read_attr(Cursor& cursor) {
        const std::size_t start = cursor.offset();
        const Attribute attribute = read_attribute(Cursor(cursor, cursor.delimited()));
        if (attribute.attr == Attr::OTHER) return;
        const Filling filling = filling_of(attribute);
        if (attribute.attr >= Attr::PG_NAME) { add_hole(start, cursor.offset(), HoleKind::ATTRIBUTE, attribute.attr, filling); }
        if (filling == Filling::NOTHING) return;
        const auto bit = static_cast<std::uint16_t>(1u << static_cast<unsigned>(attribute.attr));
        const bool good = filling == Filling::READABLE;
        c_.present[node_] = static_cast<std::uint16_t>(good ? c_.present[node_] | bit : c_.present[node_] & ~bit);
        c_.wrong[node_] = static_cast<std::uint16_t>(good ? c_.wrong[node_] & ~bit : c_.wrong[node_] | bit);
        store(attribute, good);
    }

    void store(const Attribute& from, bool good) {
        const std::int64_t integer = good ? from.integer : 0;
        switch (from.attr) {
            case Attr::IS_CPU_OP: c_.is_cpu_op[node_] = integer != 0; break;
            case Attr::COMM_TYPE: c_.comm_type[node_] = integer; break;
            case Attr::COMM_SIZE: c_.comm_size[node_] = integer; break;
            case Attr::COMM_PRIORITY: c_.comm_priority[node_] = integer; break;
            case Attr::TENSOR_SIZE: c_.tensor_size[node_] = integer; break;
            case Attr::STREAM: c_.stream[node_] = integer; break;
            case Attr::NUM_OPS: c_.num_ops[node_] = good ? real(from) : 0; break;
            case Attr::INVOLVED_DIM:
                c_.dims[node_] = good ? from.bools : 0;
                c_.dims_count[node_] = static_cast<std::uint8_t>(good ? from.bool_count : 0);
                break;
            default: break;
        }
    }

    static double real(const Attribute& from) {
        if (from.held == Held::REAL) return from.real;
        return from.is_unsigned ? static_cast<double>(static_cast<std::uint64_t>(from.integer)) : static_cast<double>(from.integer);
    }

    void add_hole(std::size_t start, std::size_t end, HoleKind kind, Attr attr = Attr::OTHER, Filling filling = Filling::NOTHING) {
        holes_.push_back({start, static_cast<std::uint32_t>(end - start), -1, kind, attr, filling});
    }

    void finish_comm(const Cursor& cursor) {
        const std::size_t slot = c_.comm_node.size();
        c_.comm_node.push_back(static_cast<std::int32_t>(node_));
        to_.rows_.append(1);
        for (Hole& hole : holes_) {
            hole.slot = static_cast<std::int32_t>(slot);
            to_.holes_.push_back(hole);
            if (hole.kind == HoleKind::ATTRIBUTE) refill(cursor, hole, slot);
        }
    }

    // Values of the four masked attributes, in file order: the last one that holds something counts.
    void refill(const Cursor& cursor, const Hole& hole, std::size_t slot) {
        Cursor again(cursor, Span{to_.data_.data + hole.offset, hole.size});
        fill(to_.rows_, slot, read_attribute(Cursor(again, again.delimited())), hole.filling, strings_);
    }

    void finish_metadata(const Cursor& cursor) {
        c_.meta_node.push_back(static_cast<std::int32_t>(node_));
        c_.meta_offset.push_back(cursor.offset(values_.data));
        c_.meta_size.push_back(static_cast<std::uint32_t>(values_.size));
    }

    TraceClass& to_;
    Columns& c_;
    Strings& strings_;
    std::size_t node_ = 0;
    std::vector<Hole> holes_;
    Span values_;
};

TraceClass::TraceClass(Span data, Strings& strings) : data_(data) {
    Reader(*this, strings).run();
    differences_.emplace_back();
    hash_ = hash_template();
}

void fill(Rows& rows, std::size_t at, const Attribute& attribute, Filling filling, Strings& strings) {
    if (filling == Filling::NOTHING) return;
    const std::int64_t value = filling == Filling::READABLE ? attribute.integer : -1;
    switch (attribute.attr) {
        case Attr::COMM_SRC: rows.source[at] = value; return;
        case Attr::COMM_DST: rows.destination[at] = value; return;
        case Attr::COMM_TAG: rows.tag[at] = value; return;
        default: break;
    }
    if (filling == Filling::WRONG) {
        rows.group[at] = -1;
    } else if (attribute.held == Held::TEXT) {
        const auto* text = reinterpret_cast<const char*>(attribute.text.data);
        rows.group[at] = strings.add({text, attribute.text.size});
    } else {
        char digits[24];
        const auto end = attribute.is_unsigned ? std::to_chars(digits, digits + 24, static_cast<std::uint64_t>(value)).ptr
                                               : std::to_chars(digits, digits + 24, value).ptr;
        rows.group[at] = strings.add({digits, static_cast<std::size_t>(end - digits)});
    }
}

}  // namespace astrarium::trace
