// CHECK: our own mistakes. On in release; prints the condition and where, then aborts the process
// (a lost node). For .cpp files only: the test framework has a macro of the same name.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace shoal {

[[noreturn]] inline void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "CHECK failed: %s at %s:%d\n", condition, file, line);
  std::abort();
}

}  // namespace shoal

#define CHECK(condition)                                     \
  do {                                                       \
    if (!(condition)) [[unlikely]] {                         \
      ::shoal::check_failed(#condition, __FILE__, __LINE__); \
    }                                                        \
  } while (false)
