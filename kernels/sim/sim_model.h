// What the sim device draws in place of a model: every token is a hash of (seed, choice, floors,
// all tokens before it), and every draft is the token that will be drawn or another one, by a
// chance that is a hash, too, and that it tells.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "schemas/ids.h"
#include "schemas/units.h"

namespace shoal::kernels {

struct SimModel {
  std::int64_t vocab = 512;  // tokens are drawn from [3, vocab), or from `tokens`
  Position max_positions = 4096;
  Position window = 128;
  std::int64_t eos_period = 0;     // one token in so many is EOS; 0: never
  int exchanges = 0;               // times each step yields before it is done
  std::int64_t image_padding = 0;  // bytes an exported sequence carries besides its rows
  std::vector<TokenId> tokens{};   // ascending: what answers are made of, besides EOS
  TokenId bos = 0;
  TokenId eos = 1;
  // As with a model, an answer at temperature 0 depends on its tokens and floors only.
  bool greedy = false;
  int drafts = 0;            // made at a time, at most 5; 0: none
  int confidence_power = 1;  // of a draft's odds; 1: its chance is what it says
};

// Prompt and answer so far, as the rows of the KV memory hold them.
class SimHistory {
 public:
  SimHistory() = default;

  explicit SimHistory(std::span<const TokenId> tokens) {
    for (const TokenId token : tokens) {
      add(token);
    }
  }

  // Behind a row that is known.
  explicit SimHistory(std::uint64_t row) : hash_(row) {}

  void add(TokenId token);
  // The first token behind a hit whose windows begin at `encoder_floor`, a window before it (0:
  // they are whole).
  void add_behind_hit(TokenId token, Position encoder_floor);

  std::uint64_t hash() const { return hash_; }

 private:
  std::uint64_t hash_ = 0;
};

// What the device answers after `history`: the truth that tests compare with.
TokenId sim_token(const SimModel& model,
                  const SampleSpec& sampling,
                  Position encoder_floor,
                  Position decoder_floor,
                  const SimHistory& history);

struct SimDraft {
  TokenId token = -1;
  float confidence = 0;  // its chance, as it is told
};

// The draft number `place` of its row, behind `history`, to which the device answers `truth`.
SimDraft sim_draft(const SimModel& model, const SimHistory& history, int place, TokenId truth);

// The `rank`-th token behind `token`, the likeliest, in a list of the likeliest ones.
TokenId sim_neighbour(const SimModel& model, TokenId token, int rank);

}  // namespace shoal::kernels
