// A test is a function that CHECKs; native_tests runs all of them, or those whose name contains its argument.
#pragma once
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace astrarium::tests {

struct Test {
    std::string name;
    std::function<void()> run;
};
std::vector<Test>& all();
struct Added {
    Added(std::string name, std::function<void()> run) { all().push_back({std::move(name), std::move(run)}); }
};
void fail(const char* what, const char* file, int line);

// The same numbers on every machine: std::mt19937_64 is fixed by the standard, its distributions are not.
class Random {
public:
    explicit Random(std::uint64_t seed) : engine_(seed) {}
    std::uint64_t below(std::uint64_t end) { return engine_() % end; }

private:
    std::mt19937_64 engine_;
};

}  // namespace astrarium::tests

#define CHECK(what) ((what) ? void() : astrarium::tests::fail(#what, __FILE__, __LINE__))
#define TEST(name)                                                  \
    static void name();                                             \
    static const astrarium::tests::Added added_##name(#name, name); \
    static void name()
