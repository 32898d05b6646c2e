// One AttributeProto of a Chakra node: its name and the value that its oneof holds last.
#pragma once

#include "protobuf.hpp"

namespace astrarium::trace {

// Attributes that a model reads; the values are bits in Columns::present and Columns::wrong.
enum class Attr : std::uint8_t {
    IS_CPU_OP,
    COMM_TYPE,
    COMM_SIZE,
    COMM_PRIORITY,
    NUM_OPS,
    TENSOR_SIZE,
    STREAM,
    INVOLVED_DIM,
    PG_NAME,
    COMM_SRC,
    COMM_DST,
    COMM_TAG,  // these four differ between ranks of one class
    OTHER
};

// What the oneof holds, as far as a reader cares.
enum class Held : std::uint8_t { NOTHING, INTEGER, REAL, TEXT, BOOLS, ELSE };

struct Attribute {
    Attr attr = Attr::OTHER;
    Held held = Held::NOTHING;
    std::int64_t integer = 0;  // two's complement of an unsigned 64-bit value
    bool is_unsigned = false;  // `integer` is to be read as unsigned
    double real = 0;
    Span text;
    std::uint32_t bools = 0;  // bit i: value i of the list
    std::uint32_t bool_count = 0;
};

constexpr std::uint32_t MAX_BOOLS = 32;

// Reads the content of an AttributeProto. Fields with the wrong wire type are unknown fields, as in protobuf.
Attribute read_attribute(Cursor cursor);

// True where the value can be read as what `attr` holds (integer, for num_ops also real, for pg_name also text...).
bool readable(const Attribute& attribute);

}  // namespace astrarium::trace
