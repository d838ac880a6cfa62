// What an operation that may fail returns, and the closed list of reasons; each reason names who
// acts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace shoal {

// A code says who acts, so every layer can decide without reading the message.
enum class Code : std::uint8_t {
  kInvalid,        // the client fixes the request
  kNotFound,       // the client names something that exists
  kUnauthorized,   // the client sends a valid key
  kTooLarge,       // the client sends less
  kNoCapacity,     // the router queues or refuses; the client retries later
  kDeadline,       // the router drops the request; the client may retry
  kCancelled,      // nobody: the client left or asked to stop
  kPeerLost,       // the supervisor regroups; the router sends the request elsewhere
  kCorrupt,        // the reader discards the data and recomputes
  kUnavailable,    // the caller retries with backoff
  kMisconfigured,  // the operator fixes the named file, field or flag
  kInternal,       // us: a defect, the log line is the report
};

inline constexpr int kCodeCount = 12;

enum class WhoActs : std::uint8_t {
  kClient,
  kRouter,
  kSupervisor,
  kReader,
  kCaller,
  kOperator,
  kDeveloper,
  kNobody
};

constexpr std::string_view to_string(Code code) {
  switch (code) {
    case Code::kInvalid:
      return "invalid";
    case Code::kNotFound:
      return "not_found";
    case Code::kUnauthorized:
      return "unauthorized";
    case Code::kTooLarge:
      return "too_large";
    case Code::kNoCapacity:
      return "no_capacity";
    case Code::kDeadline:
      return "deadline";
    case Code::kCancelled:
      return "cancelled";
    case Code::kPeerLost:
      return "peer_lost";
    case Code::kCorrupt:
      return "corrupt";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kMisconfigured:
      return "misconfigured";
    case Code::kInternal:
      return "internal";
  }
  return "unknown";
}

constexpr WhoActs who_acts(Code code) {
  switch (code) {
    case Code::kInvalid:
    case Code::kNotFound:
    case Code::kUnauthorized:
    case Code::kTooLarge:
      return WhoActs::kClient;
    case Code::kNoCapacity:
    case Code::kDeadline:
      return WhoActs::kRouter;
    case Code::kCancelled:
      return WhoActs::kNobody;
    case Code::kPeerLost:
      return WhoActs::kSupervisor;
    case Code::kCorrupt:
      return WhoActs::kReader;
    case Code::kUnavailable:
      return WhoActs::kCaller;
    case Code::kMisconfigured:
      return WhoActs::kOperator;
    case Code::kInternal:
      return WhoActs::kDeveloper;
  }
  return WhoActs::kDeveloper;
}

// The message is written once, where the values are known: what is wrong, where, and what to do.
struct Error {
  Code code = Code::kInternal;
  std::string message;
  std::string field{};  // the request's field at fault, as the client wrote it; empty: none

  friend bool operator==(const Error&, const Error&) = default;
};

template <class T>
using Result = tl::expected<T, Error>;

[[nodiscard]] inline tl::unexpected<Error> fail(Code code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}

}  // namespace shoal

#define SHOAL_CONCAT_INNER(a, b) a##b
#define SHOAL_CONCAT(a, b) SHOAL_CONCAT_INNER(a, b)

// TRY(auto x, f()): declares x from the value of f(), or returns its error from the enclosing
// function.
#define TRY(declaration, expression)                                               \
  auto SHOAL_CONCAT(try_result_, __LINE__) = (expression);                         \
  if (!SHOAL_CONCAT(try_result_, __LINE__)) {                                      \
    return tl::unexpected(std::move(SHOAL_CONCAT(try_result_, __LINE__)).error()); \
  }                                                                                \
  declaration = *std::move(SHOAL_CONCAT(try_result_, __LINE__))

// TRY_VOID(f()): the same for a Result<void>.
#define TRY_VOID(expression)                                   \
  if (auto try_void_result = (expression); !try_void_result) { \
    return tl::unexpected(std::move(try_void_result).error()); \
  }
