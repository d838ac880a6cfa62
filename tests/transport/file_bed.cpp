// Steps until an answer is there.
#include "tests/transport/file_bed.h"

#include <algorithm>
#include <optional>

namespace shoal::testing {
namespace {

constexpr std::chrono::milliseconds kStep(10);
// Far beyond any deadline of the store.
constexpr int kSteps = 12'000;

template <class T>
T step_until(FileBed& bed, const std::optional<T>& answer) {
  for (int i = 0; i < kSteps && !answer; ++i) {
    bed.pass(kStep);
  }
  return answer.value();
}

}  // namespace

transport::BlockStoreParams FileBed::params(std::uint64_t writer) {
  transport::BlockStoreParams params = block_params();
  params.now = scheduler.port().now;
  params.wall = [this] { return wall(); };
  params.writer = IncarnationId{writer};
  return params;
}

std::unique_ptr<transport::BlockStore> FileBed::open(std::shared_ptr<transport::FileIo> io,
                                                     const transport::BlockStoreParams& params) {
  return transport::make_sim_blocks({params, std::move(io), scheduler.port(), nullptr});
}

std::vector<Result<void>> FileBed::put(transport::BlockStore& store, const BlockChain& chain) {
  std::optional<std::vector<Result<void>>> answer;
  store.put(chain.records, [&answer](std::vector<Result<void>> r) { answer = std::move(r); });
  return step_until(*this, answer);
}

std::vector<transport::Loaded> FileBed::get(transport::BlockStore& store,
                                            const std::vector<KvWanted>& wanted) {
  std::optional<std::vector<transport::Loaded>> answer;
  store.get(wanted,
            scheduler.now() + std::chrono::seconds(60),
            [&answer](std::vector<transport::Loaded> r) { answer = std::move(r); });
  return step_until(*this, answer);
}

std::size_t FileBed::stored(transport::BlockStore& store, const BlockChain& chain) {
  const auto results = put(store, chain);
  return static_cast<std::size_t>(std::count_if(
      results.begin(), results.end(), [](const auto& result) { return result.has_value(); }));
}

std::size_t FileBed::loaded(transport::BlockStore& store, const BlockChain& chain) {
  return equal(get(store, chain.wanted), chain);
}

std::vector<std::string> SimBed::segments() const {
  std::vector<std::string> names = disk.files();
  std::erase_if(names, [](const std::string& name) { return !name.ends_with(".kv"); });
  return names;
}

std::int64_t SimBed::bytes() const {
  std::int64_t sum = 0;
  for (const std::string& name : segments()) {
    sum += static_cast<std::int64_t>(disk.content(name).size());
  }
  return sum;
}

}  // namespace shoal::testing
