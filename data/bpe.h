// Byte-pair encoding (Sennrich et al., 2016): how language models have their texts. A text is cut into pieces
// (data/bpe_split.h), and within a piece what is there is merged into ever longer tokens, in the order in which the
// merges were learned. There are two kinds:
//
// - of bytes: GPT-2 (Radford et al., 2019), and Llama 3, SmolLM and Qwen, which took it over;
// - of characters, as SentencePiece makes it (Kudo and Richardson, 2018): Llama 2, TinyLlama, Mistral. A space is the
//   character ▁ (U+2581) there, and a character that the vocabulary lacks is its bytes, the tokens <0x00> to <0xFF>.
//
//   const data::Bpe bpe = data::load_bpe("gpt2");      // a folder from Hugging Face; or train_bpe(text, 1000)
//   const Tensor tokens = bpe.encode("Hello, world");  // i64 [4]
//   bpe.decode(tokens) == "Hello, world"
//
// Every text comes back to the byte, also one that is no UTF-8, but for what a vocabulary changes in it before it cuts:
// BpeOptions::nfc writes characters in one way, and where SentencePiece adds a missing space in front, one that is
// there is lost.
//
// Invariant: tokens are those of Hugging Face's `tokenizers`, except for bytes that are no UTF-8, which that refuses,
// and that its normal form C is of Unicode 9: it leaves marks that are newer where they are.
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

// Where a text is cut first (data/bpe_split.h has the patterns). Tokens of sentencepiece are made of characters, those
// of the others of bytes.
enum class Pieces : std::uint8_t { gpt2, digits, llama3, qwen2, sentencepiece };

// Of sentencepiece: the space that a text begins with, so that its first word is the token that it is elsewhere. With
// `always` and `missing` the text after an added token, too.
enum class SpaceInFront : std::uint8_t {
  none,
  always,   // one more than there are: Llama 2
  missing,  // where there is none
  first,    // where there is none, and only at the beginning of all
};

struct BpeOptions {
  Pieces pieces = Pieces::gpt2;
  bool ignore_merges = false;  // a piece that is a token is one, although merges would not make it
  bool nfc = false;            // the text is brought into Unicode's normal form C first (data/nfc.h): Qwen
  SpaceInFront space_in_front = SpaceInFront::none;
  std::vector<std::int64_t> begin = {};  // tokens that a model sees before a text; encode leaves them to its caller
};

struct BpeTables;  // data/bpe_tables.h

class Bpe {
 public:
  using Merges = std::vector<std::pair<std::string, std::string>>;
  // tokens: the bytes of each, by number; of sentencepiece with ▁ for a space and all 256 of <0x00> to <0xFF>.
  // Merges: the bytes of both parts, first learned first; parts and what they make are tokens. An added token has the
  // number of one of the tokens, whose bytes are its text, or a further one; together they have the numbers from 0 on.
  // Error for what does not fit together.
  Bpe(std::vector<std::string> tokens, Merges merges, std::vector<AddedToken> added = {}, BpeOptions options = {});

  // i64 [n]. Error for a byte that the vocabulary lacks. Any number of threads may call it.
  Tensor encode(std::string_view text, Specials specials = Specials::as_tokens) const;
  // The same as i32, with windows for training: data::split(bpe.encode(load_raw_text())).
  Tokens encode(const RawText& text, Specials specials = Specials::as_tokens) const;
  // Integers of any shape, row by row. Without the space that encode has put in front.
  std::string decode(const Tensor& tokens) const;

  std::int64_t size() const;                                       // of the vocabulary
  std::string_view bytes(std::int64_t token) const;                // what it stands for
  std::optional<std::int64_t> find(std::string_view bytes) const;  // the token of these, as the constructor has them
  const BpeOptions& options() const;

  // Writes the file `path` (tokenizer.json), which Hugging Face's libraries and load_bpe read.
  void save(const std::string& path) const;

 private:
  std::shared_ptr<const BpeTables> tables_;
};

// From a folder with tokenizer.json, or with vocab.json and merges.txt (where <|endoftext|> is special), or from a
// tokenizer.json of any name. Read are BPE models of both kinds: of bytes that are cut in one of the ways above, with
// no normalizer or NFC, and SentencePiece's with byte_fallback. A post_processor gives BpeOptions::begin. Throws
// FormatError with path and reason; files of more than 32 MiB, and vocabularies of more than a million tokens, are
// refused.
Bpe load_bpe(const std::string& path);

// How many bytes of `text` are characters that are complete: all but those at the end to which more bytes belong. What
// is written token by token can be shown so far.
std::size_t whole_characters(std::string_view text);

// Learns a vocabulary of `size` tokens: the 256 bytes, the merges that are most frequent in `text`, and `specials` at
// the end, as in GPT-2. Of equally frequent merges that of the smaller numbers comes first, as in Hugging Face's
// trainer. Fewer tokens where the text has not as many pairs that occur twice.
Bpe train_bpe(std::string_view text, std::int64_t size, const std::vector<std::string>& specials = {"<|endoftext|>"});

}  // namespace mantissa::data
