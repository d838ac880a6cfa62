// Closed loop inside a session, open loop otherwise.
#include "tests/sim/trace.h"

#include <algorithm>
#include <map>
#include <utility>

namespace shoal::sim {
namespace {

// SplitMix64's finaliser (Steele, Lea, Flood 2014).
std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

void append_tokens(std::vector<TokenId>& tokens, std::uint64_t content, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    tokens.push_back(
        static_cast<TokenId>(3 + mix(mix(content) + static_cast<std::uint64_t>(i)) % 500));
  }
}

}  // namespace

Trace::Trace(std::vector<TraceRequest> requests, double rate)
    : requests_(std::move(requests)),
      rate_(rate),
      earlier_(requests_.size()),
      later_(requests_.size()) {
  std::map<std::string, std::size_t> last;
  for (std::size_t r = 0; r < requests_.size(); ++r) {
    if (requests_[r].session.empty()) {
      continue;
    }
    const auto [before, is_first] = last.try_emplace(requests_[r].session, r);
    if (!is_first) {
      earlier_[r] = before->second;
      later_[before->second] = r;
      before->second = r;
    }
  }
}

Nanos Trace::scaled(std::int64_t ms) const {
  return Nanos{static_cast<std::int64_t>(static_cast<double>(ms) * 1e6 / rate_)};
}

Nanos Trace::arrival(std::size_t request) const {
  return scaled(requests_[request].arrival_ms - requests_.front().arrival_ms);
}

std::vector<Trace::Coming> Trace::arrivals() const {
  std::vector<Coming> coming;
  for (std::size_t r = 0; r < requests_.size(); ++r) {
    if (!earlier_[r]) {
      coming.push_back({r, arrival(r)});
    }
  }
  return coming;
}

std::optional<Trace::Coming> Trace::next_turn(std::size_t request, Nanos now) const {
  const auto next = later_[request];
  if (!next) {
    return std::nullopt;
  }
  const auto& pause = requests_[*next].think_ms;
  return Coming{*next, pause ? scaled(*pause) : std::max(Nanos{0}, arrival(*next) - now)};
}

Nanos Trace::span() const {
  return requests_.empty() ? Nanos{0} : arrival(requests_.size() - 1);
}

Nanos Trace::longest(Nanos answer) const {
  std::vector<Nanos> sent(requests_.size());
  Nanos longest{0};
  for (std::size_t r = 0; r < requests_.size(); ++r) {
    sent[r] = arrival(r);
    if (earlier_[r]) {
      const Nanos ended = sent[*earlier_[r]] + answer;
      sent[r] = ended + next_turn(*earlier_[r], ended)->after;
    }
    longest = std::max(longest, sent[r]);
  }
  return longest;
}

std::vector<TokenId> Trace::prompt(std::size_t request) const {
  const TraceRequest& one = requests_[request];
  std::vector<TokenId> tokens;
  tokens.reserve(static_cast<std::size_t>(one.input_tokens));
  for (const BlockRun& run : one.blocks) {
    for (std::int64_t b = run.first; b < run.first + run.count; ++b) {
      append_tokens(tokens, static_cast<std::uint64_t>(b), kBlockTokens);
    }
  }
  constexpr std::uint64_t kOwn = 1ULL << 63;  // what no block has
  append_tokens(tokens, kOwn + request, one.input_tokens - std::ssize(tokens));
  return tokens;
}

std::int64_t Trace::answer_tokens(std::size_t request) const {
  return std::max<std::int64_t>(1, requests_[request].output_tokens);
}

}  // namespace shoal::sim
