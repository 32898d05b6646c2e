// Ranks whose traces are equal up to what names a rank's place: group names, peers, tags and the names of comm nodes.
//
// The first rank of a class is parsed into columns, and its file becomes a template: literal bytes with holes. Another
// rank belongs to the class when its bytes equal the literals and each of its holes holds the same kind of thing. Of such
// a rank only one row of (group, source, destination, tag) and the hole bytes that differ are kept, so that it can be
// written again byte for byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "attribute.hpp"

namespace astrarium::trace {

// Texts by number, in order of first appearance.
class Strings {
public:
    std::int32_t add(std::string_view text);
    const std::vector<std::string>& all() const { return all_; }

private:
    std::map<std::string, std::int32_t, std::less<>> index_;
    std::vector<std::string> all_;
};

enum class NodeType : std::uint8_t { INVALID, METADATA, MEM_LOAD, MEM_STORE, COMP, COMM_SEND, COMM_RECV, COMM_COLL, UNKNOWN = 255 };

inline bool is_comm(NodeType type) { return type >= NodeType::COMM_SEND && type <= NodeType::COMM_COLL; }

// Memory that is zero as the system gives it: what is never written takes no room.
template <class T>
struct Zeroed {
    using value_type = T;

    Zeroed() = default;
    template <class U>
    explicit Zeroed(const Zeroed<U>&) {}

    T* allocate(std::size_t count) {
        if (void* found = std::calloc(count, sizeof(T))) return static_cast<T*>(found);
        throw std::bad_alloc();
    }
    void deallocate(T* held, std::size_t) { std::free(held); }
    template <class U>
    void construct(U*) {}
    template <class U, class V>
    void construct(U* at, const V& value) {
        *at = value;
    }
    friend bool operator==(const Zeroed&, const Zeroed&) { return true; }
};

// Sized once.
template <class T>
using Column = std::vector<T, Zeroed<T>>;

// One entry per node, in file order, unless said otherwise. Offsets count from the start of the file.
struct Columns {
    Column<std::uint64_t> id, start, duration, offset, name_offset;
    Column<std::uint32_t> size, name_size, dims;
    Column<std::uint8_t> type, is_cpu_op, dims_count;
    Column<std::uint16_t> present, wrong;  // bit per Attr
    Column<std::int64_t> comm_type, comm_size, comm_priority, tensor_size, stream;
    Column<double> num_ops;
    Column<std::int64_t> data_ptr, ctrl_ptr;        // nodes + 1
    std::vector<std::uint64_t> data_dep, ctrl_dep;  // node ids
    std::vector<std::int32_t> comm_node;            // indexes of send, receive and collective nodes
    std::vector<std::int32_t> meta_node;            // METADATA nodes with inputs.values, and where it is
    std::vector<std::uint64_t> meta_offset;
    std::vector<std::uint32_t> meta_size;

    void resize(std::size_t nodes);
};

// One entry per (rank of the class, comm node); -1 where absent or unreadable.
struct Rows {
    std::vector<std::int32_t> group;
    std::vector<std::int64_t> source, destination, tag;

    void append(std::size_t count);
    void truncate(std::size_t count);
};

enum class HoleKind : std::uint8_t { METADATA, FRAME, NAME, ATTRIBUTE, END };
enum class Filling : std::uint8_t { NOTHING, READABLE, WRONG };

struct Hole {
    std::uint64_t offset;
    std::uint32_t size;
    std::int32_t slot;  // comm node number
    HoleKind kind;
    Attr attr;
    Filling filling;
};

inline Filling filling_of(const Attribute& attribute) {
    if (attribute.held == Held::NOTHING) return Filling::NOTHING;
    return readable(attribute) ? Filling::READABLE : Filling::WRONG;
}

class TraceClass {
public:
    // Parses a whole file; `data` must outlive the object. Throws ParseError.
    TraceClass(Span data, Strings& strings);

    // Adds a rank if it belongs to the class; false if not. The bytes are not kept.
    bool add(Span data, Strings& strings);

    // The bytes of the file that row `row` was read from.
    std::vector<std::uint8_t> rebuild(std::size_t row) const;

    std::size_t ranks() const { return differences_.size(); }
    std::uint64_t hash() const { return hash_; }
    Span metadata() const { return metadata_; }
    const Columns& columns() const { return columns_; }
    const Rows& rows() const { return rows_; }

private:
    friend class Reader;
    friend class Matcher;
    std::uint64_t hash_template() const;

    Span data_;
    Span metadata_;
    Columns columns_;
    Rows rows_;
    std::vector<Hole> holes_;
    std::vector<std::vector<std::uint8_t>> differences_;  // per rank: (hole number - last, size, bytes)*, varints
    std::uint64_t hash_ = 0;
};

// Writes what `attribute` says of comm node `at` into the rows.
void fill(Rows& rows, std::size_t at, const Attribute& attribute, Filling filling, Strings& strings);

}  // namespace astrarium::trace
