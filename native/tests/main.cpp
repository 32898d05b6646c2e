#include "check.hpp"

#include <cstdio>
#include <exception>

#include "clock/interrupt.hpp"

namespace astrarium {

void stop_if_interrupted() {}
void count_progress(std::int64_t, std::uint64_t) {}  // no interpreter here

namespace tests {
namespace {
int failures = 0;
}

std::vector<Test>& all() {
    static std::vector<Test> tests;
    return tests;
}

void fail(const char* what, const char* file, int line) {
    ++failures;
    std::fprintf(stderr, "%s:%d: CHECK(%s)\n", file, line, what);
}

}  // namespace tests
}  // namespace astrarium

int main(int count, char** arguments) {
    using namespace astrarium::tests;
    const std::string part = count > 1 ? arguments[1] : "";
    int ran = 0, failed = 0;
    for (const Test& test : all()) {
        if (test.name.find(part) == std::string::npos) continue;
        const int before = failures;
        try {
            test.run();
        } catch (const std::exception& error) { fail(error.what(), test.name.c_str(), 0); }
        ++ran, failed += failures > before;
        std::printf("%s %s\n", failures > before ? "FAILED" : "passed", test.name.c_str());
    }
    std::printf("%d passed, %d failed\n", ran - failed, failed);
    return failed > 0 || ran == 0;
}
