// Filters, noise and argmax of one row of logits. Everything that decides is computed in double
// with our own exp and log.
#include "kernels/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/portable_math.h"
#include "schemas/check.h"

namespace shoal::kernels {

namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// SplitMix64's finaliser and increment.
constexpr std::uint64_t kIncrement = 0x9E3779B97F4A7C15u;

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

bool ranks_before(std::span<const float> values, TokenId a, TokenId b) {
  const float x = values[static_cast<std::size_t>(a)];
  const float y = values[static_cast<std::size_t>(b)];
  return x > y || (x == y && a < b);
}

// The first `count` ids by value, best first, ties to the lower id.
std::vector<TokenId> ranked(std::span<const float> values, std::size_t count) {
  std::vector<TokenId> ids(values.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto before = [values](TokenId a, TokenId b) { return ranks_before(values, a, b); };
  count = std::min(count, ids.size());
  const auto end = ids.begin() + static_cast<std::ptrdiff_t>(count);
  if (count < ids.size()) {
    std::nth_element(ids.begin(), end, ids.end(), before);
  }
  std::sort(ids.begin(), end, before);
  ids.resize(count);
  return ids;
}

TokenId best_of(std::span<const float> values) {
  return static_cast<TokenId>(std::max_element(values.begin(), values.end()) - values.begin());
}

// NaN ranks like -inf: never drawn, never listed.
std::vector<float> ordered_logits(std::span<const float> logits) {
  std::vector<float> ordered(logits.begin(), logits.end());
  std::replace_if(
      ordered.begin(), ordered.end(), [](float z) { return !(z >= kNever); }, kNever);
  return ordered;
}

void forbid(std::vector<float>& logits, std::span<const TokenId> ids) {
  for (const TokenId id : ids) {
    if (id >= 0 && static_cast<std::size_t>(id) < logits.size()) {
      logits[static_cast<std::size_t>(id)] = kNever;
    }
  }
}

// Of the token's logit; ids outside the vocabulary are nobody's.
template <class Change>
void change(std::vector<float>& logits, TokenId id, Change by) {
  if (id >= 0 && static_cast<std::size_t>(id) < logits.size()) {
    float& logit = logits[static_cast<std::size_t>(id)];
    logit = by(logit);
  }
}

void penalise_repetition(const SamplerInput& in, std::vector<float>& logits) {
  const auto penalise = [&in, &logits](TokenId id) {
    change(logits, id, [&in](float z) {
      return z > 0 ? z / in.repetition_penalty : z * in.repetition_penalty;
    });
  };
  static const std::vector<TokenId> kNone;
  const std::vector<TokenId>& prompt = in.seen->prompt ? *in.seen->prompt : kNone;
  std::for_each(prompt.begin(), prompt.end(), penalise);
  for (const auto& [id, count] : in.seen->answer) {
    if (!std::binary_search(prompt.begin(), prompt.end(), id)) {
      penalise(id);
    }
  }
}

// Penalties and biases, in the order of the header. What is -inf stays so.
void adjust(const SamplerInput& in, std::vector<float>& logits) {
  if (in.seen != nullptr && in.repetition_penalty != 1.0F) {
    penalise_repetition(in, logits);
  }
  if (in.seen != nullptr && (in.frequency_penalty != 0.0F || in.presence_penalty != 0.0F)) {
    for (const auto& [id, count] : in.seen->answer) {
      const float penalty = in.frequency_penalty * static_cast<float>(count) + in.presence_penalty;
      change(logits, id, [penalty](float z) { return z - penalty; });
    }
  }
  for (const auto& [id, bias] : in.bias) {
    change(logits, id, [bias = bias](float z) { return z + bias; });
  }
}

void keep_top_k(std::vector<float>& logits, int k) {
  if (k <= 0 || static_cast<std::size_t>(k) >= logits.size()) {
    return;
  }
  std::vector<float> kept(logits.size(), kNever);
  for (const TokenId id : ranked(logits, static_cast<std::size_t>(k))) {
    kept[static_cast<std::size_t>(id)] = logits[static_cast<std::size_t>(id)];
  }
  logits = std::move(kept);
}

[[gnu::target_clones("avx2", "default")]] void exponentials(const float* x,
                                                            std::size_t n,
                                                            float largest,
                                                            double* e) {
  for (std::size_t i = 0; i < n; ++i) {
    e[i] = portable::exp(static_cast<double>(x[i]) - static_cast<double>(largest));
  }
}

// exp(logit - largest) of every logit, and their sum in id order.
struct Exponentials {
  explicit Exponentials(std::span<const float> logits)
      : largest(*std::max_element(logits.begin(), logits.end())),
        values(logits.size()) {
    exponentials(logits.data(), logits.size(), largest, values.data());
    total = std::accumulate(values.begin(), values.end(), 0.0);
  }

  float largest;
  std::vector<double> values;
  double total = 0;
};

std::vector<float> softmax(std::span<const float> logits) {
  const Exponentials e(logits);
  std::vector<float> p(logits.size());
  std::transform(e.values.begin(), e.values.end(), p.begin(), [&e](double x) {
    return static_cast<float>(x / e.total);
  });
  return p;
}

// The likeliest ids whose probability together reaches top_p; the last one is the first to reach
// it.
std::vector<TokenId> nucleus(std::span<const float> p, float top_p) {
  for (std::size_t count = 64;; count *= 8) {
    std::vector<TokenId> ids = ranked(p, count);
    double before = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      before += static_cast<double>(p[static_cast<std::size_t>(ids[i])]);
      if (before >= static_cast<double>(top_p)) {
        ids.resize(i + 1);
        return ids;
      }
    }
    if (ids.size() == p.size()) {
      return ids;
    }
  }
}

void keep_probable(std::vector<float>& p, float top_p, float min_p) {
  if (min_p > 0.0F) {
    const float floor = min_p * *std::max_element(p.begin(), p.end());
    std::replace_if(
        p.begin(), p.end(), [floor](float x) { return x < floor; }, 0.0F);
  }
  if (top_p < 1.0F) {
    std::vector<float> kept(p.size(), 0.0F);
    for (const TokenId id : nucleus(p, top_p)) {
      kept[static_cast<std::size_t>(id)] = p[static_cast<std::size_t>(id)];
    }
    p = std::move(kept);
  }
}

// Logits, less the largest, over T (so that no temperature overflows). What the filters drop
// becomes -inf; `p` receives the probabilities if a filter needed them.
void apply_filters(const SamplerInput& in, std::vector<float>& logits, std::vector<float>& p) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  for (float& z : logits) {
    z = (z - largest) / in.temperature;
  }
  keep_top_k(logits, in.top_k);
  if (in.top_p >= 1.0F && in.min_p <= 0.0F) {
    return;
  }
  p = softmax(logits);
  keep_probable(p, in.top_p, in.min_p);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = p[i] > 0.0F ? logits[i] : kNever;
  }
}

double gumbel_of(double u) {
  return -portable::log(-portable::log(u));
}

// False if a logit `deficit` below the best score cannot reach it with noise from u. Winning needs
// -log(u) < exp(-deficit), but -log(u) >= 1 - u and exp(-t) <= 1 / (1 + t + t^2 / 2). Spares two
// logarithms for nearly all tokens and changes no result.
bool may_win(double deficit, double u) {
  return deficit <= 0.0 || (1.0 - u) * (1.0 + deficit + 0.5 * deficit * deficit) < 1.001;
}

// Argmax of logit + noise over `logits` as apply_filters left them.
TokenId draw(const SamplerInput& in, std::span<const float> logits) {
  const NoiseStream noise = noise_stream(in.seed, in.choice, in.position);
  TokenId best = best_of(logits);
  double best_score =
      static_cast<double>(logits[static_cast<std::size_t>(best)]) + gumbel(noise, best);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const auto z = static_cast<double>(logits[i]);
    const double u = uniform(noise, id);
    if (logits[i] > kNever && may_win(best_score - z, u)) {
      const double score = z + gumbel_of(u);
      if (score > best_score || (score == best_score && id < best)) {
        best = id;
        best_score = score;
      }
    }
  }
  return best;
}

void add_logprobs(std::span<const float> logits, int count, Sampled& out) {
  const Exponentials e(logits);
  const double normalizer = static_cast<double>(e.largest) + portable::log(e.total);
  const auto logprob = [&](TokenId id) {
    return static_cast<float>(static_cast<double>(logits[static_cast<std::size_t>(id)]) -
                              normalizer);
  };
  out.logprob = logprob(out.token);
  for (const TokenId id : ranked(logits, static_cast<std::size_t>(count))) {
    out.top.push_back({id, logprob(id)});
  }
}

float margin_of(std::span<const float> logits) {
  float best = kNever;
  float second = kNever;
  for (const float z : logits) {
    second = z > best ? best : std::max(second, z);
    best = std::max(best, z);
  }
  return best - second;
}

}  // namespace

NoiseStream noise_stream(std::uint64_t seed, std::uint32_t choice, std::int64_t position) {
  const std::uint64_t request = mix(mix(seed + kIncrement) + choice + kIncrement);
  return {mix(request + static_cast<std::uint64_t>(position) + kIncrement)};
}

// 52 bits and a half.
double uniform(NoiseStream stream, TokenId token) {
  const std::uint64_t counter = static_cast<std::uint64_t>(token) + 1;
  const std::uint64_t bits = mix(stream.start + counter * kIncrement);
  return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
}

double gumbel(NoiseStream stream, TokenId token) {
  return gumbel_of(uniform(stream, token));
}

std::vector<float> probabilities(const SamplerInput& in) {
  std::vector<float> logits = ordered_logits(in.logits);
  adjust(in, logits);
  forbid(logits, in.forbidden);
  std::vector<float> p;
  if (in.temperature == 0.0F) {
    p.assign(logits.size(), 0.0F);
    p[static_cast<std::size_t>(best_of(logits))] = 1.0F;
    return p;
  }
  apply_filters(in, logits, p);
  if (p.empty()) {
    return softmax(logits);
  }
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  const auto share = [total](float x) {
    return static_cast<float>(static_cast<double>(x) / total);
  };
  std::transform(p.begin(), p.end(), p.begin(), share);
  return p;
}

TokenId pick(std::span<const float> p, std::span<const float> noise) {
  CHECK(!p.empty() && p.size() == noise.size());
  std::vector<float> scores(p.size());
  std::transform(
      p.begin(), p.end(), noise.begin(), scores.begin(), [](float a, float b) { return a / b; });
  return best_of(scores);
}

std::optional<Sampled> sample(const SamplerInput& in) {
  const std::vector<float> raw = ordered_logits(in.logits);
  std::vector<float> logits = raw;
  adjust(in, logits);
  forbid(logits, in.forbidden);
  if (logits.empty() || logits[static_cast<std::size_t>(best_of(logits))] == kNever) {
    return std::nullopt;
  }
  Sampled out;
  out.token = best_of(logits);
  out.margin = margin_of(raw);
  if (in.chosen) {
    out.token = *in.chosen;
  } else if (in.temperature > 0.0F) {
    std::vector<float> p;
    apply_filters(in, logits, p);
    out.token = draw(in, logits);
  }
  if (in.logprobs >= 0) {
    add_logprobs(raw, in.logprobs, out);
  }
  return out;
}

}  // namespace shoal::kernels
