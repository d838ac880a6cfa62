// Inflates piece by piece; several members one after another are one text.
#include "tests/sim/gzip_file.h"

#include <cstdint>
#include <fstream>
#include <isa-l/igzip_lib.h>
#include <iterator>
#include <memory>
#include <utility>

namespace shoal::sim {
namespace {

Result<std::string> inflate(std::string packed, const std::string& name) {
  constexpr std::size_t kPiece = 1 << 20;
  const auto state = std::make_unique<inflate_state>();
  isal_inflate_init(state.get());
  state->crc_flag = ISAL_GZIP;
  state->next_in = reinterpret_cast<std::uint8_t*>(packed.data());
  state->avail_in = static_cast<std::uint32_t>(packed.size());
  std::string text;
  do {
    if (state->block_state == ISAL_BLOCK_FINISH) {  // another member follows
      isal_inflate_reset(state.get());
      state->crc_flag = ISAL_GZIP;
    }
    const std::size_t had = text.size();
    text.resize(had + kPiece);
    state->next_out = reinterpret_cast<std::uint8_t*>(text.data() + had);
    state->avail_out = kPiece;
    const int status = isal_inflate(state.get());
    text.resize(text.size() - state->avail_out);
    const bool goes_on = state->block_state == ISAL_BLOCK_FINISH || text.size() > had;
    if (status != ISAL_DECOMP_OK || !goes_on) {
      return fail(Code::kMisconfigured,
                  name + ": the gzip data is damaged or incomplete; copy the file again");
    }
  } while (state->block_state != ISAL_BLOCK_FINISH || state->avail_in > 0);
  return text;
}

}  // namespace

Result<std::string> read_text(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!std::filesystem::is_regular_file(file) || !stream) {
    return fail(Code::kMisconfigured, file.string() + ": cannot be read; name a trace file");
  }
  std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  return bytes.starts_with("\x1f\x8b") ? inflate(std::move(bytes), file.string())
                                       : Result<std::string>(std::move(bytes));
}

}  // namespace shoal::sim
