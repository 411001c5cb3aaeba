// Byte-level byte-pair encoding (Sennrich et al., 2016): the tokens of GPT-2 (Radford et al., 2019) and of models that
// took them over, Llama 3 and SmolLM among them. A text is cut into pieces (data/bpe_split.h), and within a piece bytes
// are merged into ever longer tokens, in the order in which the merges were learned.
//
//   const data::Bpe bpe = data::load_bpe("gpt2");      // a folder from Hugging Face; or train_bpe(text, 1000)
//   const Tensor tokens = bpe.encode("Hello, world");  // i64 [4]
//   bpe.decode(tokens) == "Hello, world"               // every text comes back to the byte, also one that is no UTF-8
//
// Invariant: tokens are those of Hugging Face's `tokenizers`, except for bytes that are no UTF-8, which that refuses.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "data/text.h"

namespace mantissa::data {

// A token that stands for its text as a whole, such as <|endoftext|>: neither cut nor merged.
struct AddedToken {
  std::string text;
  std::int64_t id = 0;
  bool special = true;      // means something to a model; else it is a word that was added to the vocabulary
  bool normalized = false;  // found after those that are not
};

// What encode makes of the special tokens' texts: the tokens, or what it makes of any text. Text that somebody else
// wrote should not be able to end a document.
enum class Specials { as_tokens, as_text };

// Where a text is cut first (data/bpe_split.h has the patterns), and whether a piece that is a token stays one although
// merges would not make it.
enum class Pieces : std::uint8_t { gpt2, digits, llama3, qwen2 };
struct BpeOptions {
  Pieces pieces = Pieces::gpt2;
  bool ignore_merges = false;
};

struct BpeTables;  // data/bpe_tables.h

class Bpe {
 public:
  using Merges = std::vector<std::pair<std::string, std::string>>;
  // tokens: the bytes of each, by number. Merges: the bytes of both parts, first learned first; parts and what they
  // make are tokens. An added token has the number of one of the tokens, whose bytes are its text, or a further one;
  // together they have the numbers from 0 on. Error for what does not fit together.
  Bpe(std::vector<std::string> tokens, Merges merges, std::vector<AddedToken> added = {}, BpeOptions options = {});

  // i64 [n]. Error for a byte that the vocabulary lacks. Any number of threads may call it.
  Tensor encode(std::string_view text, Specials specials = Specials::as_tokens) const;
  // The same as i32, with windows for training: data::split(bpe.encode(load_raw_text())).
  Tokens encode(const RawText& text, Specials specials = Specials::as_tokens) const;
  std::string decode(const Tensor& tokens) const;  // integers of any shape, row by row

  std::int64_t size() const;                                       // of the vocabulary
  std::string_view bytes(std::int64_t token) const;                // what it stands for
  std::optional<std::int64_t> find(std::string_view bytes) const;  // the token that stands for them, if there is one

  // Writes the file `path` (tokenizer.json), which Hugging Face's libraries and load_bpe read.
  void save(const std::string& path) const;

 private:
  std::shared_ptr<const BpeTables> tables_;
};

// From a folder with tokenizer.json, or with vocab.json and merges.txt (where <|endoftext|> is special), or from a
// tokenizer.json of any name. Only byte-level ones: a BPE model, one of the ways above to cut, no prefix space, no
// normalizer. What a post_processor would put around a text is not added. Throws FormatError with path and reason;
// files of more than 32 MiB, and vocabularies of more than a million tokens, are refused.
Bpe load_bpe(const std::string& path);

// Learns a vocabulary of `size` tokens: the 256 bytes, the merges that are most frequent in `text`, and `specials` at
// the end, as in GPT-2. Of equally frequent merges that of the smaller numbers comes first, as in Hugging Face's
// trainer. Fewer tokens where the text has not as many pairs that occur twice.
Bpe train_bpe(std::string_view text, std::int64_t size, const std::vector<std::string>& specials = {"<|endoftext|>"});

}  // namespace mantissa::data
