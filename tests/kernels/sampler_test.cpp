// The sampler: the reference's distributions and tokens, filters, the noise's law, and
// repeatability.
#include "kernels/sampler.h"

#include <array>
#include <cmath>
#include <doctest/doctest.h>
#include <limits>

#include "golden.h"

namespace shoal::kernels::test {

namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

std::vector<float> row_of(const std::vector<float>& all, std::size_t row, std::size_t size) {
  return {all.begin() + static_cast<std::ptrdiff_t>(row * size),
          all.begin() + static_cast<std::ptrdiff_t>((row + 1) * size)};
}

TokenId token_of(const SamplerInput& in) {
  const std::optional<Sampled> sampled = sample(in);
  REQUIRE(sampled.has_value());
  return sampled->token;
}

// Ids with a probability.
std::vector<TokenId> support(const SamplerInput& in) {
  std::vector<TokenId> ids;
  const std::vector<float> p = probabilities(in);
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (p[i] > 0.0F) {
      ids.push_back(static_cast<TokenId>(i));
    }
  }
  return ids;
}

}  // namespace

TEST_CASE("probabilities and picked tokens equal the reference's") {
  const Golden golden("ops/sampling");

  struct Case {
    const char* name;
    float temperature;
    float top_p;
  };

  const std::vector<float> logits = golden.floats("logits");
  const std::vector<float> noise = golden.floats("noise");
  for (const Case& c : {Case{"t0.0.p1.0", 0.0F, 1.0F},
                        Case{"t1.0.p1.0", 1.0F, 1.0F},
                        Case{"t0.7.p1.0", 0.7F, 1.0F},
                        Case{"t1.0.p0.95", 1.0F, 0.95F},
                        Case{"t0.6.p0.5", 0.6F, 0.5F}}) {
    CAPTURE(c.name);
    const std::vector<float> want = golden.floats(std::string(c.name) + ".probabilities");
    const std::vector<std::int64_t> tokens = golden.ints(std::string(c.name) + ".token");
    for (std::size_t row = 0; row < 4; ++row) {
      const std::vector<float> z = row_of(logits, row, 48);
      const std::vector<float> p =
          probabilities({.logits = z, .temperature = c.temperature, .top_p = c.top_p});
      for (std::size_t i = 0; i < 48; ++i) {
        CHECK(std::fabs(p[i] - want[row * 48 + i]) <= 1e-6F);
        CHECK((p[i] == 0.0F) == (want[row * 48 + i] == 0.0F));
      }
      CHECK(pick(p, row_of(noise, row, 48)) == tokens[row]);
    }
  }
}

TEST_CASE("temperature 0 takes the largest logit, the lowest id on a tie, never a forbidden one") {
  const std::vector<float> z = {1.0F, 5.0F, 2.0F, 5.0F};
  const std::vector<TokenId> forbidden = {1, 99, -1};
  CHECK(token_of({.logits = z, .temperature = 0.0F}) == 1);
  CHECK(token_of({.logits = z, .temperature = 0.0F, .forbidden = forbidden}) == 3);
}

TEST_CASE("filters apply in order: top-k, then top-p and min-p on the softmax of what is left") {
  const std::vector<float> z = {std::log(0.4F), std::log(0.3F), std::log(0.2F), std::log(0.1F)};
  using Ids = std::vector<TokenId>;
  CHECK(support({.logits = z}) == Ids{0, 1, 2, 3});
  CHECK(support({.logits = z, .top_k = 2}) == Ids{0, 1});
  CHECK(support({.logits = z, .top_p = 0.65F}) == Ids{0, 1});
  CHECK(support({.logits = z, .top_p = 0.55F, .top_k = 2}) ==
        Ids{0});  // 0.4 / 0.7 reaches 0.55 after top-k
  CHECK(support({.logits = z, .min_p = 0.6F}) == Ids{0, 1});
  CHECK(support({.logits = z, .top_p = 0.95F, .min_p = 0.6F}) == Ids{0, 1});
  const std::vector<float> tied(6, 1.0F);
  CHECK(support({.logits = tied, .top_k = 2}) == Ids{0, 1});
  CHECK(support({.logits = tied, .top_p = 0.5F}) == Ids{0, 1, 2});
  const std::vector<float> p = probabilities({.logits = z, .top_k = 2});
  CHECK(p[0] == doctest::Approx(4.0 / 7));
}

TEST_CASE("penalties and biases change logits before anything else, in their order") {
  const std::vector<float> logits = {2, -1, 4, 1, 0};
  TokenTally seen;
  seen.prompt = std::make_shared<const std::vector<TokenId>>(std::vector<TokenId>{0, 1});
  seen.answer = {{1, 1}, {2, 3}};
  SamplerInput in{.logits = logits, .temperature = 1, .seen = &seen};
  in.repetition_penalty = 2;
  in.frequency_penalty = 0.5F;
  in.presence_penalty = 0.25F;
  const std::vector<std::pair<TokenId, float>> bias = {{3, 1}, {4, -100}, {99, 1}, {-1, 1}};
  in.bias = bias;
  // Token 1 is in both: divided or multiplied once.
  const std::vector<float> expected = {1, -2 - 0.75F, 2 - 1.75F, 2, -100};
  const std::vector<float> got = probabilities(in);
  const std::vector<float> right = probabilities({.logits = expected, .temperature = 1});
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(got[i] == right[i]);
  }
}

TEST_CASE("penalties decide greedy tokens, too, and logprobs stay those of the model") {
  const std::vector<float> logits = {1, 3, 2.5F};
  TokenTally seen;
  seen.answer = {{1, 1}};
  SamplerInput in{.logits = logits, .temperature = 0, .seen = &seen, .logprobs = 0};
  CHECK(sample(in)->token == 1);
  in.presence_penalty = 1;
  CHECK(sample(in)->token == 2);
  const std::vector<TokenId> likeliest = {1};
  CHECK(
      sample(in)->logprob ==
      sample({.logits = logits, .temperature = 0, .forbidden = likeliest, .logprobs = 0})->logprob);
}

TEST_CASE("a drawn token always survives the filters") {
  std::vector<float> z(300);
  for (std::size_t i = 0; i < z.size(); ++i) {
    z[i] = std::sin(static_cast<float>(i)) * 3.0F;
  }
  SamplerInput in{.logits = z, .temperature = 1.3F, .top_p = 0.7F, .min_p = 0.05F, .top_k = 40};
  const std::vector<float> p = probabilities(in);
  for (in.position = 0; in.position < 500; ++in.position) {
    REQUIRE(p[static_cast<std::size_t>(token_of(in))] > 0.0F);
  }
}

TEST_CASE("tokens are drawn with the probabilities of the softmax") {
  const std::vector<float> z = {std::log(0.5F), std::log(0.25F), std::log(0.15F), std::log(0.1F)};
  constexpr int kDraws = 20000;
  for (const std::uint64_t seed : {0u, 1u, 123456789u}) {
    CAPTURE(seed);
    std::array<int, 4> counts{};
    for (int i = 0; i < kDraws; ++i) {
      ++counts[static_cast<std::size_t>(token_of({.logits = z, .seed = seed, .position = i}))];
    }
    for (std::size_t t = 0; t < 4; ++t) {
      const double expected = std::exp(static_cast<double>(z[t])) * kDraws;
      CHECK(std::fabs(counts[t] - expected) < 5 * std::sqrt(expected));  // 5 standard deviations
    }
  }
}

TEST_CASE("the draw equals argmax of logit plus noise over every token") {
  std::vector<float> z(2000);
  for (std::size_t i = 0; i < z.size(); ++i) {
    z[i] = std::cos(static_cast<float>(i * i)) * 4.0F;
  }
  for (std::int64_t position = 0; position < 200; ++position) {
    const NoiseStream noise = noise_stream(42, 1, position);
    TokenId best = 0;
    double best_score = -1e300;
    for (std::size_t i = 0; i < z.size(); ++i) {
      const double score =
          static_cast<double>((z[i] - 4.0F) / 0.8F) + gumbel(noise, static_cast<TokenId>(i));
      if (score > best_score) {
        best = static_cast<TokenId>(i);
        best_score = score;
      }
    }
    REQUIRE(
        token_of(
            {.logits = z, .temperature = 0.8F, .seed = 42, .choice = 1, .position = position}) ==
        best);
  }
}

TEST_CASE("noise depends on seed, choice, position and token, and on nothing else") {
  const double base = gumbel(noise_stream(1, 2, 3), 4);
  CHECK(base == gumbel(noise_stream(1, 2, 3), 4));
  CHECK(base != gumbel(noise_stream(2, 2, 3), 4));
  CHECK(base != gumbel(noise_stream(1, 3, 3), 4));
  CHECK(base != gumbel(noise_stream(1, 2, 4), 4));
  CHECK(base != gumbel(noise_stream(1, 2, 3), 5));
}

TEST_CASE("noise has the mean and variance of a Gumbel distribution") {
  constexpr int kCount = 200000;
  double sum = 0;
  double square = 0;
  for (int i = 0; i < kCount; ++i) {
    const double g = gumbel(noise_stream(9, 0, i / 1000), i % 1000);
    sum += g;
    square += g * g;
  }
  const double mean = sum / kCount;
  CHECK(mean == doctest::Approx(0.5772157).epsilon(0.02));
  CHECK(square / kCount - mean * mean == doctest::Approx(1.6449341).epsilon(0.02));
}

TEST_CASE("logprobs are those of the unmodified softmax, likeliest first") {
  const std::vector<float> z = {std::log(0.1F), std::log(0.6F), std::log(0.3F)};
  const std::vector<TokenId> forbidden = {1};
  const Sampled out =
      *sample({.logits = z, .temperature = 0.0F, .forbidden = forbidden, .logprobs = 2});
  CHECK(out.token == 2);
  CHECK(out.logprob == doctest::Approx(std::log(0.3)));
  REQUIRE(out.top.size() == 2);
  CHECK(out.top[0].token == 1);
  CHECK(out.top[0].logprob == doctest::Approx(std::log(0.6)));
  CHECK(out.top[1].token == 2);
  CHECK(out.margin == doctest::Approx(std::log(2.0)));
}

TEST_CASE("logits that allow no token give none, NaN never wins") {
  const std::vector<float> nothing(3, kNever);
  CHECK_FALSE(sample({.logits = nothing}).has_value());
  CHECK_FALSE(sample({}).has_value());
  const std::vector<float> broken = {std::numeric_limits<float>::quiet_NaN(), 1.0F, kNever};
  for (const float temperature : {0.0F, 1e-30F, 1.0F}) {
    const Sampled out =
        *sample({.logits = broken, .temperature = temperature, .top_p = 0.9F, .logprobs = 3});
    CHECK(out.token == 1);
    CHECK(out.logprob == 0.0F);
  }
}

}  // namespace shoal::kernels::test
