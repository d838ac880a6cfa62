// The row `file`: segments in a directory that several processes share, on a local disk or any
// shared POSIX mount. Each writes segments of its own, all read all.
//
// Durable: written and fdatasynced, then its index entry, too. Only then it is visible here and
// acknowledged; others see it within two seconds. A mount that hangs holds the threads of this
// store (readers + 3), never an operation beyond its deadline; stop() leaves such threads behind.
//
// Ceiling: of all files. A segment is 1/64 of it (128 KiB to 256 MiB, or one record that is
// larger). Of the processes that share a directory each removes segments of its own, and of the
// dead, as long as the files are within five segments of its ceiling; nobody removes what a living
// one wrote, however small his own ceiling is. So the files of one process stay below its ceiling,
// from 768 KiB on; those of several below the largest, and five segments for every writer but one.
// With others' files over its ceiling a process keeps of its own what is newest, a segment a class.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "transport/block_store_params.h"
#include "transport/file_store/file_io.h"
#include "transport/file_store/lanes.h"

namespace shoal::transport {

inline constexpr char kVersionFile[] = "shoal-kv";

// Of the ceiling: what is visible stays below it, so that segments have garbage by the time that
// files are removed.
inline constexpr std::int64_t kVisiblePercent = 70;

// A segment of that many bytes is full, and its writer begins another.
Bytes full_segment(const BlockStoreLimits& limits);
// Segments are removed while all files have more.
Bytes removal_mark(const BlockStoreLimits& limits);
// What the files of so many writers never have more than, as long as files can be removed and no
// record is larger than a segment.
Bytes most_files(const BlockStoreLimits& limits, std::int64_t writers);

// kMisconfigured: it is no directory, or holds a store of another version, or a damaged
// kVersionFile; kUnavailable,
// kNoCapacity: it does not answer, cannot be made or written, or has no io_uring where that is
// asked for.
Result<std::unique_ptr<BlockStore>> open_file_store(BlockStoreParams params);
// The same over other files than `params` name; `where` they are, for messages.
Result<std::unique_ptr<BlockStore>> open_file_store(BlockStoreParams params,
                                                    std::shared_ptr<FileIo> io,
                                                    const std::string& where);

// Files of a directory, the way `params` say.
Result<std::shared_ptr<FileIo>> open_file_io(const BlockStoreParams& params);

// kMisconfigured: the directory holds no store, one of another version, or its kVersionFile is
// damaged. `where` names it.
Result<void> check_version(FileIo& io, const std::string& where);

// The same store over other files: on threads of its own, or, with a scheduler and lanes, on those.
std::unique_ptr<BlockStore> make_file_store(BlockStoreParams params, std::shared_ptr<FileIo> io);
std::unique_ptr<BlockStore> make_file_store(BlockStoreParams params,
                                            std::shared_ptr<FileIo> io,
                                            Scheduler scheduler,
                                            RunInLane lanes);

}  // namespace shoal::transport
