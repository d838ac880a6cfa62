// The KV of a sequence on its way: whose it is, and the tokens its penalties look at.
#include "actors/kv_image.h"

#include <cstring>
#include <doctest/doctest.h>
#include <memory>
#include <random>
#include <vector>

using namespace shoal;

namespace {

Handover handover(TokenTallyPtr seen) {
  auto submission = std::make_shared<Submission>();
  submission->request = RequestId{7};
  submission->attempt = AttemptId{2};
  auto placement = std::make_shared<Placement>();
  placement->submission = std::move(submission);
  Handover made;
  made.placement = std::move(placement);
  made.position = 300;
  made.token = 11;
  made.seen = std::move(seen);
  return made;
}

TokenTallyPtr some_tokens() {
  TokenTally tally;
  tally.prompt = std::make_shared<const std::vector<TokenId>>(std::vector<TokenId>{2, 5, 9});
  tally.answer = {{5, 3}, {11, 1}};
  tally.recent = {5, 11};
  return std::make_shared<const TokenTally>(std::move(tally));
}

const std::vector<std::byte> kExported(100, std::byte{42});

}  // namespace

TEST_CASE("what a device exported and what penalties look at come out as they went in") {
  for (const TokenTallyPtr& seen : {TokenTallyPtr(), some_tokens()}) {
    const Handover sent = handover(seen);
    const auto image = pack_kv_image(sent, kExported);
    REQUIRE(check_kv_image(sent, image).has_value());
    const auto front = front_of_kv_image(image);
    REQUIRE(front.has_value());
    CHECK(std::vector<std::byte>(image.begin() + static_cast<std::ptrdiff_t>(front->device),
                                 image.end()) == kExported);
    CHECK(front->device % 8 == 0);
    REQUIRE((front->seen != nullptr) == (seen != nullptr));
    if (seen != nullptr) {
      CHECK(*front->seen->prompt == *seen->prompt);
      CHECK(front->seen->answer == seen->answer);
      CHECK(front->seen->recent == seen->recent);
    }
  }
}

TEST_CASE("an image of another place in the answer is refused by what it belongs to") {
  Handover other = handover(nullptr);
  const auto image = pack_kv_image(other, kExported);
  ++other.position;
  CHECK(check_kv_image(other, image).error().code == Code::kCorrupt);
  CHECK(check_kv_image(other, std::vector<std::byte>(47)).error().code == Code::kCorrupt);
}

TEST_CASE("damaged lengths never lead beyond the image") {
  constexpr std::uint64_t kSeed = 5;
  MESSAGE("seed " << kSeed);
  std::mt19937_64 random(kSeed);
  const Handover sent = handover(some_tokens());
  const auto sound = pack_kv_image(sent, kExported);
  constexpr std::size_t kIdentity = 40;
  for (int i = 0; i < 20'000; ++i) {
    auto image = sound;
    for (int bytes = 0; bytes < 4; ++bytes) {
      image[kIdentity + random() % 56] = static_cast<std::byte>(random());
    }
    image.resize(48 + random() % (image.size() - 47));
    if (const auto front = front_of_kv_image(image)) {
      CHECK(front->device <= image.size());
    } else {
      CHECK(front.error().code == Code::kCorrupt);
    }
  }
}
