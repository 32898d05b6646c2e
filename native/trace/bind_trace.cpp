// astrarium._core.trace: used by astrarium/trace/_native.py only. Objects are filled by one thread, then read.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include "order.hpp"
#include "trace_class.hpp"

namespace nb = nanobind;
namespace at = astrarium::trace;

namespace {

at::Span span_of(const nb::bytes& data) { return {reinterpret_cast<const std::uint8_t*>(data.c_str()), data.size()}; }

// A class together with the bytes that it points into.
class BoundClass {
public:
    BoundClass(nb::bytes data, at::Strings& strings) : data_(std::move(data)), class_(parse(data_, strings)) {}

    bool add(const nb::bytes& data, at::Strings& strings) {
        if (sealed_) throw nb::value_error("the class is sealed: its columns have been read");
        const at::Span span = span_of(data);
        nb::gil_scoped_release release;
        return class_.add(span, strings);
    }

    nb::bytes rebuild(std::size_t row) const {
        const std::vector<std::uint8_t> bytes = class_.rebuild(row);
        return nb::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }

    nb::bytes metadata() const { return nb::bytes(reinterpret_cast<const char*>(class_.metadata().data), class_.metadata().size); }

    const nb::bytes& data() const { return data_; }
    std::size_t ranks() const { return class_.ranks(); }
    std::uint64_t hash() const { return class_.hash(); }
    const at::TraceClass& seal() {
        sealed_ = true;
        return class_;
    }

private:
    static at::TraceClass parse(const nb::bytes& data, at::Strings& strings) {
        const at::Span span = span_of(data);
        nb::gil_scoped_release release;
        return at::TraceClass(span, strings);
    }

    nb::bytes data_;
    at::TraceClass class_;
    bool sealed_ = false;
};

template <class T>
nb::object view(const T& column, nb::handle owner) {
    return nb::cast(nb::ndarray<nb::numpy, const typename T::value_type, nb::ndim<1>>(column.data(), {column.size()}, owner));
}

template <class T>
nb::object table(const std::vector<T>& column, std::size_t rows, nb::handle owner) {
    const std::size_t width = rows == 0 ? 0 : column.size() / rows;
    return nb::cast(nb::ndarray<nb::numpy, const T, nb::ndim<2>>(column.data(), {rows, width}, owner));
}

void put_node_columns(nb::dict& into, const at::Columns& c, nb::handle self) {
    into["node_id"] = view(c.id, self);
    into["type"] = view(c.type, self);
    into["start"] = view(c.start, self);
    into["duration"] = view(c.duration, self);
    into["offset"] = view(c.offset, self);
    into["size"] = view(c.size, self);
    into["name_offset"] = view(c.name_offset, self);
    into["name_size"] = view(c.name_size, self);
    into["present"] = view(c.present, self);
    into["wrong"] = view(c.wrong, self);
}

void put_attribute_columns(nb::dict& into, const at::Columns& c, nb::handle self) {
    into["is_cpu_op"] = view(c.is_cpu_op, self);
    into["comm_type"] = view(c.comm_type, self);
    into["comm_size"] = view(c.comm_size, self);
    into["comm_priority"] = view(c.comm_priority, self);
    into["num_ops"] = view(c.num_ops, self);
    into["tensor_size"] = view(c.tensor_size, self);
    into["stream"] = view(c.stream, self);
    into["dims"] = view(c.dims, self);
    into["dims_count"] = view(c.dims_count, self);
}

void put_lists(nb::dict& into, const at::Columns& c, nb::handle self) {
    into["data_ptr"] = view(c.data_ptr, self);
    into["data_dep"] = view(c.data_dep, self);
    into["ctrl_ptr"] = view(c.ctrl_ptr, self);
    into["ctrl_dep"] = view(c.ctrl_dep, self);
    into["comm_node"] = view(c.comm_node, self);
    into["meta_node"] = view(c.meta_node, self);
    into["meta_offset"] = view(c.meta_offset, self);
    into["meta_size"] = view(c.meta_size, self);
}

void put_rows(nb::dict& into, const at::Rows& rows, std::size_t ranks, nb::handle self) {
    into["group"] = table(rows.group, ranks, self);
    into["source"] = table(rows.source, ranks, self);
    into["destination"] = table(rows.destination, ranks, self);
    into["tag"] = table(rows.tag, ranks, self);
}

nb::dict columns(nb::handle self) {
    const at::TraceClass& held = nb::cast<BoundClass&>(self).seal();
    nb::dict found;
    put_node_columns(found, held.columns(), self);
    put_attribute_columns(found, held.columns(), self);
    put_lists(found, held.columns(), self);
    put_rows(found, held.rows(), held.ranks(), self);
    return found;
}

nb::list texts(const at::Strings& strings) {
    nb::list found;
    for (const std::string& text : strings.all()) found.append(nb::bytes(text.data(), text.size()));
    return found;
}

template <class T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::object topological_order(Array<std::uint64_t> id, Array<std::int64_t> ptr, Array<std::int32_t> parent) {
    if (ptr.size() != id.size() + 1) throw nb::value_error("topological_order: ptr must have one entry more than id");
    auto* order = new std::vector<std::int32_t>;
    nb::capsule owner(order, [](void* held) noexcept { delete static_cast<std::vector<std::int32_t>*>(held); });
    {
        nb::gil_scoped_release release;
        *order = at::topological_order(id.data(), id.size(), ptr.data(), parent.data(), parent.size());
    }
    return nb::cast(nb::ndarray<nb::numpy, std::int32_t, nb::ndim<1>>(order->data(), {order->size()}, owner));
}

void raise_parse_error(const std::exception_ptr& thrown, void*) {
    try {
        std::rethrow_exception(thrown);
    } catch (const at::ParseError& error) { PyErr_SetObject(PyExc_ValueError, nb::make_tuple(error.offset, error.what).ptr()); }
}

}  // namespace

void bind_trace(nb::module_& core) {
    nb::module_ m = core.def_submodule("trace", "Chakra execution traces: bytes in, columns out.");
    nb::register_exception_translator(raise_parse_error);
    nb::class_<at::Strings>(m, "Strings").def(nb::init<>()).def("all", &texts);
    nb::class_<BoundClass>(m, "TraceClass")
        .def(nb::init<nb::bytes, at::Strings&>(), nb::arg("data"), nb::arg("strings"))
        .def("add", &BoundClass::add, nb::arg("data"), nb::arg("strings"))
        .def("rebuild", &BoundClass::rebuild, nb::arg("row"))
        .def("columns", [](nb::handle self) { return columns(self); })
        .def_prop_ro("data", &BoundClass::data)
        .def_prop_ro("metadata", &BoundClass::metadata)
        .def_prop_ro("ranks", &BoundClass::ranks)
        .def_prop_ro("hash", &BoundClass::hash);
    m.def("topological_order", &topological_order, nb::arg("id"), nb::arg("ptr"), nb::arg("parent"));
}
