#include "attribute.hpp"

#include <bit>

namespace astrarium::trace {
namespace {

bool is(Span name, const char* word) { return std::memcmp(name.data, word, name.size) == 0; }

Attr attr_of(Span name) {
    switch (name.size) {
        case 6: return is(name, "stream") ? Attr::STREAM : Attr::OTHER;
        case 7: return is(name, "pg_name") ? Attr::PG_NAME : is(name, "num_ops") ? Attr::NUM_OPS : Attr::OTHER;
        case 8:
            if (is(name, "comm_src")) return Attr::COMM_SRC;
            if (is(name, "comm_dst")) return Attr::COMM_DST;
            return is(name, "comm_tag") ? Attr::COMM_TAG : Attr::OTHER;
        case 9:
            if (is(name, "comm_size")) return Attr::COMM_SIZE;
            if (is(name, "comm_type")) return Attr::COMM_TYPE;
            return is(name, "is_cpu_op") ? Attr::IS_CPU_OP : Attr::OTHER;
        case 11: return is(name, "tensor_size") ? Attr::TENSOR_SIZE : Attr::OTHER;
        case 12: return is(name, "involved_dim") ? Attr::INVOLVED_DIM : Attr::OTHER;
        case 13: return is(name, "comm_priority") ? Attr::COMM_PRIORITY : Attr::OTHER;
        default: return Attr::OTHER;
    }
}

// Wire type of fields 3..32 of AttributeProto; lists (even numbers), strings and bytes are delimited.
Wire wire_of(std::uint32_t field) {
    switch (field) {
        case 3:
        case 21:
        case 25: return FIXED64;
        case 5:
        case 19:
        case 23: return FIXED32;
        case 7:
        case 9:
        case 11:
        case 13:
        case 15:
        case 17:
        case 27: return VARINT;
        default: return DELIMITED;
    }
}

std::int64_t zigzag(std::uint64_t value) { return static_cast<std::int64_t>((value >> 1) ^ (0 - (value & 1))); }

void set_integer(Attribute& into, std::int64_t value, bool is_unsigned = false) {
    into.held = Held::INTEGER;
    into.integer = value;
    into.is_unsigned = is_unsigned;
}

void set_varint(Attribute& into, std::uint32_t field, std::uint64_t value) {
    const auto low = static_cast<std::uint32_t>(value);
    switch (field) {
        case 7: return set_integer(into, static_cast<std::int32_t>(low));
        case 9: return set_integer(into, static_cast<std::int64_t>(value));
        case 11: return set_integer(into, low);
        case 13: return set_integer(into, static_cast<std::int64_t>(value), true);
        case 15: return set_integer(into, static_cast<std::int32_t>((low >> 1) ^ (0 - (low & 1))));
        case 17: return set_integer(into, zigzag(value));
        default: return set_integer(into, value != 0);
    }
}

void set_fixed(Attribute& into, std::uint32_t field, std::uint64_t value) {
    if (field == 3 || field == 5) {
        into.held = Held::REAL;
        into.real =
            field == 3 ? std::bit_cast<double>(value) : static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(value)));
    } else if (field == 23) {
        set_integer(into, static_cast<std::int32_t>(static_cast<std::uint32_t>(value)));
    } else {
        set_integer(into, static_cast<std::int64_t>(value), field == 21);
    }
}

void add_bool(Attribute& into, std::uint64_t value) {
    if (into.bool_count < MAX_BOOLS && value != 0) into.bools |= 1u << into.bool_count;
    if (into.bool_count <= MAX_BOOLS) into.bool_count++;
}

// BoolList: field 1, packed or not. A list that appears again continues.
void add_bools(Attribute& into, Cursor list) {
    while (!list.done()) {
        const std::uint32_t tag = list.tag();
        if (tag == (1 << 3 | VARINT)) {
            add_bool(into, list.varint());
        } else if (tag == (1 << 3 | DELIMITED)) {
            Cursor packed(list, list.delimited());
            while (!packed.done()) add_bool(into, packed.varint());
        } else {
            list.skip(tag);
        }
    }
}

void set_delimited(Attribute& into, std::uint32_t field, const Cursor& cursor, Span value) {
    if (field == 28) {
        if (into.held != Held::BOOLS) into.bools = into.bool_count = 0;
        into.held = Held::BOOLS;
        return add_bools(into, Cursor(cursor, value));
    }
    into.held = field == 29 ? Held::TEXT : Held::ELSE;
    into.text = value;
}

}  // namespace

Attribute read_attribute(Cursor cursor) {
    Attribute found;
    Span name;
    while (!cursor.done()) {
        const std::uint32_t tag = cursor.tag();
        const std::uint32_t field = tag >> 3;
        if (tag == (1 << 3 | DELIMITED)) {
            name = cursor.delimited();
        } else if (field < 3 || field > 32 || (tag & 7) != wire_of(field)) {
            cursor.skip(tag);
        } else if ((tag & 7) == DELIMITED) {
            const Span value = cursor.delimited();
            set_delimited(found, field, cursor, value);
        } else if ((tag & 7) == VARINT) {
            set_varint(found, field, cursor.varint());
        } else {
            set_fixed(found, field, (tag & 7) == FIXED64 ? cursor.fixed64() : cursor.fixed32());
        }
    }
    found.attr = attr_of(name);
    return found;
}

bool readable(const Attribute& attribute) {
    switch (attribute.attr) {
        case Attr::INVOLVED_DIM: return attribute.held == Held::BOOLS && attribute.bool_count <= MAX_BOOLS;
        case Attr::PG_NAME: return attribute.held == Held::INTEGER || attribute.held == Held::TEXT;
        case Attr::NUM_OPS: return attribute.held == Held::INTEGER || attribute.held == Held::REAL;
        default: return attribute.held == Held::INTEGER;
    }
}

}  // namespace astrarium::trace
