#include "data/text.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/ops.h"
#include "data/draws.h"
#include "data/folders.h"
#include "data/windows.h"
#include "io/file.h"

namespace mantissa::data {
namespace {

constexpr std::int64_t most_bytes = std::int64_t{1} << 31;

void check_tokens(const Tensor& t) {
  check(!t.defined() || (t.dim() == 1 && (t.dtype() == u8 || t.dtype() == i32 || t.dtype() == i64) &&
                         t.is_contiguous() && t.device().is_cpu()),
        "Tokens: expected contiguous u8, i32 or i64 tokens [N] on the CPU, got ", t);
}
// A reader for Windows.
auto reader_of(const Tensor& tokens) {
  return [&tokens](std::int64_t begin, std::span<std::int64_t> out) {
    const auto copy = [&](const auto* from) { std::copy_n(from + begin, out.size(), out.begin()); };
    if (tokens.dtype() == u8) copy(tokens.data<std::uint8_t>());
    else if (tokens.dtype() == i32) copy(tokens.data<std::int32_t>());
    else copy(tokens.data<std::int64_t>());
  };
}

RawText read_text(const std::string& path, const std::string& name) {
  std::string bytes = io::read_file(path, most_bytes);
  const auto size = bytes.size();
  if (size < 2) io::fail_format(path, "holds no text: it has ", size, " bytes");
  return {std::move(bytes), concat(name, ": ", size, " characters from ", path)};
}

}  // namespace

TextBatch Tokens::batch(std::int64_t count, std::int64_t length, std::uint64_t seed, std::uint64_t number) const {
  check_tokens(tokens);
  return Windows("Tokens", size(), count, length, reader_of(tokens)).at_random(seed, number);
}
TextBatch Tokens::windows(std::int64_t first, std::int64_t count, std::int64_t length) const {
  check_tokens(tokens);
  return Windows("Tokens", size(), count, length, reader_of(tokens)).side_by_side(first);
}

Tensor Text::encode(std::string_view text) const {
  Tensor t = Tensor::allocate({static_cast<std::int64_t>(text.size())}, i64);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t token = alphabet.find(text[i]);
    check(token != std::string::npos, "the text the model was trained on has no character ",
          io::quote(text.substr(i, 1)));
    t.data<std::int64_t>()[i] = static_cast<std::int64_t>(token);
  }
  return t;
}

std::string Text::decode(const Tensor& t) const {
  std::string s;
  for (const std::int64_t token : t.to(cpu).to_vector<std::int64_t>()) {
    check(token >= 0 && token < static_cast<std::int64_t>(alphabet.size()), "Text: token ", token, " is not below the ",
          alphabet.size(), " of the alphabet");
    s += alphabet[static_cast<std::size_t>(token)];
  }
  return s;
}

Text text_from(std::string_view bytes, const std::string& source) {
  check(!bytes.empty(), "text_from: the text is empty");
  std::array<bool, 256> occurs{};
  for (const char c : bytes) occurs[static_cast<std::uint8_t>(c)] = true;
  std::array<std::uint8_t, 256> token{};
  Text text{{Tensor::allocate({static_cast<std::int64_t>(bytes.size())}, u8), source}, ""};
  for (int c = 0; c < 256; ++c) {
    if (!occurs[static_cast<std::size_t>(c)]) continue;
    token[static_cast<std::size_t>(c)] = static_cast<std::uint8_t>(text.alphabet.size());
    text.alphabet += static_cast<char>(c);
  }
  std::uint8_t* to = text.tokens.data<std::uint8_t>();
  for (const char c : bytes) *to++ = token[static_cast<std::uint8_t>(c)];
  return text;
}

TextSplit split(const Text& text, double validation) {
  auto [train, rest] = split(static_cast<const Tokens&>(text), validation);
  return {{std::move(train), text.alphabet}, {std::move(rest), text.alphabet}};
}

std::int64_t first_of_validation(std::int64_t size, double validation) {
  check(validation > 0 && validation < 1, "split: the part for validation must lie between 0 and 1, got ", validation);
  const auto cut = static_cast<std::int64_t>(static_cast<double>(size) * (1 - validation));
  check(cut > 0 && cut < size, "split: a text of ", size, " tokens is too short to be split");
  return cut;
}
TokensSplit split(const Tokens& tokens, double validation) {
  const std::int64_t cut = first_of_validation(tokens.size(), validation);
  return {{slice(tokens.tokens, 0, 0, cut), tokens.source}, {slice(tokens.tokens, 0, cut), tokens.source}};
}

std::string synthetic_text(std::int64_t length, std::uint64_t seed) {
  static constexpr std::array nouns{"cat", "dog", "king", "river", "tree", "house", "bird", "child", "stone", "star"};
  static constexpr std::array adjectives{"old", "small", "green", "happy", "silent", "bright", "tired", "kind"};
  static constexpr std::array verbs{"sees", "finds", "follows", "loves", "forgets", "calls", "paints", "hears"};
  static constexpr std::array ends{".\n", ".\n", "!\n", "?\n", ", and ", ", but "};
  Draws draws(seed, Purpose::synthetic, 0, 1);
  const auto pick = [&](const auto& words) {
    return std::string(words[static_cast<std::size_t>(draws.below(static_cast<std::int64_t>(words.size())))]);
  };
  const auto thing = [&] { return "the " + (draws.below(2) == 0 ? pick(adjectives) + " " : "") + pick(nouns); };
  std::string text;
  while (static_cast<std::int64_t>(text.size()) < length)
    text += thing() + " " + pick(verbs) + " " + thing() + pick(ends);
  text.resize(static_cast<std::size_t>(std::max<std::int64_t>(length, 0)));
  return text;
}

RawText load_raw_text(const std::string& name, const std::string& where) {
  constexpr std::int64_t drawn = 200000;
  check(name == "tinyshakespeare" || name == "synthetic", "unknown text ", io::quote(name),
        ", expected tinyshakespeare or synthetic");
  const std::string synthetic = concat("synthetic: ", drawn, " characters drawn by a program");
  if (name == "synthetic") return {synthetic_text(drawn), synthetic};
  if (!where.empty()) {
    if (!is_folder(where)) return read_text(where, "text");
    for (const std::string& file : {where + "/" + name + "/input.txt", where + "/input.txt"})
      if (path_exists(file)) return read_text(file, name);
    fail("the folder ", where, " has no input.txt, there or in its subfolder ", name,
         "; a text file may be given instead");
  }
  std::string searched;
  for (const std::string& folder : usual_folders(name)) {
    if (path_exists(folder + "/input.txt")) return read_text(folder + "/input.txt", name);
    searched += (searched.empty() ? "" : ", ") + folder;
  }
  return {synthetic_text(drawn), concat(synthetic, ", because no input.txt was found in ", searched)};
}

Text load_text(const std::string& name, const std::string& where) {
  const RawText text = load_raw_text(name, where);
  return text_from(text.bytes, text.source);
}

}  // namespace mantissa::data
