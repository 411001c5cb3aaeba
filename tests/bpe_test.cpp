// Tokenizers: pieces, merges, special tokens, files of Hugging Face's libraries (tests/golden/gpt2.py and llama.py made
// them and recorded those libraries' results), normal form C, training, and invalid tokenizer files.
#include "data/bpe.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "bad_file.h"
#include "catch_compat.h"
#include "core/random.h"
#include "data/bpe_bytes.h"
#include "data/bpe_split.h"
#include "data/nfc.h"
#include "io/file.h"
#include "temp_dir.h"
#include "testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;
using data::Bpe;
using Ids = std::vector<std::int64_t>;
using Words = std::vector<std::string>;

namespace {

const std::string golden = std::string(MANTISSA_SOURCE_DIR) + "/tests/golden/files/gpt2";

Words pieces(const std::string& text) {
  Words words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = data::piece_end(text, at);
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}
Ids ids(const Tensor& t) { return t.to_vector<std::int64_t>(); }

std::vector<std::string> all_bytes() {
  std::vector<std::string> tokens;
  for (const std::uint8_t b : data::bytes_in_order()) tokens.emplace_back(1, static_cast<char>(b));
  return tokens;
}
// abc is a token of three merges' making, bc one that a rank makes come first.
Bpe small() {
  std::vector<std::string> tokens = all_bytes();
  for (const char* t : {"bc", "ab", "abc", "aa", "aaa", "never", "<end>"}) tokens.emplace_back(t);
  return Bpe(std::move(tokens), {{"b", "c"}, {"a", "b"}, {"a", "bc"}, {"a", "a"}, {"aa", "a"}}, {{"<end>", 262}});
}

}  // namespace

TEST_CASE("Text is cut as GPT-2 cuts it") {
  CHECK(pieces("Hello, world! It's 2024.") == Words{"Hello", ",", " world", "!", " It", "'s", " 2024", "."});
  CHECK(pieces("we'll they'VE 'tis don't'") == Words{"we", "'ll", " they", "'", "VE", " '", "tis", " don", "'t", "'"});
  CHECK(pieces("a  b   c \n d\n\ne  ") == Words{"a", " ", " b", "  ", " c", " \n", " d", "\n", "\n", "e", "  "});
  CHECK(pieces(" ") == Words{" "});
  CHECK(pieces("\tx \ty") == Words{"\t", "x", " ", "\t", "y"});
  CHECK(pieces("x1y22") == Words{"x", "1", "y", "22"});
  CHECK(pieces("na\xc3\xafve \xe4\xb8\xad\xe6\x96\x87\xc2\xb2!") ==
        Words{"na\xc3\xafve", " \xe4\xb8\xad\xe6\x96\x87", "\xc2\xb2", "!"});
  CHECK(pieces("a\xc2\xa0\xe3\x80\x80"
               "b") == Words{"a", "\xc2\xa0", "\xe3\x80\x80", "b"});  // spaces, but no ' '
  CHECK(pieces("\xf0\x9f\x98\x80\xf0\x9f\x98\x80 ?") == Words{"\xf0\x9f\x98\x80\xf0\x9f\x98\x80", " ?"});
  // No UTF-8: a byte that begins nothing, a character cut off, one too long, half a surrogate, one too large.
  CHECK(pieces("a\xff\xfe"
               "b") == Words{"a", "\xff\xfe", "b"});
  CHECK(pieces("a\xe4\xb8") == Words{"a", "\xe4\xb8"});
  CHECK(pieces("a\xc0\xaf"
               "b\xed\xa0\x80"
               "c\xf4\x90\x80\x80") == Words{"a", "\xc0\xaf", "b", "\xed\xa0\x80", "c", "\xf4\x90\x80\x80"});
}

TEST_CASE("Merges are made in the order in which they were learned, of equal ones the first first") {
  const Bpe bpe = small();
  const auto words = [&](const std::string& text) {
    Words w;
    for (const std::int64_t id : ids(bpe.encode(text))) w.emplace_back(bpe.bytes(id));
    return w;
  };
  CHECK(words("abc") == Words{"abc"});
  CHECK(words("ab") == Words{"ab"});
  CHECK(words("abcab") == Words{"abc", "ab"});
  CHECK(words("aaaaa") == Words{"aa", "aaa"});  // (a, a) twice before (aa, a)
  CHECK(words("aaa") == Words{"aaa"});
  CHECK(words("never") == Words{"n", "e", "v", "e", "r"});  // a token that no merges lead to
  CHECK(words("a<end>b<end") == Words{"a", "<end>", "b", "<", "e", "n", "d"});
  CHECK(ids(bpe.encode("<end>", data::Specials::as_text)).size() == 5);
  CHECK(bpe.encode("").sizes() == Dims{0});
  CHECK(bpe.size() == 263);
  CHECK(bpe.find("<end>") == 262);
  CHECK(bpe.find("bc") == 256);
  CHECK(!bpe.find("ac"));
  CHECK(bpe.decode(tensor({{258, 262}, {0, 220}})) == "abc<end>! ");
  CHECK_THAT(message_of([&] { bpe.decode(tensor({263})); }), Contains("token 263 is not below the 263"));
  const Bpe letters({"a", "b"}, {});
  CHECK(ids(letters.encode("ba")) == Ids{1, 0});
  CHECK_THAT(message_of([&] { letters.encode("c"); }), Contains("no token for the byte 99"));
}

TEST_CASE("What does not fit together is refused") {
  CHECK_THAT(message_of([] { Bpe({"a", "a"}, {}); }), Contains("two tokens are \"a\""));
  CHECK_THAT(message_of([] { Bpe({"a", ""}, {}); }), Contains("token 1 is empty"));
  CHECK_THAT(message_of([] { Bpe({"a", "b"}, {{"a", "b"}}); }), Contains("there is no token \"ab\""));
  CHECK_THAT(message_of([] { Bpe({"a", "b", "ab"}, {{"a", "b"}, {"a", "b"}}); }), Contains("there twice"));
  CHECK_THAT(message_of([] { Bpe({"a", "ab"}, {{"ab", ""}}); }), Contains("empty part"));
  CHECK_THAT(message_of([] { Bpe({"a"}, {}, {{"<e>", 3}}); }), Contains("the next one has the number 3"));
  CHECK_THAT(message_of([] { Bpe({"a"}, {}, {{"<e>", 1}, {"<f>", 1}}); }), Contains("two added tokens"));
}

TEST_CASE("Every text comes back to the byte") {
  const Bpe learned = data::train_bpe(data::synthetic_text(20000), 400), given = data::load_bpe(golden);
  const Philox philox{seed()};
  for (std::uint64_t i = 0; i < 300; ++i) {
    std::string text;
    const std::uint32_t length = philox(i, 0).v[0] % 200, kind = philox(i, 0).v[1] % 3;
    for (std::uint32_t k = 0; k < length; ++k) {
      const std::uint32_t bits = philox(i, k + 1).v[0];
      if (kind == 0) text += static_cast<char>(bits);  // any bytes
      else if (kind == 1) text += " \n\t'saltve1\xc3\xa9\xff<|"[bits % 17];
      else text += "theaot "[bits % 7];
    }
    for (const Bpe* bpe : {&learned, &given}) CHECK(bpe->decode(bpe->encode(text)) == text);
  }
}

TEST_CASE("A long word takes little longer than its length") {
  const Bpe bpe = data::load_bpe(golden);
  const std::string word(2'000'000, '-');
  CHECK(bpe.decode(bpe.encode(word)) == word);  // hours, if each merge looked at the whole word
}

TEST_CASE("Of the added tokens that a text begins with, the longest is taken") {
  const std::vector<std::string> texts{"<a>", "<a><b>", "<a>x", "<a", "<b>", "b>", "<a><b>yy"};
  std::vector<data::AddedToken> added;
  for (const std::string& text : texts) added.push_back({text, static_cast<std::int64_t>(256 + added.size())});
  const Bpe plain = data::train_bpe("", 256, {});
  std::vector<std::string> bytes;
  for (int i = 0; i < 256; ++i) bytes.emplace_back(plain.bytes(i));
  const Bpe bpe(bytes, {}, added);
  const Philox philox{seed()};
  MANTISSA_PRINT_SEED();
  for (std::uint64_t i = 0; i < 200; ++i) {
    std::string text;
    for (std::uint64_t k = 0; k < philox(i, 0).v[0] % 30; ++k) text += "<<a>b><a><b>xy"[philox(i, k + 1).v[0] % 14];
    Ids expected;
    for (std::size_t at = 0; at < text.size();) {
      std::size_t longest = 0;
      for (const std::string& t : texts)
        if (text.compare(at, t.size(), t) == 0) longest = std::max(longest, t.size());
      expected.push_back(*bpe.find(text.substr(at, std::max<std::size_t>(longest, 1))));
      at += std::max<std::size_t>(longest, 1);
    }
    INFO(text);
    CHECK(ids(bpe.encode(text)) == expected);
  }
}

TEST_CASE("Added tokens that resemble each other and the text do not slow it down") {
  std::vector<data::AddedToken> added;
  for (int i = 0; i < 1000; ++i) added.push_back({std::string(990, 'a') + std::to_string(1000 + i), i + 1});
  const Bpe bpe({"a"}, {}, added);
  CHECK(bpe.encode(std::string(100'000, 'a')).size(0) == 100'000);  // a minute, if each was compared at each place
}

TEST_CASE("Tokens are those of Hugging Face's tokenizers, from either kind of file") {
  const TempDir dir;
  for (const char* name : {"vocab.json", "merges.txt"}) std::filesystem::copy(golden + "/" + name, dir / name);
  const Bpe from_one = data::load_bpe(golden + "/tokenizer.json"), from_two = data::load_bpe(dir.path());
  const nlohmann::json cases = nlohmann::json::parse(io::read_file(golden + "/encoded.json", 1 << 20));
  REQUIRE(cases.size() > 100);
  for (const auto& c : cases) {
    const std::string text = c["text"];
    INFO(text);
    CHECK(ids(from_one.encode(text)) == c["ids"].get<Ids>());
    CHECK(ids(from_two.encode(text)) == c["ids"].get<Ids>());
  }
  CHECK(from_one.find("<|endoftext|>") == from_two.find("<|endoftext|>"));
}

TEST_CASE("Texts have the tokens that SmolLM, Llama 2 and 3, Mistral and Qwen would give them, also after saving") {
  const std::string folder = std::string(MANTISSA_SOURCE_DIR) + "/tests/golden/files/llama/";
  const nlohmann::json encoded = nlohmann::json::parse(io::read_file(folder + "encoded.json", 1 << 20));
  REQUIRE(encoded["texts"].size() > 250);
  const TempDir dir;
  for (const std::string kind : {"digits", "llama3", "qwen2", "llama2", "mistral"}) {
    const Bpe bpe = data::load_bpe(folder + kind + ".json");
    bpe.save(dir / "again.json");
    const Bpe again = data::load_bpe(dir / "again.json");
    CHECK(again.options().begin == bpe.options().begin);
    CHECK(again.size() == bpe.size());
    for (std::size_t i = 0; i < encoded["texts"].size(); ++i) {
      const std::string text = encoded["texts"][i];
      INFO(kind << ": " << text);
      CHECK(ids(bpe.encode(text)) == encoded[kind][i].get<Ids>());
      CHECK(ids(again.encode(text)) == encoded[kind][i].get<Ids>());
      const std::string back = bpe.decode(bpe.encode(text));
      if (encoded.contains(kind + "_decoded")) CHECK(back == encoded[kind + "_decoded"][i].get<std::string>());
      else CHECK(back == (kind == "qwen2" ? data::nfc(text) : text));
    }
  }
  CHECK(data::load_bpe(folder + "llama2.json").options().begin == Ids{1});  // <s>
  CHECK(data::load_bpe(folder + "qwen2.json").options().begin.empty());
}

namespace {

// abc of two merges, a word and its space, two spaces, and e with an accent.
std::vector<std::string> characters() {
  std::vector<std::string> tokens{"<unk>", "<s>"};
  for (int b = 0; b < 256; ++b) tokens.push_back(fmt::format("<0x{:02X}>", b));
  for (const char* t : {"a", "b", "c", "ab", "abc", "\u2581", "\u2581\u2581", "\u2581ab", "\u00e9"})
    tokens.emplace_back(t);
  return tokens;
}
const Bpe::Merges merges_of_characters{{"a", "b"}, {"\u2581", "ab"}, {"ab", "c"}, {"\u2581", "\u2581"}};
Bpe of_characters(data::SpaceInFront in_front, Bpe::Merges merges = merges_of_characters) {
  return Bpe(characters(), std::move(merges), {{"<s>", 1}},
             {.pieces = data::Pieces::sentencepiece, .space_in_front = in_front});
}

}  // namespace

TEST_CASE("SentencePiece's tokens are characters; what the vocabulary lacks is bytes") {
  const Bpe bpe = of_characters(data::SpaceInFront::always);
  const auto words = [&](const Bpe& b, const std::string& text) {
    Words w;
    for (const std::int64_t id : ids(b.encode(text))) w.emplace_back(b.bytes(id));
    return w;
  };
  CHECK(words(bpe, "abc ab\u00e9") == Words{" ab", "c", " ab", "\u00e9"});
  CHECK(words(bpe, "  ab") == Words{"  ", " ab"});
  CHECK(words(bpe, "\u4e2d") == Words{" ", "\xe4", "\xb8", "\xad"});
  CHECK(words(bpe,
              "\xff\xe4"
              "b") == Words{" ", "\xff", "\xe4", "b"});
  CHECK(words(bpe, "<0x41>").size() == 7);  // as it is written it is no byte
  CHECK(words(bpe, "a<s>a") == Words{" ", "a", "<s>", " ", "a"});
  CHECK(words(bpe, "").empty());
  CHECK(bpe.decode(bpe.encode(" a\xff\u4e2d  ")) == " a\xff\u4e2d  ");
  CHECK(bpe.find("<0x0A>") == 12);
  CHECK(bpe.bytes(12) == "\n");
  using enum data::SpaceInFront;
  CHECK(words(of_characters(none), "ab<s>ab") == Words{"ab", "<s>", "ab"});
  CHECK(words(of_characters(missing), "ab<s>ab") == Words{" ab", "<s>", " ab"});
  CHECK(words(of_characters(missing), " ab") == Words{" ab"});
  CHECK(words(of_characters(first), "ab<s>ab") == Words{" ab", "<s>", "ab"});
  CHECK(words(of_characters(first), "<s>ab") == Words{"<s>", "ab"});
  CHECK(of_characters(none).decode(of_characters(none).encode(" a")) == " a");

  std::vector<std::string> tokens = characters();
  tokens[100] = "x";
  CHECK_THAT(message_of([&] { Bpe(tokens, {}, {}, {.pieces = data::Pieces::sentencepiece}); }),
             Contains("no token <0x62>"));
  CHECK_THAT(message_of([] { Bpe({"a"}, {}, {}, {.space_in_front = data::SpaceInFront::first}); }), Contains("space"));
  CHECK_THAT(message_of([] { Bpe({"a"}, {}, {}, {.begin = {1}}); }), Contains("no token 1 for a text to begin with"));
}

TEST_CASE("A vocabulary of characters gives every text back, and long ones in time") {
  const std::string folder = std::string(MANTISSA_SOURCE_DIR) + "/tests/golden/files/llama/";
  const Philox philox{seed()};
  MANTISSA_PRINT_SEED();
  for (const char* kind : {"llama2", "mistral"}) {  // the second has tokens that go on in the next word
    const Bpe bpe = data::load_bpe(folder + kind + ".json");
    for (std::uint64_t i = 0; i < 200; ++i) {
      std::string text = "x";
      for (std::uint64_t k = 0; k < philox(i, 0).v[0] % 100; ++k) {
        const std::uint32_t bits = philox(i, k + 1).v[0];
        text += i % 2 ? static_cast<char>(bits) : "  \n\tthe of\xc3\xa9\xff<0x41>"[bits % 20];
      }
      CHECK(bpe.decode(bpe.encode(text)) == text);
    }
    for (const char c : {' ', 'e', '\xff'}) {
      const std::string text = "x" + std::string(500'000, c);
      CHECK(bpe.decode(bpe.encode(text)) == text);
    }
  }
}

TEST_CASE("Normal form C") {
  using data::nfc;
  CHECK(nfc("") == "");
  CHECK(nfc("plain\n") == "plain\n");
  CHECK(nfc("e\u0301") == "\u00e9");
  CHECK(nfc("xe\u0301y e") == "x\u00e9y e");
  CHECK(nfc("\u212b\u2126") == "\u00c5\u03a9");
  CHECK(nfc("a\u0301\u0323") == "\u1ea1\u0301");             // marks in the order of their classes
  CHECK(nfc("\u0958\u2adc") == "\u0915\u093c\u2add\u0338");  // those that are not put together again
  CHECK(nfc("\u1112\u1161\u11ab") == "\ud55c");              // Korean syllables
  CHECK(nfc("\uac00\u11a8\u11a8") == "\uac01\u11a8");
  CHECK(nfc("\uac00\u11a7") == "\uac00\u11a7");
  CHECK(nfc("\U0001d15e") == "\U0001d157\U0001d165");
  CHECK(nfc("e\xff\u0301\xe4") == "e\xff\u0301\xe4");  // no UTF-8 stays
  const Philox philox{seed()};
  MANTISSA_PRINT_SEED();
  const Words parts{"e",      "o",      "\u0301", "\u0323", "\u0327", "\u0344",
                    "\u1100", "\u1161", "\u11a8", "\xcc",   "\u0958", " "};
  for (std::uint64_t i = 0; i < 500; ++i) {
    std::string text;
    for (std::uint64_t k = 0; k < philox(i, 0).v[0] % 12; ++k) text += parts[philox(i, k + 1).v[0] % parts.size()];
    CHECK(nfc(nfc(text)) == nfc(text));
  }
  std::string marks = "a";
  for (int i = 0; i < 500'000; ++i) marks += i % 2 ? "\u0301" : "\u0323";
  CHECK(nfc(marks).size() ==
        1'000'000 + 1);  // hours, if ordering took the square of their number; U+1EA1 is longer by 1 - 1
}

TEST_CASE("Of a text that is written only whole characters are shown") {
  const std::string text = "a\u00e9\u4e2d\U0001f600z";
  const std::vector<std::size_t> whole{0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11};
  for (std::size_t i = 0; i < whole.size(); ++i) CHECK(data::whole_characters(text.substr(0, i)) == whole[i]);
  CHECK(data::whole_characters("a\xff") == 2);  // nothing can complete it
  CHECK(data::whole_characters("\x80\x80\x80\x80") == 4);
}

TEST_CASE("The vocabulary that is learned is that of Hugging Face's trainer") {
  const std::string text =
      io::read_file(std::string(MANTISSA_SOURCE_DIR) + "/tests/golden/files/gpt2/text.txt", 1 << 20);
  const Bpe learned = data::train_bpe(text, 400), theirs = data::load_bpe(golden);
  REQUIRE(learned.size() == theirs.size());
  for (std::int64_t i = 0; i < learned.size(); ++i) CHECK(learned.bytes(i) == theirs.bytes(i));
  CHECK(ids(learned.encode(text)) == ids(theirs.encode(text)));
  CHECK(data::train_bpe("ab ab ab", 1000).size() == 256 + 2 + 1);  // "ab" and " ab"; there are no more pairs
  CHECK_THAT(message_of([&] { data::train_bpe(text, 100); }), Contains("at least 257"));
}

TEST_CASE("A vocabulary is saved and read again") {
  const TempDir dir;
  const Bpe bpe = data::train_bpe(data::synthetic_text(5000), 300, {"<|endoftext|>", "<a \xc3\xa9>"});
  bpe.save(dir / "tokenizer.json");
  const Bpe again = data::load_bpe(dir.path());
  REQUIRE(again.size() == bpe.size());
  for (std::int64_t i = 0; i < bpe.size(); ++i) CHECK(again.bytes(i) == bpe.bytes(i));
  const std::string text = data::synthetic_text(500) + "<|endoftext|>x<a \xc3\xa9>";
  CHECK(ids(again.encode(text)) == ids(bpe.encode(text)));
}

TEST_CASE("Tokens of a text have windows, as characters have") {
  const Bpe bpe = data::train_bpe(data::synthetic_text(5000), 300);
  const data::RawText text{data::synthetic_text(3000), "here"};
  const auto [train, validation] = data::split(bpe.encode(text), 0.25);
  CHECK(train.tokens.dtype() == i32);
  CHECK_THAT(train.source, Contains("here, ") && Contains("tokens of a vocabulary of 300"));
  CHECK(bpe.decode(train.tokens) + bpe.decode(validation.tokens) == text.bytes);
  const auto [input, target] = train.batch(3, 8, 1, 2);
  CHECK(same_bits(input.slice(1, 1), target.slice(1, 0, -1)));
}

TEST_CASE("Windows are cut from tokens as encode makes them, and from nothing else") {
  const Tensor ids = arange(20);
  for (const Dtype t : {u8, i32, i64}) {
    const auto [input, target] = data::Tokens{cast(ids, t), "counted"}.batch(2, 5, seed(), 3);
    CHECK(same_bits(target, input + 1));
  }
  const auto refuses = [](const Tensor& t) {
    CHECK_THAT(message_of([&] {
                 (data::Tokens{t, ""}.batch(1, 2, 0, 0));
               }),
               Contains("expected contiguous u8, i32 or i64"));
  };
  refuses(slice(ids, 0, 0, 20, 2));
  refuses(reshape(ids, {4, 5}));
  refuses(cast(ids, f32));
  const data::Tokens tokens{ids, ""};
  for (const std::int64_t length : {0, -1})
    CHECK_THAT(message_of([&] { (void)tokens.windows_of(length); }), Contains("at least one token"));
}

TEST_CASE("Files that are no tokenizer of this kind give one line") {
  const auto read = [](const std::string& path) { data::load_bpe(path); };
  const std::string vocabulary = R"("a": 0, "b": 1, "ab": 2)";
  const auto file = [&](const std::string& model, const std::string& rest = "",
                        const std::string& pre = R"("type": "ByteLevel")") {
    return R"({"pre_tokenizer": {)" + pre + R"(}, "model": {)" + model + "}" + rest + "}";
  };
  const auto of = [&](const std::string& vocab, const std::string& merges) {
    return file(R"("type": "BPE", "vocab": {)" + vocab + R"(}, "merges": )" + merges);
  };
  const TempDir dir;
  put_file(dir / "good", of(vocabulary, R"(["a b"])"));
  CHECK(ids(data::load_bpe(dir / "good").encode("abb")) == Ids{2, 1});
  put_file(dir / "pairs", of(vocabulary, R"([["a", "b"]])"));
  CHECK(ids(data::load_bpe(dir / "pairs").encode("abb")) == Ids{2, 1});

  refuses_bytes(read, "", "not valid JSON");
  refuses_bytes(read, "[]", "must be a JSON object");
  refuses_bytes(read, "{\"model\": {}", "not valid JSON at byte");
  refuses_bytes(read, std::string("{}\0{}", 5), "not valid JSON at byte 2");
  refuses_bytes(read, "{\"a\": \"\xff\"}", "not valid JSON");
  refuses_bytes(read, std::string(100000, '['), "nested more than");
  refuses_bytes(read, "{\"a\":" + std::string(100000, '[') + std::string(100000, ']') + "}", "nested more than");
  refuses_bytes(read, "<!DOCTYPE html><html>", "an HTML page");
  refuses_bytes(read, "version https://git-lfs.github.com/spec/v1\n", "git-lfs");
  refuses_bytes(read, "{}", "has no model");
  refuses_bytes(read, file(R"("type": "Unigram")"), "only BPE");
  refuses_bytes(read, file(R"("end_of_word_suffix": "</w>")"), "end_of_word_suffix is not supported");
  for (const char* other : {R"({"type": "NFKC"})", R"({"type": "Sequence", "normalizers": [{"type": "Lowercase"}]})",
                            "3", R"({"type": "Sequence", "normalizers": 3})", R"([{"type": "NFC"}])"})
    refuses_bytes(read, file("", R"(, "normalizer": )" + std::string(other)), "normalizer");
  const auto sentencepiece = [&](const std::string& normalizer, const std::string& pre) {
    return R"({"normalizer": )" + normalizer + R"(, "pre_tokenizer": )" + pre +
           R"(, "model": {"byte_fallback": true, "vocab": {"a": 0}, "merges": []}})";
  };
  const std::string prepend = R"({"type": "Prepend", "prepend": "▁"})",
                    replace = R"({"type": "Replace", "pattern": {"String": " "}, "content": "▁"})",
                    both = R"({"type": "Sequence", "normalizers": [)" + prepend + ", " + replace + "]}";
  refuses_bytes(read, sentencepiece(both, "null"), "there is no token <0x00>");
  for (const char* pre : {R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true})",
                          R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "split": false})",
                          R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": 3, "split": false})",
                          R"({"type": "Whitespace"})", "3", "null"})
    refuses_bytes(read, sentencepiece("null", pre), "a model with byte_fallback must have");
  for (const std::string& normalizer : {prepend, replace})
    refuses_bytes(read, sentencepiece(normalizer, "null"), "must have");
  refuses_bytes(
      read,
      sentencepiece(both, R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false})"),
      "must have");
  refuses_bytes(read, sentencepiece(R"({"type": "Replace", "pattern": {"Regex": " "}, "content": "▁"})", "null"),
                "with byte_fallback the normalizer");
  const auto with_post = [&](const std::string& single, const std::string& specials) {
    return file(R"("vocab": {"a": 0}, "merges": [])",
                R"(, "post_processor": {"type": "TemplateProcessing", "single": )" + single +
                    R"(, "special_tokens": )" + specials + "}");
  };
  const std::string special = R"([{"SpecialToken": {"id": "a"}}, {"Sequence": {"id": "A"}}])";
  put_file(dir / "post", with_post(special, R"({"a": {"ids": [0]}})"));
  CHECK(data::load_bpe(dir / "post").options().begin == Ids{0});
  refuses_bytes(read, with_post("3", "{}"), "no single");
  refuses_bytes(read, with_post("[]", "3"), "no single");
  refuses_bytes(read, with_post(special, "{}"), "no list of ids");
  refuses_bytes(read, with_post(special, R"({"a": 3})"), "no list of ids");
  refuses_bytes(read, with_post(special, R"({"a": {"ids": [-1]}})"), "numbers below");
  refuses_bytes(read, with_post(special, R"({"a": {"ids": [1]}})"), "there is no token 1");
  refuses_bytes(read, file("", "", R"("type": "Metaspace")"), "pre_tokenizer");
  refuses_bytes(read, file("", "", R"("type": "ByteLevel", "add_prefix_space": true)"), "pre_tokenizer");
  refuses_bytes(read, file("", "", R"("type": "ByteLevel", "use_regex": false)"), "pre_tokenizer");
  const std::string sequence = R"("type": "Sequence", "pretokenizers": )",
                    level = R"({"type": "ByteLevel", "use_regex": false})";
  for (const char* first : {"", "3, ", "{}, ", R"({"type": "Digits", "individual_digits": false}, )",
                            R"({"type": "Split", "pattern": {"Regex": "x"}, "behavior": "Isolated"}, )",
                            R"({"type": "Split", "pattern": "x", "behavior": "Isolated"}, )"})
    refuses_bytes(read, file("", "", sequence + "[" + first + level + "]"), "pre_tokenizer");
  refuses_bytes(read, file("", "", sequence + "3"), "pre_tokenizer");
  refuses_bytes(read, file(""), "has no vocabulary");
  refuses_bytes(read, of(vocabulary, "3"), "no list of merges");
  refuses_bytes(read, of(vocabulary, "[3]"), "a merge must be two texts");
  refuses_bytes(read, of(vocabulary, R"(["ab"])"), "does not have two parts");
  refuses_bytes(read, of(vocabulary, R"(["a b c"])"), "does not have two parts");
  refuses_bytes(read, of(vocabulary, R"(["a c"])"), "there is no token");
  refuses_bytes(read, of(vocabulary, R"(["a b", "a b"])"), "there twice");
  refuses_bytes(read, of(vocabulary, R"([["a", "中"]])"), "not written as GPT-2 writes bytes");
  refuses_bytes(read, of(R"("a": 0, "b": 2)", "[]"), "must have the numbers from 0 on");
  refuses_bytes(read, of(R"("a": 0, "b": 0)", "[]"), "number of another");
  refuses_bytes(read, of(R"("a": 0, "b": -1)", "[]"), "must have the numbers");
  refuses_bytes(read, of(R"("a": 0, "b": 1e99)", "[]"), "must have the numbers");
  refuses_bytes(read, of(R"("a": 0, "": 1)", "[]"), "is empty");
  refuses_bytes(read, of(R"("a": 0, "中": 1)", "[]"), "not written as GPT-2 writes bytes");
  const auto added = [&](const std::string& list) {
    return file("\"vocab\": {" + vocabulary + "}, \"merges\": []", ", \"added_tokens\": " + list);
  };
  refuses_bytes(read, added("3"), "must be a list");
  refuses_bytes(read, added("[3]"), "must have an id and a content");
  refuses_bytes(read, added(R"([{"id": 9, "content": "x"}])"), "the next one has the number 9");
  refuses_bytes(read, added(R"([{"id": 4000000000, "content": "x"}])"), "must be below");
  refuses_bytes(read, added(R"([{"id": 3, "content": ""}])"), "is empty");
  refuses_bytes(read, added(R"([{"id": 3, "content": "x", "lstrip": true}])"), "lstrip is not supported");
  refuses_bytes(read, added(R"([{"id": 3, "content": ")" + std::string(1001, 'x') + "\"}]"), "is longer than 1000");
  refuses_bytes(read, of(R"("a": 1, "b": 1, "a": 0)", "[]"), "has the member \"a\" twice");
  std::string many = "[";
  for (int i = 0; i < 1001; ++i) many += "{},";
  refuses_bytes(read, added(many + "{}]"), "more than 1000 added tokens");

  const TempDir folder;
  CHECK_THAT(message_of([&] { data::load_bpe(folder.path()); }), Contains("has no tokenizer.json, and no vocab.json"));
  put_file(folder / "vocab.json", "{" + vocabulary + "}");
  put_file(folder / "merges.txt", "#version: 0.2\r\na b\r\n\n");
  CHECK(ids(data::load_bpe(folder.path()).encode("ab")) == Ids{2});
  put_file(folder / "merges.txt", "a b\nab");
  CHECK_THAT(message_of([&] { data::load_bpe(folder.path()); }), Contains("merges.txt: merge \"ab\""));
}

TEST_CASE("Files with wrong bytes are read or refused, never worse") {
  const std::string of_bytes = io::read_file(golden + "/tokenizer.json", 1 << 20),
                    of_characters = io::read_file(golden + "/../llama/llama2.json", 1 << 20);
  const TempDir dir;
  const Philox philox{seed()};
  MANTISSA_PRINT_SEED();
  for (std::uint64_t i = 0; i < 600; ++i) {
    std::string bytes = i % 2 ? of_bytes : of_characters;
    for (std::uint32_t k = 0; k <= philox(i, 0).v[1] % 3; ++k) {
      const auto& r = philox(i, k + 1).v;
      const std::size_t at = r[0] % bytes.size();
      if (r[1] % 4 == 0) bytes.resize(at + 1);
      else if (r[1] % 4 == 1) bytes.erase(at, r[2] % 40);
      else bytes[at] = r[1] % 4 == 2 ? static_cast<char>(r[2]) : "0123456789[]{}\",: "[r[2] % 18];
    }
    put_file(dir / "tokenizer.json", bytes);
    try {
      const Bpe bpe = data::load_bpe(dir.path());
      bpe.decode(bpe.encode("Hello, world"));
    } catch (const Error&) {}
  }
}
