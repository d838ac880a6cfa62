// Every hash begins with a domain of its own, every variable part with its length.
#include "schemas/block_key.h"

#include <memory>
#include <openssl/evp.h>

#include "schemas/check.h"

namespace shoal {
namespace {

// One at a time in a thread: a block's hash is so short that making a context and looking the
// algorithm up would be a third of it.
class Sha256 {
 public:
  explicit Sha256(std::string_view domain) : context_(context_of_thread()) {
    // Never freed: threads that nobody waits for may hash until the process ends.
    static EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
    CHECK(EVP_DigestInit_ex(context_, algorithm, nullptr) == 1);
    text(domain);
  }

  void bytes(std::span<const std::byte> data) {
    CHECK(EVP_DigestUpdate(context_, data.data(), data.size()) == 1);
  }

  void text(std::string_view value) {
    const std::uint64_t size = value.size();
    bytes(std::as_bytes(std::span(&size, 1)));
    bytes(std::as_bytes(std::span(value)));
  }

  BlockKey finish() {
    BlockKey key;
    CHECK(EVP_DigestFinal_ex(
              context_, reinterpret_cast<unsigned char*>(key.bytes.data()), nullptr) == 1);
    return key;
  }

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };

  static EVP_MD_CTX* context_of_thread() {
    thread_local const std::unique_ptr<EVP_MD_CTX, Free> context(EVP_MD_CTX_new());
    CHECK(context != nullptr);
    return context.get();
  }

  EVP_MD_CTX* context_;
};

}  // namespace

BlockKey root_key(const KvIdentity& identity) {
  Sha256 hash("shoal.kv.root.1");
  hash.text(identity.model);
  hash.text(identity.weights);
  hash.text(identity.layout);
  hash.text(identity.tokenizer);
  hash.text(identity.tenant);
  return hash.finish();
}

BlockKey next_key(const BlockKey& parent, std::span<const TokenId, kBlockTokens> tokens) {
  Sha256 hash("shoal.kv.block.1");
  hash.bytes(parent.bytes);
  hash.bytes(std::as_bytes(tokens));
  return hash.finish();
}

std::vector<BlockKey> block_keys(const BlockKey& root, std::span<const TokenId> tokens) {
  std::vector<BlockKey> keys;
  keys.reserve(tokens.size() / kBlockTokens);
  BlockKey parent = root;
  for (; tokens.size() >= kBlockTokens; tokens = tokens.subspan(kBlockTokens)) {
    parent = next_key(parent, tokens.first<kBlockTokens>());
    keys.push_back(parent);
  }
  return keys;
}

std::string to_string(const BlockKey& key) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : key.bytes) {
    text += kDigits[std::to_integer<std::size_t>(byte >> 4)];
    text += kDigits[std::to_integer<std::size_t>(byte & std::byte{15})];
  }
  return text;
}

std::uint64_t text_digest(std::string_view text) {
  Sha256 hash("shoal.text.1");
  hash.text(text);
  return std::hash<BlockKey>{}(hash.finish());
}

}  // namespace shoal
