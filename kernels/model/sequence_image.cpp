// Writes and reads in one order: blocks, rings, open pairs, tokens.
#include "kernels/model/sequence_image.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace shoal::kernels {
namespace {

// Calls visit(block, offset, bytes) for every stretch of complete entries of `tokens` positions.
template <class Visit>
void visit_entries(const KvLayout& layout, Position tokens, const Visit& visit) {
  for (Position begin = 0; begin < tokens; begin += kBlockTokens) {
    const auto block = static_cast<std::size_t>(begin / kBlockTokens);
    for (const SourceLayout& source : layout.sources) {
      const std::int64_t entries = std::min<Position>(tokens - begin, kBlockTokens) / source.ratio;
      visit(block, source.main_offset, entries * layout.main_row);
      visit(block, source.index_offset, entries * layout.index_row);
    }
  }
}

void write_blocks(const SequencePlace& from, Position tokens, KvImageWriter& out) {
  visit_entries(
      from.arena.layout(), tokens, [&](std::size_t block, std::int64_t offset, std::int64_t bytes) {
        out.bytes({from.arena.block(from.blocks[block]) + offset, static_cast<std::size_t>(bytes)});
      });
}

Result<void> read_blocks(KvImageReader& in, const SequencePlace& to) {
  std::int64_t total = 0;
  visit_entries(to.arena.layout(), in.tokens(), [&](std::size_t, std::int64_t, std::int64_t bytes) {
    total += bytes;
  });
  TRY(const auto entries, in.bytes(total));
  const std::byte* next = entries.data();
  visit_entries(to.arena.layout(),
                in.tokens(),
                [&](std::size_t block, std::int64_t offset, std::int64_t bytes) {
                  std::memcpy(to.arena.block(to.blocks[block]) + offset,
                              next,
                              static_cast<std::size_t>(bytes));
                  next += bytes;
                });
  return {};
}

void write_ring(const SequencePlace& from,
                const WindowRing& ring,
                Position tokens,
                KvImageWriter& out) {
  Position first = tokens - 1;
  while (first > 0 && tokens - first < from.config.window && ring.holds(first - 1)) {
    --first;
  }
  out.integer(first);
  const auto row_bytes = static_cast<std::size_t>(window_row_bytes(from.config.head_dim));
  for (Position p = first; p < tokens; ++p) {
    out.bytes({ring.get(p), row_bytes});
  }
}

Result<void> read_ring(KvImageReader& in, const ModelConfig& config, WindowRing& ring) {
  TRY(const Position first, in.integer());
  if (first < 0 || first >= in.tokens() || in.tokens() - first > config.window) {
    return corrupt_image("window rows from position " + std::to_string(first) + " on");
  }
  const std::int64_t row_bytes = window_row_bytes(config.head_dim);
  TRY(const auto rows, in.bytes((in.tokens() - first) * row_bytes));
  for (Position p = first; p < in.tokens(); ++p) {
    ring.put(p, rows.data() + (p - first) * row_bytes);
  }
  return {};
}

// Only an odd number of tokens leaves a pair open, at the sources of ratio 2.
bool leaves_open_pair(const ModelConfig& config, std::size_t source, Position tokens) {
  return tokens % 2 == 1 && config.ratio(config.kv_sources[source]) == 2;
}

void write_pair(const ModelConfig& config,
                const OpenPair& pair,
                Position position,
                KvImageWriter& out) {
  const auto dim = static_cast<std::size_t>(config.head_dim);
  out.bytes(std::as_bytes(std::span(pair.kv(position), dim)));
  out.bytes(std::as_bytes(std::span(pair.score(position), dim)));
}

Result<void> read_pair(KvImageReader& in, const ModelConfig& config, OpenPair& pair) {
  std::vector<float> values(static_cast<std::size_t>(2 * config.head_dim));
  const std::span<std::byte> room = std::as_writable_bytes(std::span(values));
  TRY(const auto bytes, in.bytes(static_cast<std::int64_t>(room.size())));
  std::copy(bytes.begin(), bytes.end(), room.begin());
  pair.put(in.tokens() - 1, values.data(), values.data() + config.head_dim);
  return {};
}

// All that is still known of the last tokens, oldest first.
void write_recent(const RecentTokens& recent, Position tokens, KvImageWriter& out) {
  TokenId token = 0;
  bool dead = false;
  Position first = tokens;
  while (recent.get(first - 1, token, dead)) {
    --first;
  }
  out.integer(first);
  for (Position p = first; p < tokens; ++p) {
    recent.get(p, token, dead);
    out.integer(token);
    out.integer(dead ? 1 : 0);
  }
}

Result<void> read_recent(KvImageReader& in, const ModelConfig& config, RecentTokens& recent) {
  TRY(const Position first, in.integer());
  if (first < 0 || first > in.tokens() || in.tokens() - first > kRecent) {
    return corrupt_image("last tokens from position " + std::to_string(first) + " on");
  }
  for (Position p = first; p < in.tokens(); ++p) {
    TRY(const std::int64_t token, in.integer());
    TRY(const std::int64_t dead, in.integer());
    if (token < 0 || token >= config.vocab || (dead != 0 && dead != 1)) {
      return corrupt_image("token " + std::to_string(token) + " is outside the vocabulary");
    }
    recent.put(p, static_cast<TokenId>(token), dead == 1);
  }
  return {};
}

// Every layer has seen the last position, and nothing waits for the decoder half.
bool prompt_finished(const SequencePlace& from, Position tokens) {
  const SequenceState& state = from.state;
  for (std::size_t s = 0; s < state.open.size(); ++s) {
    if (leaves_open_pair(from.config, s, tokens) && !state.open[s].holds(tokens - 1)) {
      return false;
    }
  }
  return state.kept_count == 0 &&
         std::all_of(state.rings.begin(), state.rings.end(), [&](const WindowRing& ring) {
           return ring.holds(tokens - 1);
         });
}

}  // namespace

std::string image_layout(const ModelConfig& config, const KvLayout& layout) {
  return std::to_string(config.layers) + " layers, window " + std::to_string(config.window) +
         " x " + std::to_string(window_row_bytes(config.head_dim)) + " B, dim " +
         std::to_string(config.head_dim) + ", vocabulary " + std::to_string(config.vocab) + ", " +
         block_layout(layout);
}

Result<void> write_sequence(const SequencePlace& from, Position tokens, KvImageWriter& out) {
  if (!prompt_finished(from, tokens)) {
    return fail(Code::kInvalid,
                "export of a sequence at position " + std::to_string(tokens) +
                    ": its prompt is not finished up to there");
  }
  write_blocks(from, tokens, out);
  for (const WindowRing& ring : from.state.rings) {
    write_ring(from, ring, tokens, out);
  }
  for (std::size_t s = 0; s < from.state.open.size(); ++s) {
    if (leaves_open_pair(from.config, s, tokens)) {
      write_pair(from.config, from.state.open[s], tokens - 1, out);
    }
  }
  write_recent(from.state.recent, tokens, out);
  return {};
}

Result<void> read_sequence(KvImageReader& in, const SequencePlace& to) {
  TRY_VOID(read_blocks(in, to));
  for (WindowRing& ring : to.state.rings) {
    TRY_VOID(read_ring(in, to.config, ring));
  }
  for (std::size_t s = 0; s < to.state.open.size(); ++s) {
    if (leaves_open_pair(to.config, s, in.tokens())) {
      TRY_VOID(read_pair(in, to.config, to.state.open[s]));
    }
  }
  TRY_VOID(read_recent(in, to.config, to.state.recent));
  return in.end();
}

}  // namespace shoal::kernels
