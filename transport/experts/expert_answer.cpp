// Layout of an answer: 32 bytes of header, then the outputs, or the text of an error.
#include <string>
#include <utility>

#include "schemas/byte_fields.h"
#include "transport/experts/expert_shard.h"

namespace shoal::transport {
namespace {

constexpr std::uint32_t kMagic = 0x31415853;  // "SXA1"
constexpr std::size_t kHeader = 32;

enum Field : std::size_t { kMagicAt = 0, kPartAt = 4, kDispatchAt = 8, kCodeAt = 16 };

void write_header(const BatchOwner& owner, std::uint32_t code, std::span<std::byte> out) {
  put_field(out, kMagicAt, kMagic);
  put_field(out, kPartAt, owner.part);
  put_field(out, kDispatchAt, owner.dispatch);
  put_field(out, kCodeAt, code);
}

}  // namespace

std::shared_ptr<std::vector<std::byte>> make_outputs(const BatchOwner& owner,
                                                     const ExpertBatch& batch) {
  const auto size = static_cast<std::size_t>(batch.outputs_size().value);
  auto bytes = std::make_shared<std::vector<std::byte>>(kHeader + size);
  write_header(owner, 0, *bytes);
  return bytes;
}

std::byte* rows_of(std::vector<std::byte>& outputs) {
  return outputs.data() + kHeader;
}

ExpertOutputs outputs_of(Buffer answer) {
  const std::byte* const rows = answer->data() + kHeader;
  return {std::move(answer), rows};
}

Buffer make_answer(const BatchOwner& owner, const Result<ExpertOutputs>& outputs) {
  if (outputs) {
    return outputs->holder;
  }
  const std::string& text = outputs.error().message;
  auto bytes = std::make_shared<std::vector<std::byte>>(kHeader + text.size());
  write_header(owner, 1 + static_cast<std::uint32_t>(outputs.error().code), *bytes);
  std::memcpy(bytes->data() + kHeader, text.data(), text.size());
  return bytes;
}

Result<ReadAnswer> read_answer(Buffer message) {
  if (message->size() < kHeader || get_field<std::uint32_t>(*message, kMagicAt) != kMagic) {
    return fail(Code::kCorrupt, "answer of an expert shard: it has no header of one");
  }
  const auto code = get_field<std::uint32_t>(*message, kCodeAt);
  ReadAnswer answer{.dispatch = get_field<std::uint64_t>(*message, kDispatchAt),
                    .part = get_field<std::uint32_t>(*message, kPartAt),
                    .outputs = {},
                    .length = Bytes{static_cast<std::int64_t>(message->size() - kHeader)}};
  if (code == 0) {
    answer.outputs = outputs_of(std::move(message));
  } else if (code <= static_cast<std::uint32_t>(kCodeCount)) {
    const std::string text(reinterpret_cast<const char*>(message->data()) + kHeader,
                           message->size() - kHeader);
    answer.outputs = fail(static_cast<Code>(code - 1), text);
  } else {
    return fail(Code::kCorrupt, "answer of an expert shard: it has no known code");
  }
  return answer;
}

}  // namespace shoal::transport
