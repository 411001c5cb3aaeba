// Byte-pair encoding (Sennrich et al., 2016), the tokenization of language models. A text is split into pieces
// (data/bpe_split.h), and within a piece adjacent tokens are merged into longer ones, in the order in which the merges
// were learned. There are two kinds:
//
// - byte-level: GPT-2 (Radford et al., 2019), and Llama 3, SmolLM and Qwen, which adopted it;
// - character-level, as in SentencePiece (Kudo and Richardson, 2018): Llama 2, TinyLlama, Mistral. A space is the
//   character ▁ (U+2581) there, and a character missing from the vocabulary becomes its bytes, tokens <0x00> to <0xFF>.
//
//   const data::Bpe bpe = data::load_bpe("gpt2");      // a folder from Hugging Face; or train_bpe(text, 1000)
//   const Tensor tokens = bpe.encode("Hello, world");  // i64 [4]
//   bpe.decode(tokens) == "Hello, world"
//
// decode(encode(text)) returns every text byte for byte, even invalid UTF-8, except for normalisations before
// splitting: BpeOptions::nfc, and SentencePiece's adding of a leading space only if missing, where an existing one is
// lost.
//
// Invariant: tokens equal those of Hugging Face's `tokenizers`, except for invalid UTF-8, which it rejects, and for its
// form C of Unicode 9: it leaves newer marks in place.
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

// A token matched as a whole, such as <|endoftext|>: never split or merged.
struct AddedToken {
  std::string text;
  std::int64_t id = 0;
  bool special = true;      // has a meaning to the model; else an ordinary word added to the vocabulary
  bool normalized = false;  // matched after those that are not
};

// How encode treats the text of special tokens: as those tokens, or as ordinary text. Untrusted text should not be able
// to end a document.
enum class Specials { as_tokens, as_text };

// How a text is split first (data/bpe_split.h has the patterns). sentencepiece tokens are made of characters, the
// others of bytes.
enum class Pieces : std::uint8_t { gpt2, digits, llama3, qwen2, sentencepiece };

// For sentencepiece: prepending a space to a text, so that its first word gets the same token as elsewhere. `always`
// and `missing` also apply after an added token.
enum class SpaceInFront : std::uint8_t {
  none,
  always,   // in addition to existing ones: Llama 2
  missing,  // where there is none
  first,    // where there is none, only at the beginning of the whole text
};

struct BpeOptions {
  Pieces pieces = Pieces::gpt2;
  bool ignore_merges = false;  // a piece that is itself a token is used as such, even if merges would not produce it
  bool nfc = false;            // normalise to Unicode's form C first (data/nfc.h): Qwen
  SpaceInFront space_in_front = SpaceInFront::none;
  std::vector<std::int64_t> begin = {};  // tokens that a model expects before a text; not added by encode
};

struct BpeTables;  // data/bpe_tables.h

class Bpe {
 public:
  using Merges = std::vector<std::pair<std::string, std::string>>;
  // tokens: the bytes of each, indexed by id; for sentencepiece with ▁ for a space and all 256 of <0x00> to <0xFF>.
  // Merges: the bytes of both parts, in the order learned; parts and results must be tokens. An added token has the id
  // of a token with the same bytes, or a new id; together the ids must be contiguous from 0. Inconsistencies are an
  // Error.
  Bpe(std::vector<std::string> tokens, Merges merges, std::vector<AddedToken> added = {}, BpeOptions options = {});

  // i64 [n]. Error for a byte missing from the vocabulary. Thread-safe.
  Tensor encode(std::string_view text, Specials specials = Specials::as_tokens) const;
  // The same as i32, with windows for training: data::split(bpe.encode(load_raw_text())).
  Tokens encode(const RawText& text, Specials specials = Specials::as_tokens) const;
  // Integers of any shape, in row-major order. Removes the space that encode prepended.
  std::string decode(const Tensor& tokens) const;

  std::int64_t size() const;                                       // of the vocabulary
  std::string_view bytes(std::int64_t token) const;                // its bytes
  std::optional<std::int64_t> find(std::string_view bytes) const;  // the token with these bytes
  const BpeOptions& options() const;

  // Writes the file `path` (tokenizer.json), readable by Hugging Face's libraries and load_bpe.
  void save(const std::string& path) const;

 private:
  std::shared_ptr<const BpeTables> tables_;
};

// From a folder with tokenizer.json, or with vocab.json and merges.txt (where <|endoftext|> is special), or from a
// tokenizer.json of any name. Supports BPE models of both kinds: byte-level with one of the splits above and no
// normalizer or NFC, and SentencePiece with byte_fallback. A post_processor becomes BpeOptions::begin. Throws
// FormatError with path and reason, also for files over 32 MiB and vocabularies of more than a million tokens.
Bpe load_bpe(const std::string& path);

// The number of leading bytes of `text` that form complete characters: excludes an incomplete character at the end. For
// displaying text that is generated token by token.
std::size_t whole_characters(std::string_view text);

// Learns a vocabulary of `size` tokens: the 256 bytes, the merges most frequent in `text`, and `specials` at the end,
// as in GPT-2. Ties go to the merge with the smaller token ids, as in Hugging Face's trainer. Fewer tokens if the text
// does not have enough pairs that occur twice.
Bpe train_bpe(std::string_view text, std::int64_t size, const std::vector<std::string>& specials = {"<|endoftext|>"});

}  // namespace mantissa::data
