// Engram row ids: token canonicalisation, n-gram hash constants, slots of a run of tokens (model
// spec 3.10). Integers only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "kernels/model/config.h"
#include "kernels/model/token_map.h"
#include "schemas/result.h"

namespace shoal::kernels {

// Constants of all Engram layers: [layer][size-2][head] primes, offsets in the table, multipliers
// [layer][ngram].
class EngramHash {
 public:
  // multipliers reproduce numpy's default_rng(10007 * layer).integers (PCG64): bit for bit, by our
  // own generator.
  EngramHash(const std::vector<int>& layers,
             std::int64_t base,
             std::int64_t heads,
             int ngram,
             std::int64_t compressed);

  int ngram() const { return ngram_; }

  std::int64_t columns() const {
    return columns_;
  }  // table rows per token and layer: (ngram - 1) * heads

  const std::vector<std::int64_t>& table_rows() const { return table_rows_; }

  std::span<const std::int64_t> primes(int index) const;
  std::span<const std::int64_t> offsets(int index) const;
  std::span<const std::int64_t> multipliers(int index) const;

  // Table rows of one token for Engram layer `index`: slots[0] is its own compressed id, slots[1..]
  // the previous ones, pads where the sequence starts or a dead token (image span) lies. out has
  // columns() entries.
  void rows(int index, std::span<const std::int64_t> slots, std::int64_t* out) const;

 private:
  int ngram_;
  std::int64_t columns_;
  std::vector<std::int64_t> table_rows_;
  std::vector<std::int64_t> primes_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::int64_t> multipliers_;
};

// Slots of a token: history[0] = the token itself, history[1] the one before, ...; -1 where the
// sequence starts. dead[i] marks image tokens.
void engram_slots(std::span<const std::int64_t> history,
                  std::span<const std::uint8_t> dead,
                  std::int64_t pad,
                  std::int64_t* slots);

// What a model with Engram layers needs besides its weights.
struct Engram {
  TokenMap tokens;
  std::int64_t pad = 0;  // compressed id of the pad token
  EngramHash hash;
};

// Reads DIR/tokenizer.json and holds it to the config: entries, compressed ids and table rows must
// agree. Without Engram layers the result is empty and the file is not read.
Result<Engram> load_engram(const ModelConfig& config, const std::filesystem::path& directory);

}  // namespace shoal::kernels
