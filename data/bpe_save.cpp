// Writes tokenizer.json.
#include <nlohmann/json.hpp>

#include "data/bpe.h"
#include "data/bpe_bytes.h"
#include "data/bpe_split.h"
#include "data/bpe_tables.h"
#include "io/file.h"

namespace mantissa::data {
namespace {

using Json = nlohmann::json;

Json byte_level(bool with_pattern) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", with_pattern}};
}
Json pre_tokenizer_of(const BpeOptions& o) {
  const Pieces pieces = o.pieces;
  if (pieces == Pieces::sentencepiece) {
    const SpaceInFront s = o.space_in_front;
    if (s == SpaceInFront::always) return nullptr;  // done by a normalizer instead
    const char* scheme = s == SpaceInFront::first ? "first" : s == SpaceInFront::missing ? "always" : "never";
    return {{"type", "Metaspace"}, {"replacement", written_space}, {"prepend_scheme", scheme}, {"split", false}};
  }
  if (pieces == Pieces::gpt2) return byte_level(true);
  Json first = {{"type", "Digits"}, {"individual_digits", true}};
  if (pieces != Pieces::digits) {
    first = {{"type", "Split"},
             {"pattern", {{"Regex", split_pattern(pieces)}}},
             {"behavior", "Isolated"},
             {"invert", false}};
  }
  return {{"type", "Sequence"}, {"pretokenizers", {first, byte_level(pieces == Pieces::digits)}}};
}
Json normalizer_of(const BpeOptions& o) {
  Json steps = Json::array();
  if (o.nfc) steps.push_back({{"type", "NFC"}});
  if (o.space_in_front == SpaceInFront::always) {
    steps.push_back({{"type", "Prepend"}, {"prepend", written_space}});
    steps.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", written_space}});
  }
  if (steps.size() < 2) return steps.empty() ? Json() : steps[0];
  return {{"type", "Sequence"}, {"normalizers", steps}};
}
Json decoder_of(const BpeOptions& o) {
  if (o.pieces != Pieces::sentencepiece) return byte_level(true);
  Json steps = {{{"type", "Replace"}, {"pattern", {{"String", written_space}}}, {"content", " "}},
                {{"type", "ByteFallback"}},
                {{"type", "Fuse"}}};
  if (o.space_in_front != SpaceInFront::none)
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", steps}};
}

Json post_processor_of(const BpeTables& t) {
  if (t.options.begin.empty()) return nullptr;
  Json parts = Json::array(), specials = Json::object();
  for (const std::int64_t token : t.options.begin) {
    const std::string& text = t.tokens[static_cast<std::size_t>(token)];
    parts.push_back({{"SpecialToken", {{"id", text}, {"type_id", 0}}}});
    specials[text] = {{"id", text}, {"ids", {token}}, {"tokens", {text}}};
  }
  const auto text = [](const char* which, int type) -> Json {
    return {{"Sequence", {{"id", which}, {"type_id", type}}}};
  };
  Json pair = parts;
  parts.push_back(text("A", 0)), pair.push_back(text("A", 0)), pair.push_back(text("B", 0));
  return {{"type", "TemplateProcessing"}, {"single", parts}, {"pair", pair}, {"special_tokens", specials}};
}

}  // namespace

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
  const bool of_characters = t.of_characters();
  const auto written = [&](const std::string& bytes) { return of_characters ? bytes : show_bytes(bytes); };
  for (std::size_t i = 0; i < t.before_added; ++i) vocabulary[is_added[i] ? t.tokens[i] : written(t.tokens[i])] = i;
  for (const auto& [left, right] : t.merges) {
    if (of_characters) merges.push_back({left, right});  // tokens may contain spaces
    else merges.push_back(show_bytes(left) + " " + show_bytes(right));
  }
  const Json json = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", added},
                     {"normalizer", normalizer_of(t.options)},
                     {"pre_tokenizer", pre_tokenizer_of(t.options)},
                     {"post_processor", post_processor_of(t)},
                     {"decoder", decoder_of(t.options)},
                     {"model",
                      {{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", nullptr},
                       {"continuing_subword_prefix", nullptr},
                       {"end_of_word_suffix", nullptr},
                       {"fuse_unk", of_characters},
                       {"byte_fallback", of_characters},
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
