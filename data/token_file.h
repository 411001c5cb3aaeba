// Tokens on disk, for corpora larger than memory: windows are read on demand. Batches equal those of data::Tokens
// (data/text.h) with the same tokens.
//
//   data::TokenFile train("openwebtext/train.bin");                      // nanoGPT's format: u16, without a header
//   auto [input, target] = train.batch(32, 1024, seed, step);
//
//   data::TokenWriter out("train.bin");                                  // writes such a file
//   for (const std::string& page : pages) out.append(bpe.encode(page));
//   out.commit();
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "data/text.h"
#include "io/file.h"

namespace mantissa::data {

struct TokenFileOptions {
  int bytes = 2;  // per token: 1, 2 or 4, unsigned, little-endian
};

// Plain integers, as written by numpy's tofile, or with the header of llm.c's data files (20240520: u16, 20240801:
// u32), which is detected. Copies share the file.
class TokenFile {
 public:
  // FormatError if the file is not a whole number of tokens, or not as long as its header says; Error if it cannot be
  // opened. If the file shrinks later, the read that notices throws FormatError.
  explicit TokenFile(const std::string& path, const TokenFileOptions& options = {});

  std::int64_t size() const { return size_; }  // tokens
  Tensor read(std::int64_t first, std::int64_t count) const;  // i64 [count]
  // As Tokens::batch and Tokens::windows.
  TextBatch batch(std::int64_t count, std::int64_t length, std::uint64_t seed, std::uint64_t number) const;
  TextBatch windows(std::int64_t first, std::int64_t count, std::int64_t length) const;
  std::int64_t windows_of(std::int64_t length) const;

  // A sub-range of the tokens.
  TokenFile part(std::int64_t first, std::int64_t count) const;

 private:
  void read_into(std::int64_t first, std::span<std::int64_t> out) const;

  std::shared_ptr<const io::FileReader> file_;
  int bytes_;
  std::int64_t begin_ = 0, size_ = 0;  // begin_: in bytes
};

struct TokenFileSplit {
  TokenFile train, validation;
};
// As for a text: the last part is for validation.
TokenFileSplit split(const TokenFile& tokens, double validation = 0.1);

// Writes a token file without a header; it appears under its name in commit() (io/file.h). Uses constant memory.
class TokenWriter {
 public:
  explicit TokenWriter(const std::string& path, const TokenFileOptions& options = {});
  // Integers of any shape and device. Error for a token that does not fit; then nothing of the tensor is written.
  void append(const Tensor& tokens);
  void commit();
  std::int64_t size() const { return size_; }  // tokens so far

 private:
  io::AtomicFile file_;
  int bytes_;
  std::int64_t size_ = 0;
};

}  // namespace mantissa::data
