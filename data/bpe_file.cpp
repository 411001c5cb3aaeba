// Reads tokenizer files: tokenizer.json, or vocab.json with merges.txt.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/json_text.h"
#include "data/bpe.h"
#include "data/bpe_bytes.h"
#include "data/bpe_split.h"
#include "data/folders.h"
#include "io/file.h"

namespace mantissa::data {
namespace {

using Json = nlohmann::json;
using io::fail_format;
using io::quote;

constexpr std::int64_t most_bytes = 32 << 20, most_tokens = 1'000'000, most_added = 1000;
constexpr std::size_t most_added_bytes = 1000;  // of one token: the search at each text position is proportional to it

Json read_json(const std::string& path) {
  const std::string text = io::read_file(path, most_bytes);
  if (const char* what = io::recognise(text.substr(0, 64))) fail_format(path, "is ", what);
  check_json(text, path, {.values = 5 * most_tokens});  // tokens with ids, and merges as lists of two
  Json json = Json::parse(text);
  if (!json.is_object()) fail_format(path, "must be a JSON object");
  return json;
}

// Member `key` of an object (already checked to be one); null if missing.
const Json& member(const Json& object, const char* key) {
  static const Json null;
  const auto found = object.find(key);
  return found == object.end() ? null : *found;
}
bool is_nothing(const Json& j) { return j.is_null() || j == "" || j == false || j == 0; }

// Contents common to both file formats.
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
  // Decodes the file's spelling of bytes; sentencepiece tokens are stored as plain text.
  std::optional<std::string> read_token(std::string_view written) const {
    return options.pieces == Pieces::sentencepiece ? std::string(written) : unshow_bytes(written);
  }

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
    const auto bytes = as_added != text_of_added.end() ? std::optional(as_added->second) : read_token(shown);
    if (!bytes) fail_format(path, "token ", quote(shown), " is not written as GPT-2 writes bytes");
    tokens[id] = *bytes;
  }
}

void Parts::add_merge(std::string_view left, std::string_view right) {
  if (static_cast<std::int64_t>(merges.size()) == most_tokens)
    fail_format(path, "has more than ", most_tokens, " merges");
  const auto a = read_token(left), b = read_token(right);
  if (!a || !b) fail_format(path, "merge ", quote(left), " ", quote(right), " is not written as GPT-2 writes bytes");
  merges.emplace_back(*a, *b);
}
void Parts::add_merge(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos)
    fail_format(path, "merge ", quote(line), " does not have two parts");
  add_merge(line.substr(0, space), line.substr(space + 1));
}

// --- splitting ---

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
        if (member(pattern, "Regex") == split_pattern(Pieces::llama3)) return Pieces::llama3;
        if (member(pattern, "Regex") == split_pattern(Pieces::qwen2)) return Pieces::qwen2;
      }
    }
  }
  fail_format(path,
              "the pre_tokenizer must be ByteLevel without add_prefix_space, alone with GPT-2's pattern, after "
              "single Digits, or after a Split with the pattern of Llama 3 or Qwen 2");
}

// --- SentencePiece ---

// The steps before splitting, in file order: a single one, or those of a Sequence.
std::vector<Json> steps_of(const Json& j, const char* list) {
  if (j.is_null()) return {};
  if (!j.is_object() || member(j, "type") != "Sequence") return {j};
  const Json& steps = member(j, list);
  return steps.is_array() ? steps.get<std::vector<Json>>() : std::vector<Json>{steps};
}
bool is_prepend(const Json& j) {
  return j.is_object() && member(j, "type") == "Prepend" && member(j, "prepend") == written_space;
}
bool is_replace(const Json& j, std::string_view from, std::string_view to) {
  return j.is_object() && member(j, "type") == "Replace" && member(j, "pattern") == Json{{"String", from}} &&
         member(j, "content") == to;
}
bool is_nfc(const Json& j) { return j.is_object() && member(j, "type") == "NFC"; }

// Given by a normalizer, Prepend and Replace; or by a pre_tokenizer, Metaspace.
void read_spaces(const Json& json, BpeOptions& o, const std::string& path) {
  bool prepended = false, replaced = false;
  for (const Json& step : steps_of(member(json, "normalizer"), "normalizers")) {
    if (is_nfc(step)) o.nfc = true;
    else if (is_prepend(step)) prepended = true;
    else if (is_replace(step, " ", written_space)) replaced = true;
    else fail_format(path, "with byte_fallback the normalizer ", quote(step.dump()), " is not supported");
  }
  const Json& pre = member(json, "pre_tokenizer");
  if (pre.is_null() && prepended && replaced) {
    o.space_in_front = SpaceInFront::always;
    return;
  }
  const Json& scheme = pre.is_object() ? member(pre, "prepend_scheme") : pre;
  const bool metaspace = pre.is_object() && member(pre, "type") == "Metaspace" &&
                         member(pre, "replacement") == written_space && member(pre, "split") == false &&
                         (scheme == "first" || scheme == "always" || scheme == "never");
  if (!metaspace || prepended || replaced)
    fail_format(path,
                "a model with byte_fallback must have a normalizer of Prepend ▁ and Replace of a space by it, and "
                "no pre_tokenizer; or the pre_tokenizer Metaspace with a prepend_scheme and without split");
  o.space_in_front = scheme == "first"    ? SpaceInFront::first
                     : scheme == "always" ? SpaceInFront::missing
                                          : SpaceInFront::none;
}

// --- post-processing ---

// TemplateProcessing, alone or in a Sequence. Reads only the prefix; a file may name tokens missing from its list.
std::vector<std::int64_t> read_begin(const Json& post, const std::string& path) {
  std::vector<std::int64_t> begin;
  for (const Json& step : steps_of(post, "processors")) {
    if (!step.is_object() || member(step, "type") != "TemplateProcessing") continue;
    const Json &parts = member(step, "single"), &specials = member(step, "special_tokens");
    if (!parts.is_array() || !specials.is_object())
      fail_format(path, "the post_processor's TemplateProcessing has no single and special_tokens");
    for (const Json& part : parts) {
      const Json& special = part.is_object() ? member(part, "SpecialToken") : part;
      if (!special.is_object()) break;  // the placeholder of the text
      const Json& name = member(special, "id");
      const auto found = name.is_string() ? specials.find(name.get_ref<const std::string&>()) : specials.end();
      const Json& ids = found != specials.end() && found->is_object() ? member(*found, "ids") : special;
      if (!ids.is_array() || ids.size() > 100)
        fail_format(path, "the post_processor's token ", quote(name.dump()), " has no list of ids");
      for (const Json& id : ids) {
        if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= static_cast<std::uint64_t>(most_tokens))
          fail_format(path, "the post_processor's token ", quote(name.dump()), " must have numbers below ",
                      most_tokens);
        begin.push_back(id.get<std::int64_t>());
      }
      if (begin.size() > 100) fail_format(path, "the post_processor puts more than 100 tokens before a text");
    }
  }
  return begin;
}
BpeOptions read_options(const Json& json, const std::string& path) {
  const Json& model = member(json, "model");
  if (!model.is_object()) fail_format(path, "has no model");
  if (const Json& type = member(model, "type"); !type.is_null() && type != "BPE")
    fail_format(path, "the model is ", quote(type.dump()), "; only BPE is supported");
  for (const char* option : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"})
    if (!is_nothing(member(model, option))) fail_format(path, "the model's ", option, " is not supported");
  BpeOptions o;
  o.ignore_merges = member(model, "ignore_merges") == true;
  o.begin = read_begin(member(json, "post_processor"), path);
  if (member(model, "byte_fallback") == true) {
    o.pieces = Pieces::sentencepiece;
    read_spaces(json, o, path);
    return o;
  }
  for (const Json& step : steps_of(member(json, "normalizer"), "normalizers"))
    if (!is_nfc(step)) fail_format(path, "the normalizer ", quote(step.dump()), " is not supported; only NFC is");
    else o.nfc = true;
  o.pieces = pieces_of(member(json, "pre_tokenizer"), path);
  return o;
}

Bpe from_tokenizer_json(const std::string& path) {
  const Json json = read_json(path);
  Parts parts{.path = path};
  parts.options = read_options(json, path);
  const Json& model = json["model"];
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

}  // namespace mantissa::data
