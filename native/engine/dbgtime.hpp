#pragma once
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
struct DbgTime {
    static std::map<std::string, std::pair<double,long>>& all() { static struct M : std::map<std::string, std::pair<double,long>> { ~M() { for (auto& [k, v] : *this) std::fprintf(stderr, "DBG %-28s %9.1f ms %8ld\n", k.c_str(), v.first * 1e3, v.second); } } m; return m; }
    static void count(const char* n, long k = 1) { all()[n].second += k; }
    const char* name; std::chrono::steady_clock::time_point t = std::chrono::steady_clock::now();
    explicit DbgTime(const char* n) : name(n) {}
    ~DbgTime() { auto& e = all()[name]; e.first += std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count(); ++e.second; }
};
