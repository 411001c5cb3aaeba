// Tokens on disk, for corpora that memory does not hold: every window is read when it is asked for. Batches are those
// of data::Tokens (data/text.h) of the same numbers.
//
//   data::TokenFile train("openwebtext/train.bin");                      // nanoGPT's: u16, one after the other
//   auto [input, target] = train.batch(32, 1024, seed, step);
//
//   data::TokenWriter out("train.bin");                                  // such a file
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
  int bytes = 2;  // of each token: 1, 2 or 4, unsigned, the low byte first
};

// Numbers one after the other, as numpy's tofile writes them, or behind the header of llm.c's data (20240520: u16,
// 20240801: u32), which is recognised. Copies share the file.
class TokenFile {
 public:
  // FormatError for a file that is no whole number of tokens, or not as long as its header says; Error where it cannot
  // be opened. Whatever shrinks it later is a FormatError of the read that meets it.
  explicit TokenFile(const std::string& path, const TokenFileOptions& options = {});

  std::int64_t size() const { return size_; }  // tokens
  Tensor read(std::int64_t first, std::int64_t count) const;  // i64 [count]
  // As Tokens::batch and Tokens::windows.
  TextBatch batch(std::int64_t count, std::int64_t length, std::uint64_t seed, std::uint64_t number) const;
  TextBatch windows(std::int64_t first, std::int64_t count, std::int64_t length) const;
  std::int64_t windows_of(std::int64_t length) const;

  // A part of it.
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
// As of a text: the last part is for validation.
TokenFileSplit split(const TokenFile& tokens, double validation = 0.1);

// Writes a file of tokens without a header, which appears in commit() (io/file.h). Memory does not grow with it.
class TokenWriter {
 public:
  explicit TokenWriter(const std::string& path, const TokenFileOptions& options = {});
  // Integers of any shape and device. Error for a token that does not fit; nothing of the tensor is written then.
  void append(const Tensor& tokens);
  void commit();
  std::int64_t size() const { return size_; }  // tokens so far

 private:
  io::AtomicFile file_;
  int bytes_;
  std::int64_t size_ = 0;
};

}  // namespace mantissa::data
