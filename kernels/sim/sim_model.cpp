// Hashes, and the choice of a token by them.
#include "kernels/sim/sim_model.h"

#include <algorithm>

namespace shoal::kernels {
namespace {

// SplitMix64's finaliser (Steele, Lea, Flood 2014).
std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

std::uint64_t combine(std::uint64_t hash, std::uint64_t value) {
  return mix(hash ^ mix(value));
}

std::uint64_t after_token(std::uint64_t hash, TokenId token) {
  return combine(hash, static_cast<std::uint64_t>(token));
}

// The ordinary token of that number, counted round and round.
TokenId ordinary(const SimModel& model, std::uint64_t number) {
  if (!model.tokens.empty()) {
    return model.tokens[number % model.tokens.size()];
  }
  constexpr std::int64_t kFirst = 3;
  const auto count = static_cast<std::uint64_t>(model.vocab - kFirst);
  return static_cast<TokenId>(kFirst + static_cast<std::int64_t>(number % count));
}

// Any but `truth`.
TokenId other(const SimModel& model, TokenId truth, std::uint64_t number) {
  const TokenId one = ordinary(model, number);
  const TokenId next = ordinary(model, number + 1);
  return one != truth ? one : next != truth ? next : model.bos;
}

// That a draft holds, in percent: from the least on in equal steps.
constexpr std::uint64_t kLeastChance = 30;
constexpr std::uint64_t kChanceStep = 4;
constexpr std::uint64_t kChances = 18;

float told_chance(std::uint64_t percent, int power) {
  double hold = 1;
  double fall = 1;
  for (int i = 0; i < power; ++i) {
    hold *= static_cast<double>(percent) / 100;
    fall *= static_cast<double>(100 - percent) / 100;
  }
  return static_cast<float>(hold / (hold + fall));
}

}  // namespace

void SimHistory::add(TokenId token) {
  hash_ = after_token(hash_, token);
}

void SimHistory::add_behind_hit(TokenId token, Position encoder_floor) {
  add(token);
  if (encoder_floor > 0) {
    hash_ = combine(hash_, static_cast<std::uint64_t>(encoder_floor));
  }
}

TokenId sim_token(const SimModel& model,
                  const SampleSpec& sampling,
                  Position encoder_floor,
                  Position decoder_floor,
                  const SimHistory& history) {
  const bool certain = model.greedy && sampling.temperature == 0;
  std::uint64_t hash = combine(history.hash(), certain ? 0 : sampling.seed);
  hash = combine(hash, certain ? 0 : sampling.choice);
  hash = combine(hash, static_cast<std::uint64_t>(encoder_floor));
  hash = combine(hash, static_cast<std::uint64_t>(decoder_floor));
  constexpr std::uint64_t kEndTries = 64;  // a forbidden end must not be drawn for ever
  for (std::uint64_t tries = 0;; ++tries) {
    const std::uint64_t drawn = combine(hash, tries);
    const bool ends = model.eos_period > 0 && tries < kEndTries &&
                      drawn % static_cast<std::uint64_t>(model.eos_period) == 0;
    const TokenId token = ends ? model.eos : ordinary(model, drawn >> 16);
    if (std::find(sampling.forbidden.begin(), sampling.forbidden.end(), token) ==
        sampling.forbidden.end()) {
      return token;
    }
  }
}

SimDraft sim_draft(const SimModel& model, const SimHistory& history, int place, TokenId truth) {
  constexpr std::uint64_t kSalt = 0xD4AF7ULL << 32;  // not what the token itself is drawn with
  const std::uint64_t chosen =
      combine(combine(history.hash(), kSalt), static_cast<std::uint64_t>(place));
  const std::uint64_t chance = kLeastChance + kChanceStep * (chosen % kChances);
  const std::uint64_t drawn = mix(chosen);
  return {drawn % 100 < chance ? truth : other(model, truth, drawn >> 16),
          told_chance(chance, model.confidence_power)};
}

TokenId sim_neighbour(const SimModel& model, TokenId token, int rank) {
  if (model.tokens.empty()) {
    return token + rank;
  }
  const auto place = std::lower_bound(model.tokens.begin(), model.tokens.end(), token);
  return ordinary(
      model,
      static_cast<std::uint64_t>(place - model.tokens.begin()) + static_cast<std::uint64_t>(rank));
}

}  // namespace shoal::kernels
