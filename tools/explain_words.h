// What `shoal explain` says in words of the structured fields that a timeline has.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace shoal::tools {

// The text of a field of one entry; empty: it has none.
using FieldText = std::function<std::string(std::string_view name)>;

// What a field holds, with its unit. Empty: not known here.
std::string_view meaning_of(std::string_view field);

// Why a request takes what it takes of kept KV: of an entry with `kv_reason`.
std::string kv_words(const FieldText& field);

// Why a request was refused: of an entry with `why`.
std::string refusal_words(const FieldText& field);

}  // namespace shoal::tools
