// Text generation with a token model: prompt, streaming output, and end of text.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "language.h"

namespace samples {

// The prompt that chat models expect for the user's `words`, up to the start of the answer, and the token that ends the
// answer. Chat templates (programs in tokenizer_config.json) are not run: supports the two usual ones, ChatML (Qwen,
// SmolLM) and Llama 3's, without default system prompts.
inline std::pair<std::string, std::int64_t> chat_prompt(const data::Bpe& bpe, const std::string& words) {
  if (const auto end = bpe.find("<|im_end|>"); end && bpe.find("<|im_start|>"))
    return {concat("<|im_start|>user\n", words, "<|im_end|>\n<|im_start|>assistant\n"), *end};
  const std::string head = "<|start_header_id|>", behind = "<|end_header_id|>\n\n";
  if (const auto end = bpe.find("<|eot_id|>"); end && bpe.find(head))
    return {concat(head, "user", behind, words, "<|eot_id|>", head, "assistant", behind), *end};
  fail(
      "--chat: the tokenizer has neither ChatML's <|im_start|> nor Llama 3's <|start_header_id|>; "
      "write what the model was trained on as --prompt");
}

// Prints a text as it grows, in complete characters only; with --json prints nothing.
class Shown {
 public:
  explicit Shown(bool quiet) : quiet_(quiet) {}
  void show(const std::string& text) { print(text, data::whole_characters(text)); }
  void end(const std::string& text) { print(text + "\n", text.size() + 1); }

 private:
  void print(const std::string& text, std::size_t end) {
    if (quiet_ || end <= printed_) return;
    std::fwrite(text.data() + printed_, 1, end - printed_, stdout);
    std::fflush(stdout);
    printed_ = end;
  }
  bool quiet_;
  std::size_t printed_ = 0;
};

// A token model: net(tokens, cache) -> [N, T, width], net.logits(x) -> [..., V]. Without a prompt, and if the tokenizer
// prepends no tokens, it begins after the token `begin`; it ends at any of `ends`.
template <class Net>
void write(const Net& net, const data::Bpe& bpe, const Writing& w, const Options& o, const Run& run,
           std::int64_t context, std::optional<std::int64_t> begin, std::vector<std::int64_t> ends) {
  std::vector<std::int64_t> prompt = bpe.options().begin, text;  // text: the part displayed
  if (!w.chat.empty()) {
    const auto [words, end] = chat_prompt(bpe, w.chat);
    const auto tokens = bpe.encode(words).template to_vector<std::int64_t>();
    prompt.insert(prompt.end(), tokens.begin(), tokens.end());
    ends.push_back(end);
  } else {
    if (w.prompt.empty() && prompt.empty() && begin) prompt.push_back(*begin);
    text = bpe.encode(w.prompt.empty() && prompt.empty() ? "\n" : w.prompt).template to_vector<std::int64_t>();
    prompt.insert(prompt.end(), text.begin(), text.end());
  }
  const auto so_far = [&] { return bpe.decode(from_data(text, {static_cast<std::int64_t>(text.size())})); };
  Shown shown(o.json);
  shown.show(so_far());

  const Stopwatch clock;
  double read = 0;  // seconds until the prompt was processed and the first token chosen
  std::int64_t tokens = 0;
  const auto model = [&](const Tensor& x, const nn::KvCache& cache) {
    const Tensor logits = amp::autocast(run.dtype, [&] { return net.logits(net(x, cache).slice(1, -1)); });
    return logits.slice(-1, 0, bpe.size());  // some models have more logits than the tokenizer has tokens
  };
  const auto written = [&](const Tensor& next) {
    const auto token = next.template item<std::int64_t>();
    if (++tokens == 1) read = clock.seconds();
    if (std::ranges::count(ends, token) > 0) return false;
    text.push_back(token);
    shown.show(so_far());
    return !interrupted();
  };
  const Tensor first = from_data(prompt, {1, static_cast<std::int64_t>(prompt.size())}).to(run.device);
  nn::generate(model, first,
               {.max_new_tokens = w.tokens, .context = context, .sample = w.sample, .on_token = written});
  const double wrote = clock.seconds() - read;
  shown.end(so_far());
  run.note(fmt::format("{}{} tokens read in {:.2f} s, {} written in {:.2f} s: {:.1f} a second",
                       o.json ? so_far() + "\n" : "", prompt.size(), read, tokens, read + wrote,
                       tokens > 1 ? static_cast<double>(tokens - 1) / wrote : 0.0));
}

}  // namespace samples
