#include "data/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

#include "core/ops.h"
#include "data/bpe_split.h"
#include "data/bpe_tables.h"
#include "data/nfc.h"
#include "data/utf8.h"
#include "io/file.h"

namespace mantissa::data {
namespace {

constexpr std::int32_t none = -1;

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
}

std::string with_written_spaces(std::string_view text, bool one_in_front) {
  std::string out(one_in_front ? written_space : "");
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t space = std::min(text.find(' ', at), text.size());
    out += text.substr(at, space - at);
    if (space < text.size()) out += written_space;
    at = space + 1;
  }
  return out;
}
// The form of a text in which normalized added tokens are searched: `normalizer` in the file.
std::string normalized(const BpeOptions& o, std::string_view text) {
  std::string out = o.nfc ? nfc(text) : std::string(text);
  return o.space_in_front == SpaceInFront::always && !text.empty() ? with_written_spaces(out, true) : out;
}
bool is_normalized(const BpeOptions& o) { return o.nfc || o.space_in_front == SpaceInFront::always; }

// Merges the bytes or characters of pieces. A linked list of tokens, and a heap of the possible merges, ordered by rank
// and then by position: O(n log n) for n bytes.
class Merger {
 public:
  explicit Merger(const BpeTables& tables) : t_(tables) {}

  void merge(std::string_view piece, std::vector<std::int32_t>& out) {
    list_.clear();
    heap_.clear();
    if (t_.of_characters()) list_characters(piece);
    else list_bytes(piece);
    const auto n = static_cast<std::int32_t>(list_.size());
    for (std::int32_t i = 0; i < n; ++i)
      list_[static_cast<std::size_t>(i)].previous = i - 1,
      list_[static_cast<std::size_t>(i)].next = i + 1 < n ? i + 1 : none;
    for (std::int32_t i = 0; i + 1 < n; ++i) look_at(i);
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater());
      const auto rank = static_cast<std::uint32_t>(heap_.back() >> 32);
      const auto at = static_cast<std::int32_t>(heap_.back() & 0xffffffffu);
      heap_.pop_back();
      Item& item = list_[static_cast<std::size_t>(at)];
      if (item.rank != rank) continue;  // one of the two tokens has been merged since
      Item& right = list_[static_cast<std::size_t>(item.next)];
      item.token = t_.merged[rank];
      item.next = right.next;
      right.rank = no_rank;
      if (item.next != none) list_[static_cast<std::size_t>(item.next)].previous = at;
      look_at(at);
      if (item.previous != none) look_at(item.previous);
    }
    for (std::int32_t i = 0; i != none && n > 0; i = list_[static_cast<std::size_t>(i)].next)
      out.push_back(list_[static_cast<std::size_t>(i)].token);
  }

 private:
  static constexpr std::uint32_t no_rank = std::numeric_limits<std::uint32_t>::max();
  struct Item {
    std::int32_t token, previous, next;
    std::uint32_t rank;  // of the merge with the next token
  };
  void list_bytes(std::string_view piece) {
    for (const char c : piece) {
      const auto byte = static_cast<std::uint8_t>(c);
      check(t_.of_byte[byte] != none, "the vocabulary has no token for the byte ", static_cast<int>(byte));
      list_.push_back({t_.of_byte[byte], none, none, no_rank});
    }
  }
  void list_characters(std::string_view piece) {
    for (std::size_t at = 0; at < piece.size();) {
      const std::string_view character = piece.substr(at, utf8_at(piece, at).bytes);
      at += character.size();
      if (const auto found = t_.numbers.find(character); found != t_.numbers.end())
        list_.push_back({found->second, none, none, no_rank});
      else list_bytes(character);
    }
  }
  void look_at(std::int32_t i) {
    Item& item = list_[static_cast<std::size_t>(i)];
    item.rank = no_rank;
    if (item.next == none) return;
    const auto found = t_.ranks.find(pair_key(item.token, list_[static_cast<std::size_t>(item.next)].token));
    if (found == t_.ranks.end()) return;
    item.rank = found->second;
    heap_.push_back(static_cast<std::uint64_t>(item.rank) << 32 | static_cast<std::uint32_t>(i));
    std::push_heap(heap_.begin(), heap_.end(), std::greater());
  }

  const BpeTables& t_;
  std::vector<Item> list_;
  std::vector<std::uint64_t> heap_;  // rank, position
};

// The longest of `added` (sorted by text) that `text` starts with.
const AddedToken* added_at(const std::vector<AddedToken>& added, std::string_view text) {
  const AddedToken* longest = nullptr;
  auto first = added.begin(), last = added.end();  // those that match the first `bytes` bytes of `text`
  for (std::size_t bytes = 0;; ++bytes) {
    if (first != last && first->text.size() == bytes) longest = &*first;
    while (first != last && first->text.size() == bytes) ++first;
    if (first == last || bytes == text.size()) return longest;
    const auto next = [bytes](const AddedToken& a) { return static_cast<std::uint8_t>(a.text[bytes]); };
    const auto byte = static_cast<std::uint8_t>(text[bytes]);
    if (next(*first) == byte && next(last[-1]) == byte) continue;  // all of them, the usual case
    const auto going_on = std::ranges::equal_range(first, last, byte, {}, next);
    first = going_on.begin(), last = going_on.end();
  }
}

// Encodes one text.
class Encoder {
 public:
  Encoder(const BpeTables& tables, Specials specials) : t_(tables), specials_(specials), merger_(tables) {}

  // Added tokens are matched in two rounds, normalized ones in the second.
  void encode(std::string_view text, int round = 0, bool at_begin = true) {
    if (text.empty()) return;
    if (round == 2) return encode_stretch(text, at_begin);
    std::size_t begin = 0;
    for (std::size_t at = 0; at < text.size(); ++at) {
      const auto& added = t_.added_by_byte[static_cast<std::size_t>(round)][static_cast<std::uint8_t>(text[at])];
      if (added.empty()) continue;
      const AddedToken* found = added_at(added, text.substr(at));
      if (!found || (found->special && specials_ == Specials::as_text)) continue;
      encode_between(text.substr(begin, at - begin), round, at_begin && begin == 0);
      out.push_back(static_cast<std::int32_t>(found->id));
      at += found->text.size() - 1;
      begin = at + 1;
    }
    encode_between(text.substr(begin), round, at_begin && begin == 0);
  }

  std::vector<std::int32_t> out;

 private:
  void encode_between(std::string_view text, int round, bool at_begin) {
    if (round == 0 && is_normalized(t_.options)) encode(normalized(t_.options, text), 1, at_begin);
    else encode(text, round + 1, at_begin);
  }
  void encode_stretch(std::string_view text, bool at_begin) {
    const SpaceInFront in_front = t_.options.space_in_front;
    if (!t_.of_characters() || in_front == SpaceInFront::always) return encode_pieces(text);
    const bool there = text.starts_with(' ') || text.starts_with(written_space);
    const bool wanted = in_front == SpaceInFront::missing || (in_front == SpaceInFront::first && at_begin);
    encode_pieces(with_written_spaces(text, wanted && !there));
  }
  void encode_pieces(std::string_view text) {
    const bool one = t_.of_characters() && !t_.has_words;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = one ? text.size() : piece_end(text, at, t_.options.pieces);
      const std::string_view piece = text.substr(at, end - at);
      at = end;
      // Most words are one token.
      if (const auto found = t_.whole.find(piece); found != t_.whole.end()) out.push_back(found->second);
      else merger_.merge(piece, out);
    }
  }

  const BpeTables& t_;
  const Specials specials_;
  Merger merger_;
};

std::vector<std::int32_t> encoded(const BpeTables& tables, std::string_view text, Specials specials) {
  check(text.size() < (std::size_t{1} << 31), "Bpe: a text of ", text.size(), " bytes is too long; the most is 2 GiB");
  Encoder encoder(tables, specials);
  encoder.encode(text);
  return std::move(encoder.out);
}

// --- building the tables ---

std::int32_t number_of(const BpeNumbers& numbers, const std::string& bytes, std::size_t merge) {
  const auto found = numbers.find(bytes);
  check(found != numbers.end(), "merge ", merge, ": there is no token ", io::quote(bytes));
  return found->second;
}

// Assigns new ids to added tokens that are not in the vocabulary; `is_added` marks all added ones.
void place_added(BpeTables& t, std::vector<bool>& is_added) {
  std::ranges::sort(t.added, {}, &AddedToken::id);
  for (const AddedToken& a : t.added) {
    const auto size = static_cast<std::int64_t>(t.tokens.size());
    check(!a.text.empty(), "an added token is empty");
    check(a.id >= 0 && a.id <= size, "there are ", size, " tokens, and the next one has the number ", a.id);
    if (a.id == size) t.tokens.push_back(a.text), is_added.push_back(false);
    check(!is_added[static_cast<std::size_t>(a.id)], "two added tokens have the number ", a.id);
    t.tokens[static_cast<std::size_t>(a.id)] = a.text;
    is_added[static_cast<std::size_t>(a.id)] = true;
  }
}

void sort_added(BpeTables& t) {
  for (AddedToken a : t.added) {
    if (a.normalized) a.text = normalized(t.options, a.text);
    t.added_by_byte[a.normalized ? 1 : 0][static_cast<std::uint8_t>(a.text[0])].push_back(a);
  }
  for (auto& round : t.added_by_byte)
    for (auto& list : round) std::ranges::stable_sort(list, {}, &AddedToken::text);
}

// SentencePiece's token for a byte.
std::string written_byte(std::size_t byte) { return fmt::format("<0x{:02X}>", byte); }
// Whether the token has a space after a non-space character.
bool goes_on_behind_word(std::string_view token) {
  while (token.starts_with(written_space)) token.remove_prefix(written_space.size());
  return token.find(written_space) != token.npos;
}
void find_bytes(BpeTables& t) {
  t.of_byte.fill(none);
  for (std::size_t b = 0; b < 256; ++b) {
    const std::string token = t.of_characters() ? written_byte(b) : std::string(1, static_cast<char>(b));
    if (const auto found = t.numbers.find(token); found != t.numbers.end()) t.of_byte[b] = found->second;
    else check(!t.of_characters(), "there is no token ", token, ", and sentencepiece needs one for each byte");
  }
}
std::string with_spaces(std::string_view token) {
  std::string shown;
  for (std::size_t at = 0; at < token.size();) {
    const std::size_t space = std::min(token.find(written_space, at), token.size());
    shown += token.substr(at, space - at);
    if (space < token.size()) shown += ' ';
    at = space + written_space.size();
  }
  return shown;
}
void show_tokens(BpeTables& t) {
  for (const std::string& token : t.tokens) t.shown.push_back(with_spaces(token));
  for (const AddedToken& a : t.added)  // including the prepended space
    if (a.normalized) t.shown[static_cast<std::size_t>(a.id)] = with_spaces(normalized(t.options, a.text));
  for (std::size_t b = 0; b < 256; ++b)
    t.shown[static_cast<std::size_t>(t.of_byte[b])] = std::string(1, static_cast<char>(b));
}

}  // namespace

Bpe::Bpe(std::vector<std::string> tokens, Merges merges, std::vector<AddedToken> added, BpeOptions options) {
  const auto t = std::make_shared<BpeTables>();
  t->tokens = std::move(tokens);
  t->merges = std::move(merges);
  t->added = std::move(added);
  t->options = options;
  check(options.pieces == Pieces::sentencepiece || options.space_in_front == SpaceInFront::none,
        "a space in front is sentencepiece's");
  std::vector<bool> is_added(t->tokens.size());
  const std::size_t before = t->before_added = t->tokens.size();
  place_added(*t, is_added);
  BpeNumbers& numbers = t->numbers;
  for (std::size_t i = 0; i < before; ++i) {
    check(!t->tokens[i].empty(), "token ", i, " is empty");
    const auto number = static_cast<std::int32_t>(i);
    check(numbers.emplace(t->tokens[i], number).second || is_added[i], "two tokens are ", io::quote(t->tokens[i]));
  }
  for (const std::int64_t token : t->options.begin)
    check(token >= 0 && token < static_cast<std::int64_t>(t->tokens.size()), "there is no token ", token,
          " for a text to begin with");
  find_bytes(*t);
  t->has_words = t->of_characters() && !options.ignore_merges && numbers.contains(written_space);
  for (std::size_t rank = 0; rank < t->merges.size(); ++rank) {
    const auto& [left, right] = t->merges[rank];
    check(!left.empty() && !right.empty(), "merge ", rank, " has an empty part");
    t->merged.push_back(number_of(numbers, left + right, rank));
    const std::uint64_t key = pair_key(number_of(numbers, left, rank), number_of(numbers, right, rank));
    check(t->ranks.emplace(key, static_cast<std::uint32_t>(rank)).second, "merge ", rank, " of ", io::quote(left),
          " and ", io::quote(right), " is there twice");
    if (t->has_words && goes_on_behind_word(left + right)) t->has_words = false;
  }
  // Tokens that merging produces. (Others in a vocabulary never occur, unless merges are ignored.)
  Merger merger(*t);
  std::vector<std::int32_t> parts;
  for (const auto& [bytes, number] : numbers) {
    const auto known = [&](char c) { return t->of_byte[static_cast<std::uint8_t>(c)] != none; };
    if (!std::ranges::all_of(bytes, known)) continue;
    parts.clear();
    merger.merge(bytes, parts);
    if (parts.size() == 1 || options.ignore_merges) t->whole.emplace(bytes, number);
  }
  sort_added(*t);
  if (t->of_characters()) show_tokens(*t);
  tables_ = t;
}

Tensor Bpe::encode(std::string_view text, Specials specials) const {
  const std::vector<std::int32_t> ids = encoded(*tables_, text, specials);
  Tensor t = Tensor::allocate({static_cast<std::int64_t>(ids.size())}, i64);
  std::copy(ids.begin(), ids.end(), t.data<std::int64_t>());
  return t;
}

Tokens Bpe::encode(const RawText& text, Specials specials) const {
  const std::vector<std::int32_t> ids = encoded(*tables_, text.bytes, specials);
  return {from_data(ids, {static_cast<std::int64_t>(ids.size())}),
          concat(text.source, ", ", ids.size(), " tokens of a vocabulary of ", size())};
}

std::string Bpe::decode(const Tensor& tokens) const {
  std::string text;
  for (const std::int64_t token : tokens.to(cpu).to_vector<std::int64_t>()) text += bytes(token);
  if (options().space_in_front != SpaceInFront::none && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

std::int64_t Bpe::size() const { return static_cast<std::int64_t>(tables_->tokens.size()); }
const BpeOptions& Bpe::options() const { return tables_->options; }

std::string_view Bpe::bytes(std::int64_t token) const {
  check(token >= 0 && token < size(), "Bpe: token ", token, " is not below the ", size(), " of the vocabulary");
  return (tables_->of_characters() ? tables_->shown : tables_->tokens)[static_cast<std::size_t>(token)];
}

std::optional<std::int64_t> Bpe::find(std::string_view bytes) const {
  if (const auto found = tables_->numbers.find(bytes); found != tables_->numbers.end()) return found->second;
  const auto added = std::ranges::find(tables_->added, bytes, &AddedToken::text);
  return added == tables_->added.end() ? std::nullopt : std::optional(added->id);
}

std::size_t whole_characters(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<std::uint8_t>(text[text.size() - back]);
    if ((byte & 0xc0u) == 0x80u) continue;  // continuation byte
    const std::size_t length = byte < 0xc2 || byte > 0xf4 ? 1 : byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    return length > back ? text.size() - back : text.size();
  }
  return text.size();
}

}  // namespace mantissa::data
