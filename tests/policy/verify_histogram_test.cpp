// Which drafts are verified when there is room for some, and what is counted of them.
#include "actors/policy/verify_histogram.h"

#include <doctest/doctest.h>
#include <limits>
#include <numeric>
#include <vector>

using namespace shoal;

namespace {

DraftedRequest request(float confidence, Nanos slack = Nanos{0}) {
  DraftedRequest r{.slack = slack};
  r.confidence.fill(confidence);
  return r;
}

std::vector<std::uint8_t> filled(std::int64_t room, const std::vector<DraftedRequest>& requests) {
  std::vector<std::uint8_t> lengths(requests.size());
  fill_by_chance(room, requests, lengths);
  return lengths;
}

using Lengths = std::vector<std::uint8_t>;

}  // namespace

TEST_CASE("the likeliest drafts are verified") {
  // 0.9, 0.81, 0.73, 0.7, 0.66, 0.59, 0.5
  const std::vector requests{request(0.5F), request(0.9F), request(0.7F)};
  CHECK(filled(4, requests) == Lengths{0, 3, 1});
  CHECK(filled(7, requests) == Lengths{1, 5, 1});
  CHECK(filled(-1, requests) == Lengths{0, 0, 0});
  CHECK(filled(1'000, requests) == Lengths{5, 5, 5});
}

TEST_CASE("of equally likely drafts those that are due first are verified") {
  const std::vector requests{
      request(0.5F, Nanos{30}), request(0.5F, Nanos{10}), request(0.5F, Nanos{20})};
  CHECK(filled(1, requests) == Lengths{0, 1, 0});
  CHECK(filled(4, requests) == Lengths{1, 2, 1});
}

TEST_CASE("drafts of late requests come before all others, the latest first") {
  const std::vector requests{
      request(0.9F), request(0.1F, Nanos{-1}), request(0.9F), request(0.1F, Nanos{-5})};
  CHECK(filled(7, requests) == Lengths{0, 2, 0, 5});
  CHECK(filled(11, requests) == Lengths{1, 5, 0, 5});
}

TEST_CASE("drafts are counted by the chance of all up to them") {
  DraftHistogram histogram;
  histogram.add(request(0.5F));
  for (std::size_t place = 0; place < kMostDrafts; ++place) {
    CHECK(histogram.counts[32 * (place + 1)] == 1);
    CHECK(histogram.by_place[place] == kCertain >> (place + 1));
  }
  histogram.add(request(0.5F, Nanos{-1}));
  CHECK(histogram.requests == 2);
  CHECK(histogram.owed == 5);
  CHECK(std::accumulate(histogram.counts.begin(), histogram.counts.end(), 0) == 5);
}

TEST_CASE("a bucket's chance is within two percent of what is in it") {
  for (float chance = 1; chance > 1.0F / 200; chance *= 0.997F) {
    DraftHistogram histogram;
    DraftedRequest one{.drafts = 1};
    one.confidence[0] = chance;
    histogram.add(one);
    for (std::size_t b = 0; b < histogram.counts.size(); ++b) {
      if (histogram.counts[b] == 1) {
        const double middle = static_cast<double>(kBucketChances[b]) / kCertain;
        CHECK(middle == doctest::Approx(chance).epsilon(0.02));
      }
    }
  }
}

TEST_CASE("confidences that are none count as never or always") {
  DraftHistogram histogram;
  histogram.add(request(std::numeric_limits<float>::quiet_NaN()));
  histogram.add(request(-1));
  histogram.add(request(2));
  CHECK(histogram.counts.back() == 10);
  CHECK(histogram.counts.front() == 5);
}

TEST_CASE("a histogram of some requests stands for more or fewer of them") {
  DraftHistogram three;
  three.add(request(0.9F));
  three.add(request(0.5F));
  three.add(request(0.1F, Nanos{-1}));
  const DraftHistogram six = scaled(three, 6);
  CHECK(six.requests == 6);
  CHECK(six.owed == 10);
  CHECK(std::accumulate(six.counts.begin(), six.counts.end(), 0) == 20);
  CHECK(six.by_place[0] == 2 * three.by_place[0]);
  CHECK(six.counts[32] == 2);  // of 0.5
  const DraftHistogram one = scaled(three, 1);
  CHECK(std::accumulate(one.counts.begin(), one.counts.end(), 0) == 3);
  CHECK(scaled(three, 0).owed == 0);
  CHECK(scaled(DraftHistogram{}, 4).requests == 4);
  three += six;
  CHECK(three.requests == 9);
  CHECK(three.owed == 15);
}
