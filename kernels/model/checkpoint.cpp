// Opens all safetensors files of a model directory and holds them to its index file, if it has one.
#include "kernels/model/checkpoint.h"

#include <map>
#include <string>
#include <system_error>
#include <utility>

#include "kernels/model/json.h"

namespace shoal::kernels {
namespace {

constexpr std::string_view kIndexName = "model.safetensors.index.json";

tl::unexpected<Error> refuse(const std::filesystem::path& path, const std::string& what) {
  return fail(Code::kMisconfigured, path.string() + ": " + what);
}

// Which tensors each file must hold; empty lists without an index file.
using Shards = std::map<std::string, std::vector<std::string>>;

Result<Shards> shards_of_index(const std::filesystem::path& index) {
  TRY(const auto document, JsonDocument::read(index));
  simdjson::dom::object map;
  if (document.root()["weight_map"].get(map) != simdjson::SUCCESS) {
    return refuse(index, "has no object weight_map");
  }
  Shards shards;
  for (const auto& [tensor, value] : map) {
    std::string_view file;
    if (value.get(file) != simdjson::SUCCESS || file.empty() ||
        file.find('/') != std::string_view::npos) {
      return refuse(index, "weight_map." + std::string(tensor) + " is not a file name");
    }
    shards[std::string(file)].emplace_back(tensor);
  }
  return shards;
}

Result<Shards> shards_of_directory(const std::filesystem::path& directory) {
  Shards shards;
  std::error_code error;
  // The range form of the loop would throw on an error while reading on.
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() == ".safetensors") {
      shards[it->path().filename().string()] = {};
    }
  }
  if (error) {
    return refuse(directory, "cannot read the model directory (" + error.message() + ")");
  }
  return shards;
}

Result<Shards> list_shards(const std::filesystem::path& directory) {
  TRY(auto shards, shards_of_directory(directory));
  std::error_code error;
  const auto index = directory / kIndexName;
  if (std::filesystem::exists(index, error)) {
    TRY(auto named, shards_of_index(index));
    for (const auto& [file, tensors] : named) {
      if (!shards.contains(file)) {
        return refuse(directory / file,
                      "missing, but named by " + std::string(kIndexName) + ": fetch this shard");
      }
    }
    shards = std::move(named);
  }
  if (shards.empty()) {
    return refuse(directory, "holds no .safetensors file: pass a model directory");
  }
  return shards;
}

}  // namespace

Result<void> Checkpoint::add(SafetensorsFile file) {
  for (const auto& [name, tensor] : file.tensors()) {
    const auto [it, fresh] = tensors_.try_emplace(name, Found{&tensor, &file.path()});
    if (!fresh) {
      return refuse(
          file.path(),
          "tensor " + name + " is also in " + it->second.file->string() + ": remove one of them");
    }
  }
  files_.push_back(std::move(file));
  return {};
}

Result<std::shared_ptr<const Checkpoint>> Checkpoint::open(const std::filesystem::path& directory,
                                                           const LoadProgress& progress) {
  TRY(const auto shards, list_shards(directory));
  auto checkpoint = std::make_shared<Checkpoint>();
  checkpoint->directory_ = directory;
  std::int64_t total = 0;
  for (const auto& [name, tensors] : shards) {
    std::error_code error;
    const auto size = std::filesystem::file_size(directory / name, error);
    total += error ? 0 : static_cast<std::int64_t>(size);
  }
  for (const auto& [name, tensors] : shards) {
    TRY(auto file, SafetensorsFile::open(directory / name));
    for (const std::string& tensor : tensors) {
      if (file.find(tensor) == nullptr) {
        return refuse(file.path(),
                      "lacks tensor " + tensor + ", which " + std::string(kIndexName) +
                          " places there: fetch both again");
      }
    }
    checkpoint->bytes_ += file.bytes();
    TRY_VOID(checkpoint->add(std::move(file)));
    if (progress) {
      progress(checkpoint->bytes_, total);
    }
  }
  return checkpoint;
}

Checkpoint::Found Checkpoint::find(std::string_view name) const {
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? Found{} : it->second;
}

}  // namespace shoal::kernels
