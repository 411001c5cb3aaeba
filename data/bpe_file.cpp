// tokenizer.json, and vocab.json with merges.txt, as byte-level tokenizers are kept in them.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/json_text.h"
#include "data/bpe.h"
#include "data/bpe_bytes.h"
#include "data/bpe_tables.h"
#include "data/folders.h"
#include "io/file.h"

namespace mantissa::data {
namespace {

using Json = nlohmann::json;
using io::fail_format;
using io::quote;

constexpr std::int64_t most_bytes = 32 << 20, most_tokens = 1'000'000, most_added = 1000;
constexpr std::size_t most_added_bytes = 1000;  // of one: looking for them takes that long at each place of a text

Json read_json(const std::string& path) {
  const std::string text = io::read_file(path, most_bytes);
  if (const char* what = io::recognise(text.substr(0, 64))) fail_format(path, "is ", what);
  check_json(text, path, {.values = 5 * most_tokens});  // tokens and their numbers, merges as lists of two
  Json json = Json::parse(text);
  if (!json.is_object()) fail_format(path, "must be a JSON object");
  return json;
}

// The member `key` of an object that was checked to be one; null where there is none.
const Json& member(const Json& object, const char* key) {
  static const Json null;
  const auto found = object.find(key);
  return found == object.end() ? null : *found;
}
bool is_nothing(const Json& j) { return j.is_null() || j == "" || j == false || j == 0; }

// What both kinds of file say.
struct Parts {
  std::string path;
  std::vector<std::string> tokens = {};
  std::vector<AddedToken> added = {};
  Bpe::Merges merges = {};
  BpeOptions options = {};

  void read_added(const Json& list);
  void read_vocabulary(const Json& vocabulary);
  void add_merge(std::string_view left, std::string_view right);
  void add_merge(std::string_view line);

  Bpe bpe() && {
    try {
      return Bpe(std::move(tokens), std::move(merges), std::move(added), options);
    } catch (const Error& e) { fail_format(path, e.what()); }
  }
};

void Parts::read_added(const Json& list) {
  if (list.is_null()) return;
  if (!list.is_array()) fail_format(path, "added_tokens must be a list");
  if (static_cast<std::int64_t>(list.size()) > most_added)
    fail_format(path, "has more than ", most_added, " added tokens");
  for (const Json& token : list) {
    if (!token.is_object() || !member(token, "content").is_string() || !member(token, "id").is_number_unsigned())
      fail_format(path, "an added token must have an id and a content");
    const auto& text = token["content"].get_ref<const std::string&>();
    for (const char* option : {"single_word", "lstrip", "rstrip"})
      if (!is_nothing(member(token, option)))
        fail_format(path, "added token ", quote(text), ": ", option, " is not supported");
    const auto id = token["id"].get<std::uint64_t>();
    if (id >= static_cast<std::uint64_t>(most_tokens))
      fail_format(path, "added token ", quote(text), " has the number ", id, "; they must be below ", most_tokens);
    if (text.size() > most_added_bytes)
      fail_format(path, "added token ", quote(text), " is longer than ", most_added_bytes);
    added.push_back(
        {text, static_cast<std::int64_t>(id), member(token, "special") != false, member(token, "normalized") == true});
  }
}

void Parts::read_vocabulary(const Json& vocabulary) {
  if (!vocabulary.is_object()) fail_format(path, "has no vocabulary, an object of tokens and their numbers");
  if (static_cast<std::int64_t>(vocabulary.size()) > most_tokens)
    fail_format(path, "has more than ", most_tokens, " tokens");
  tokens.resize(vocabulary.size());
  std::map<std::int64_t, std::string> text_of_added;
  for (const AddedToken& a : added) text_of_added.emplace(a.id, a.text);
  for (const auto& [shown, number] : vocabulary.items()) {
    if (!number.is_number_unsigned() || number.get<std::uint64_t>() >= tokens.size())
      fail_format(path, "token ", quote(shown), ": ", tokens.size(), " tokens must have the numbers from 0 on");
    const auto id = number.get<std::uint64_t>();
    if (!tokens[id].empty() || shown.empty())
      fail_format(path, "token ", quote(shown), shown.empty() ? " is empty" : " has the number of another");
    const auto as_added = text_of_added.find(static_cast<std::int64_t>(id));
    const auto bytes = as_added != text_of_added.end() ? std::optional(as_added->second) : unshow_bytes(shown);
    if (!bytes) fail_format(path, "token ", quote(shown), " is not written as GPT-2 writes bytes");
    tokens[id] = *bytes;
  }
}

void Parts::add_merge(std::string_view left, std::string_view right) {
  if (static_cast<std::int64_t>(merges.size()) == most_tokens)
    fail_format(path, "has more than ", most_tokens, " merges");
  const auto a = unshow_bytes(left), b = unshow_bytes(right);
  if (!a || !b) fail_format(path, "merge ", quote(left), " ", quote(right), " is not written as GPT-2 writes bytes");
  merges.emplace_back(*a, *b);
}
void Parts::add_merge(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos)
    fail_format(path, "merge ", quote(line), " does not have two parts");
  add_merge(line.substr(0, space), line.substr(space + 1));
}

// --- how a text is cut ---

#define MANTISSA_PATTERN(numbers)                                                        \
  R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)" numbers                    \
  R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
// of llama3 and qwen2
constexpr const char* split_patterns[] = {MANTISSA_PATTERN(R"(\p{N}{1,3})"), MANTISSA_PATTERN(R"(\p{N})")};
#undef MANTISSA_PATTERN

Json byte_level(bool with_pattern) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", with_pattern}};
}
Json json_of(Pieces pieces) {
  if (pieces == Pieces::gpt2) return byte_level(true);
  Json first = {{"type", "Digits"}, {"individual_digits", true}};
  if (pieces != Pieces::digits) {
    const char* pattern = split_patterns[pieces == Pieces::llama3 ? 0 : 1];
    first = {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  }
  return {{"type", "Sequence"}, {"pretokenizers", {first, byte_level(pieces == Pieces::digits)}}};
}
bool is_byte_level(const Json& j, bool with_pattern) {
  return j.is_object() && member(j, "type") == "ByteLevel" && (member(j, "use_regex") != false) == with_pattern &&
         member(j, "add_prefix_space") != true;
}
Pieces pieces_of(const Json& pre, const std::string& path) {
  if (is_byte_level(pre, true)) return Pieces::gpt2;
  if (pre.is_object() && member(pre, "type") == "Sequence") {
    const Json& parts = member(pre, "pretokenizers");
    if (parts.is_array() && parts.size() == 2 && parts[0].is_object()) {
      const Json &first = parts[0], &pattern = member(first, "pattern");
      if (member(first, "type") == "Digits" && member(first, "individual_digits") == true &&
          is_byte_level(parts[1], true))
        return Pieces::digits;
      if (member(first, "type") == "Split" && member(first, "behavior") == "Isolated" &&
          is_nothing(member(first, "invert")) && pattern.is_object() && is_byte_level(parts[1], false)) {
        if (member(pattern, "Regex") == split_patterns[0]) return Pieces::llama3;
        if (member(pattern, "Regex") == split_patterns[1]) return Pieces::qwen2;
      }
    }
  }
  fail_format(path, "the pre_tokenizer must be ByteLevel without add_prefix_space, alone with GPT-2's pattern, after "
              "single Digits, or after a Split with the pattern of Llama 3 or Qwen 2");
}

void refuse_other_kinds(const Json& json, const std::string& path) {
  const Json& model = member(json, "model");
  if (!model.is_object()) fail_format(path, "has no model");
  if (const Json& type = member(model, "type"); !type.is_null() && type != "BPE")
    fail_format(path, "the model is ", quote(type.dump()), "; only BPE is supported");
  for (const char* option : {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"})
    if (!is_nothing(member(model, option))) fail_format(path, "the model's ", option, " is not supported");
  if (!member(json, "normalizer").is_null()) fail_format(path, "a normalizer is not supported");
}

Bpe from_tokenizer_json(const std::string& path) {
  const Json json = read_json(path);
  refuse_other_kinds(json, path);
  const Json& model = json["model"];
  Parts parts{.path = path};
  parts.options = {pieces_of(member(json, "pre_tokenizer"), path), member(model, "ignore_merges") == true};
  parts.read_added(member(json, "added_tokens"));
  parts.read_vocabulary(member(model, "vocab"));
  const Json& merges = member(model, "merges");
  if (!merges.is_array()) fail_format(path, "has no list of merges");
  for (const Json& merge : merges) {  // "a b", or ["a", "b"]
    const bool two = merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    if (two) parts.add_merge(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>());
    else if (merge.is_string()) parts.add_merge(merge.get_ref<const std::string&>());
    else fail_format(path, "a merge must be two texts");
  }
  return std::move(parts).bpe();
}

Bpe from_vocabulary_and_merges(const std::string& vocabulary, const std::string& merges) {
  const Json json = read_json(vocabulary);
  Parts parts{.path = vocabulary};
  if (const Json& end = member(json, "<|endoftext|>");
      end.is_number_unsigned() && end.get<std::uint64_t>() < json.size())
    parts.added.push_back({"<|endoftext|>", end.get<std::int64_t>()});
  parts.read_vocabulary(json);
  const std::string lines = io::read_file(merges, most_bytes);
  parts.path = merges;
  for (std::size_t at = 0; at < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', at), lines.size());
    std::string_view line = std::string_view(lines).substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty() && !(at == 0 && line.starts_with("#version"))) parts.add_merge(line);
    at = end + 1;
  }
  return std::move(parts).bpe();
}

}  // namespace

Bpe load_bpe(const std::string& path) {
  if (!is_folder(path)) return from_tokenizer_json(path);
  const std::string json = path + "/tokenizer.json", vocabulary = path + "/vocab.json", merges = path + "/merges.txt";
  if (path_exists(json)) return from_tokenizer_json(json);
  check(path_exists(vocabulary) && path_exists(merges), "the folder ", path,
        " has no tokenizer.json, and no vocab.json with merges.txt");
  return from_vocabulary_and_merges(vocabulary, merges);
}

void Bpe::save(const std::string& path) const {
  const BpeTables& t = *tables_;
  Json added = Json::array(), vocabulary = Json::object(), merges = Json::array();
  std::vector<bool> is_added(t.tokens.size());
  for (const AddedToken& a : t.added) {
    is_added[static_cast<std::size_t>(a.id)] = true;
    added.push_back({{"id", a.id},
                     {"content", a.text},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", a.normalized},
                     {"special", a.special}});
  }
  for (std::size_t i = 0; i < t.tokens.size(); ++i)
    vocabulary[is_added[i] ? t.tokens[i] : show_bytes(t.tokens[i])] = i;
  for (const auto& [left, right] : t.merges) merges.push_back(show_bytes(left) + " " + show_bytes(right));
  const Json json = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", added},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", json_of(t.options.pieces)},
                     {"post_processor", nullptr},
                     {"decoder", byte_level(true)},
                     {"model",
                      {{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", nullptr},
                       {"continuing_subword_prefix", nullptr},
                       {"end_of_word_suffix", nullptr},
                       {"fuse_unk", false},
                       {"byte_fallback", false},
                       {"ignore_merges", t.options.ignore_merges},
                       {"vocab", vocabulary},
                       {"merges", merges}}}};
  io::AtomicFile file(path);
  try {
    file.write(json.dump(1));
  } catch (const nlohmann::detail::exception&) {
    fail("Bpe: an added token is not valid UTF-8, which ", path, " must be");
  }
  file.commit();
}

}  // namespace mantissa::data
