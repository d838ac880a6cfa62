// A store of which only the index is there: what tests of searches and loads look blocks up in.
#pragma once

#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/kv_names.h"
#include "schemas/checksum.h"
#include "transport/block_store.h"

namespace shoal::testing {

class KvShelf final : public transport::BlockStore {
 public:
  std::string_view durable() const override { return "nothing"; }

  std::optional<transport::BlockInfo> find(const BlockKey& key) const override {
    ++finds;
    const auto found = blocks.find(key);
    return found == blocks.end() ? std::nullopt : std::optional(found->second);
  }

  void put(std::vector<std::vector<std::byte>>, Stored) override {}

  void get(std::vector<KvWanted>, Instant, Got) override {}

  void refresh() override {}

  void touch(const BlockKey&, std::uint32_t) override {}

  void hold(const BlockKey&, Nanos) override {}

  void release(const BlockKey&) override {}

  bool drop(const BlockKey&) override { return false; }

  void stop() override {}

  Use use() const override { return {}; }

  std::map<BlockKey, transport::BlockInfo> blocks;
  mutable std::int64_t finds = 0;
};

// A prompt of whole blocks and one token more, and what is on the shelf of it.
struct KvPrompt {
  explicit KvPrompt(std::size_t blocks, BasisMode mode = BasisMode::kBounded) {
    std::vector<TokenId> tokens(blocks * kBlockTokens + 1);
    std::iota(tokens.begin(), tokens.end(), 3);
    submission.prompt = std::make_shared<const std::vector<TokenId>>(std::move(tokens));
    submission.mode = mode;
    names = name_blocks(root_key({"m", "w", "l", "t", "somebody"}), submission);
  }

  static kernels::BlockBytes bytes(std::size_t block) {
    return std::make_shared<const std::vector<std::byte>>(64, std::byte(block));
  }

  void shelve(KvShelf& shelf, Provenance provenance = Provenance::kExact) const {
    for (std::size_t b = 0; b < names.keys.size(); ++b) {
      shelf.blocks[names.keys[b]] = {crc32c(*bytes(b)), provenance, TtlClass::kChat, 0};
    }
  }

  std::vector<transport::BlockInfo> infos(const KvShelf& shelf, std::size_t blocks) const {
    std::vector<transport::BlockInfo> there;
    for (std::size_t b = 0; b < blocks; ++b) {
      there.push_back(shelf.blocks.at(names.keys[b]));
    }
    return there;
  }

  Submission submission;
  KvNames names;
};

}  // namespace shoal::testing
