// Six little-endian numbers: magic, request, attempt, position, last token, 32-bit numbers of the
// tally that follow; of that three lists, each behind its length, padded to 8 bytes; the device's
// image.
#include "actors/kv_image.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>

namespace shoal {
namespace {

constexpr std::uint64_t kMagic = 0x32'4D'49'56'4B'4C'48'53ULL;  // "SHLKVIM2"

using Identity = std::array<std::uint64_t, 5>;
constexpr std::size_t kFixed = sizeof(Identity) + sizeof(std::uint64_t);

Identity identity_of(const Handover& handover) {
  const AttemptKey key = handover.key();
  return {kMagic,
          key.request.value,
          key.attempt.value,
          static_cast<std::uint64_t>(handover.position),
          static_cast<std::uint64_t>(handover.token)};
}

constexpr std::size_t padded(std::size_t numbers) {
  return (numbers + numbers % 2) * sizeof(std::int32_t);
}

void put_list(std::span<const TokenId> tokens, std::vector<std::int32_t>& out) {
  out.push_back(static_cast<std::int32_t>(tokens.size()));
  out.insert(out.end(), tokens.begin(), tokens.end());
}

// Empty: there is none.
std::vector<std::int32_t> numbers_of(const TokenTally* tally) {
  std::vector<std::int32_t> out;
  if (tally != nullptr) {
    put_list(tally->prompt ? std::span<const TokenId>(*tally->prompt) : std::span<const TokenId>{},
             out);
    std::vector<TokenId> answer;
    for (const auto& [token, count] : tally->answer) {
      answer.push_back(token);
      answer.push_back(count);
    }
    put_list(answer, out);
    put_list(tally->recent, out);
  }
  return out;
}

// Takes the next list off; nothing: it is longer than what is left.
std::optional<std::span<const std::int32_t>> take_list(std::span<const std::int32_t>& numbers) {
  if (numbers.empty() || numbers[0] < 0 ||
      static_cast<std::size_t>(numbers[0]) > numbers.size() - 1) {
    return std::nullopt;
  }
  const auto list = numbers.subspan(1, static_cast<std::size_t>(numbers[0]));
  numbers = numbers.subspan(1 + list.size());
  return list;
}

Result<TokenTallyPtr> tally_in(std::span<const std::int32_t> numbers) {
  const auto prompt = take_list(numbers);
  const auto answer = prompt ? take_list(numbers) : std::nullopt;
  const auto recent = answer ? take_list(numbers) : std::nullopt;
  if (!recent || answer->size() % 2 != 0) {
    return fail(Code::kCorrupt, "KV image: the tokens that penalties look at do not read");
  }
  TokenTally tally;
  if (!prompt->empty()) {
    tally.prompt = std::make_shared<const std::vector<TokenId>>(prompt->begin(), prompt->end());
  }
  for (std::size_t i = 0; i < answer->size(); i += 2) {
    tally.answer.emplace_back((*answer)[i], (*answer)[i + 1]);
  }
  tally.recent.assign(recent->begin(), recent->end());
  return std::make_shared<const TokenTally>(std::move(tally));
}

}  // namespace

std::vector<std::byte> pack_kv_image(const Handover& handover,
                                     const std::vector<std::byte>& exported) {
  const Identity identity = identity_of(handover);
  const std::vector<std::int32_t> numbers = numbers_of(handover.seen.get());
  const std::uint64_t count = numbers.size();
  const std::size_t device = kFixed + padded(numbers.size());
  std::vector<std::byte> image(device + exported.size());
  std::memcpy(image.data(), identity.data(), sizeof(identity));
  std::memcpy(image.data() + sizeof(identity), &count, sizeof(count));
  if (count > 0) {
    std::memcpy(image.data() + kFixed, numbers.data(), count * sizeof(std::int32_t));
  }
  std::memcpy(image.data() + device, exported.data(), exported.size());
  return image;
}

Result<void> check_kv_image(const Handover& handover, const std::vector<std::byte>& image) {
  Identity identity{};
  if (image.size() < kFixed) {
    return fail(Code::kCorrupt, "KV image: it is shorter than its header");
  }
  std::memcpy(identity.data(), image.data(), sizeof(identity));
  if (identity != identity_of(handover)) {
    return fail(Code::kCorrupt,
                "KV image: it belongs to request " + std::to_string(identity[1]) + " attempt " +
                    std::to_string(identity[2]) + " at " + std::to_string(identity[3]) +
                    ", not to the sequence that was handed over");
  }
  return {};
}

Result<KvImageFront> front_of_kv_image(const std::vector<std::byte>& image) {
  std::uint64_t count = 0;
  std::memcpy(&count, image.data() + sizeof(Identity), sizeof(count));
  if (count > (image.size() - kFixed) / sizeof(std::int32_t) ||
      padded(count) > image.size() - kFixed) {
    return fail(Code::kCorrupt, "KV image: it ends within the tokens that penalties look at");
  }
  KvImageFront front{nullptr, kFixed + padded(count)};
  if (count > 0) {
    std::vector<std::int32_t> numbers(count);
    std::memcpy(numbers.data(), image.data() + kFixed, count * sizeof(std::int32_t));
    TRY(front.seen, tally_in(numbers));
  }
  return front;
}

}  // namespace shoal
