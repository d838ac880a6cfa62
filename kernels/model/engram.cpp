// Derives the Engram hash constants and computes table rows of n-grams.
#include "kernels/model/engram.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <string>
#include <utility>

#include "schemas/check.h"

namespace shoal::kernels {
namespace {

__extension__ using U128 = unsigned __int128;

constexpr std::int64_t kSeedPerLayer = 10007;

// numpy's SeedSequence for one word of entropy: spreads a seed over four 64-bit words.
// https://numpy.org/neps/nep-0019-rng-policy.html, after M. E. O'Neill's seed_seq_fe128.
class SeedSequence {
 public:
  explicit SeedSequence(std::uint32_t seed) {
    std::uint32_t key = 0x43B0D7E5;
    const auto hash = [&key](std::uint32_t value) { return scramble(value, key, 0x931E8875); };
    for (std::size_t i = 0; i < pool_.size(); ++i) {
      pool_[i] = hash(i == 0 ? seed : 0);
    }
    for (std::size_t from = 0; from < pool_.size(); ++from) {
      for (std::size_t to = 0; to < pool_.size(); ++to) {
        if (from != to) {
          const std::uint32_t mixed = 0xCA01F9DDu * pool_[to] - 0x4973F715u * hash(pool_[from]);
          pool_[to] = mixed ^ (mixed >> 16);
        }
      }
    }
  }

  std::array<std::uint64_t, 4> words() const {
    std::array<std::uint64_t, 4> out{};
    std::uint32_t key = 0x8B51F9DD;
    for (std::size_t half = 0; half < 2 * out.size(); ++half) {
      const std::uint32_t word = scramble(pool_[half % pool_.size()], key, 0x58F38DED);
      out[half / 2] |= std::uint64_t{word} << (32 * (half % 2));
    }
    return out;
  }

 private:
  static std::uint32_t scramble(std::uint32_t value, std::uint32_t& key, std::uint32_t factor) {
    value ^= key;
    key *= factor;
    value *= key;
    return value ^ (value >> 16);
  }

  std::array<std::uint32_t, 4> pool_{};
};

// PCG64 (XSL-RR 128/64) seeded as numpy's default_rng(seed). https://www.pcg-random.org/paper.html
class Pcg64 {
 public:
  explicit Pcg64(std::uint32_t seed) {
    const auto words = SeedSequence(seed).words();
    increment_ = (wide(words[2], words[3]) << 1) | 1;
    step();
    state_ += wide(words[0], words[1]);
    step();
  }

  // Uniform in [0, bound): Lemire's method, as numpy draws from bounds above 2^32.
  std::uint64_t below(std::uint64_t bound) {
    CHECK(bound > (std::uint64_t{1} << 32));
    const std::uint64_t threshold = (0 - bound) % bound;
    U128 product = 0;
    do {
      product = U128{next()} * bound;
    } while (static_cast<std::uint64_t>(product) < threshold);
    return static_cast<std::uint64_t>(product >> 64);
  }

 private:
  static U128 wide(std::uint64_t high, std::uint64_t low) { return (U128{high} << 64) | low; }

  void step() { state_ = state_ * wide(2549297995355413924, 4865540595714422341) + increment_; }

  std::uint64_t next() {
    step();
    const auto folded = static_cast<std::uint64_t>(state_ ^ (state_ >> 64));
    return std::rotr(folded, static_cast<int>(state_ >> 122));
  }

  U128 state_ = 0;
  U128 increment_ = 0;
};

std::uint64_t power(std::uint64_t base, std::uint64_t exponent, std::uint64_t modulus) {
  std::uint64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) {
      result = static_cast<std::uint64_t>(U128{result} * base % modulus);
    }
    base = static_cast<std::uint64_t>(U128{base} * base % modulus);
  }
  return result;
}

// Miller-Rabin with the first twelve primes: exact below 3.3e24 (Sorenson and Webster, 2015).
bool is_prime(std::uint64_t n) {
  constexpr std::uint64_t kWitnesses[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};
  for (const std::uint64_t p : kWitnesses) {
    if (n % p == 0) {
      return n == p;
    }
  }
  if (n < 2) {
    return false;
  }
  const int twos = std::countr_zero(n - 1);
  return std::ranges::all_of(kWitnesses, [&](std::uint64_t witness) {
    std::uint64_t x = power(witness, (n - 1) >> twos, n);
    bool passes = x == 1 || x == n - 1;
    for (int i = 1; i < twos && !passes; ++i) {
      x = static_cast<std::uint64_t>(U128{x} * x % n);
      passes = x == n - 1;
    }
    return passes;
  });
}

std::span<const std::int64_t> row_of(const std::vector<std::int64_t>& table,
                                     int row,
                                     std::int64_t width) {
  return std::span(table).subspan(static_cast<std::size_t>(row * width),
                                  static_cast<std::size_t>(width));
}

tl::unexpected<Error> misfit(const std::filesystem::path& directory,
                             std::int64_t count,
                             const std::string& what,
                             const std::string& field,
                             std::int64_t expected) {
  return fail(Code::kMisconfigured,
              (directory / "tokenizer.json").string() + ": tokenizer does not fit the model: " +
                  std::to_string(count) + " " + what + ", but config.json has " + field + " " +
                  std::to_string(expected) + ": use the tokenizer that came with the weights");
}

}  // namespace

EngramHash::EngramHash(const std::vector<int>& layers,
                       std::int64_t base,
                       std::int64_t heads,
                       int ngram,
                       std::int64_t compressed)
    : ngram_(ngram),
      columns_((ngram - 1) * heads) {
  std::int64_t candidate = base;
  for (const int layer : layers) {
    // Primes are taken in ascending order and never twice.
    std::int64_t rows = 0;
    for (std::int64_t column = 0; column < columns_; ++column, ++candidate) {
      while (!is_prime(static_cast<std::uint64_t>(candidate))) {
        ++candidate;
      }
      primes_.push_back(candidate);
      offsets_.push_back(rows);
      rows += candidate;
    }
    table_rows_.push_back(rows);
    // So small that no product with a compressed id overflows.
    const std::int64_t bound = std::numeric_limits<std::int64_t>::max() / compressed / 2;
    Pcg64 random(static_cast<std::uint32_t>(kSeedPerLayer * layer));
    for (int i = 0; i < ngram; ++i) {
      const auto draw = random.below(static_cast<std::uint64_t>(bound));
      multipliers_.push_back(static_cast<std::int64_t>(draw) * 2 + 1);
    }
  }
}

std::span<const std::int64_t> EngramHash::primes(int index) const {
  return row_of(primes_, index, columns_);
}

std::span<const std::int64_t> EngramHash::offsets(int index) const {
  return row_of(offsets_, index, columns_);
}

std::span<const std::int64_t> EngramHash::multipliers(int index) const {
  return row_of(multipliers_, index, ngram_);
}

void EngramHash::rows(int index, std::span<const std::int64_t> slots, std::int64_t* out) const {
  CHECK(slots.size() == static_cast<std::size_t>(ngram_));
  const auto factors = multipliers(index);
  const auto moduli = primes(index);
  const auto starts = offsets(index);
  const auto heads = moduli.size() / (slots.size() - 1);
  std::int64_t hash = slots[0] * factors[0];
  for (std::size_t i = 1, column = 0; i < slots.size(); ++i) {
    hash ^= slots[i] * factors[i];
    for (std::size_t head = 0; head < heads; ++head, ++column) {
      out[column] = hash % moduli[column] + starts[column];
    }
  }
}

void engram_slots(std::span<const std::int64_t> history,
                  std::span<const std::uint8_t> dead,
                  std::int64_t pad,
                  std::int64_t* slots) {
  bool open = true;  // nothing behind the start or behind a dead token is seen
  for (std::size_t i = 0; i < history.size(); ++i) {
    open = open && history[i] >= 0 && dead[i] == 0;
    slots[i] = open ? history[i] : pad;
  }
}

Result<Engram> load_engram(const ModelConfig& c, const std::filesystem::path& directory) {
  if (c.engram_layers.empty()) {
    return Engram{{}, 0, EngramHash({}, 0, 0, 1, 1)};
  }
  TRY(auto tokens, read_token_map(directory));
  const auto entries = static_cast<std::int64_t>(tokens.ids.size());
  if (entries != c.vocab) {
    return misfit(directory, entries, "tokens", "vocab_size", c.vocab);
  }
  if (tokens.compressed != c.engram_vocab) {
    return misfit(directory,
                  tokens.compressed,
                  "distinct words",
                  "engram_compressed_vocab_size",
                  c.engram_vocab);
  }
  EngramHash hash(
      c.engram_layers, c.engram_base, c.engram_heads, c.engram_ngram, tokens.compressed);
  if (hash.table_rows() != c.engram_rows) {
    return fail(Code::kMisconfigured,
                (directory / "config.json").string() +
                    ": engram_num_embeddings does not follow from the other engram fields: restore "
                    "the model's own file");
  }
  const std::int64_t pad = tokens.ids[static_cast<std::size_t>(c.engram_pad)];
  return Engram{std::move(tokens), pad, std::move(hash)};
}

}  // namespace shoal::kernels
