// Llama (Touvron et al., 2023; Llama 3: Grattafiori et al., 2024) and models of the same architecture: Mistral 7B
// (Jiang et al., 2023), Qwen 2 to 3 (Yang et al., 2024, 2025), SmolLM, TinyLlama. Generates text with weights from
// Hugging Face, and trains on a text.
//   llama --model SmolLM2-135M --prompt "Once upon a time"    a folder: config.json, model.safetensors, tokenizer.json
//   llama --model SmolLM2-135M --data book.txt --export mine  fine-tunes it; transformers read what it exports
//   llama --minutes 10                                        trains a small one with its own vocabulary
//   llama --model Qwen3-0.6B --chat "What is a tape?"         asks a model trained on chats
//   llama --help
#include "common/hf_folder.h"
#include "common/llama_model.h"
#include "common/writing.h"

using namespace mantissa;
using samples::LlamaConfig;

int run(int argc, char** argv) {
  std::string folder = samples::asked_model(argc, argv, ""), exported, token_file;
  samples::Options o{
      .model = "llama", .schedule = "cosine", .epochs = 1, .batch = 8, .lr = folder.empty() ? 2e-3 : 5e-5};
  LlamaConfig config{.vocab_size = 1024,
                     .max_position_embeddings = 128,
                     .hidden_size = 128,
                     .num_hidden_layers = 4,
                     .num_attention_heads = 4,
                     .num_key_value_heads = 2};
  std::int64_t length = 128;
  samples::Writing writing{.tokens = 100};
  samples::configure(
      argc, argv,
      {.description = "Writes with a Llama, and trains one on a text.",
       .flags =
           std::vector<samples::Flag>{
               {"--model", &folder, "Folder of a model from Hugging Face; alone, it only writes"},
               {"--export", &exported, "Folder to write the model to, for --model and Hugging Face's libraries"},
               {"--tokens", &token_file, "Instead of --data: a file of tokens, such as nanoGPT's train.bin"},
               {"--length", &length, "Tokens of a text in training", {}, 1},
               {"--vocabulary", &config.vocab_size, "Without --model: tokens to learn, or of --tokens", {}, 257},
               {"--context", &config.max_position_embeddings, "Without --model: tokens it sees at once", {}, 2},
               {"--layers", &config.num_hidden_layers, "Without --model: layers"},
               {"--heads", &config.num_attention_heads, "Without --model: attention heads"},
               {"--kv-heads", &config.num_key_value_heads, "Without --model: heads of keys and values"},
               {"--width", &config.hidden_size, "Without --model: embedding width"}} +
           std::vector<samples::Flag>{
               {"--chat", &writing.chat, "Instead of --prompt: what somebody says, for a model of chats"}} +
           writing.flags("Tokens to write at the end; 0: none", "What the writing begins with; none: a new text")},
      o);
  check(config.hidden_size % (2 * config.num_attention_heads) == 0, "twice --heads ", config.num_attention_heads,
        " does not divide the width ", config.hidden_size);
  check(config.num_attention_heads % config.num_key_value_heads == 0, "--kv-heads ", config.num_key_value_heads,
        " does not divide --heads ", config.num_attention_heads);
  config.head_dim = config.hidden_size / config.num_attention_heads;
  config.intermediate_size = (config.hidden_size * 8 / 3 + 31) / 32 * 32;

  const bool from_file = !token_file.empty(), training = folder.empty() || !o.data.empty() || from_file;
  const data::RawText text =
      training && !from_file ? data::load_raw_text("tinyshakespeare", o.data) : data::RawText();
  std::optional<samples::LlamaFolder> given;
  if (!folder.empty()) given = samples::read_llama(folder);
  std::optional<data::Bpe> bpe;  // absent for a token file without a model
  if (given) bpe = given->bpe;
  else if (!from_file) bpe = data::train_bpe(text.bytes, config.vocab_size);
  check(bpe || exported.empty(), "--export with --tokens needs --model: the tokenizer that made them");
  if (!exported.empty()) samples::make_folder(exported);
  if (given) config = given->config;
  else if (bpe)
    config.vocab_size = bpe->size(), config.bos_token_id = bpe->size() - 1, config.eos_token_id = {bpe->size() - 1};
  check(!bpe || bpe->size() <= config.vocab_size, folder, ": the tokenizer has ", bpe ? bpe->size() : 0,
        " tokens, the model ", config.vocab_size);
  samples::Llama net(config);
  if (given) {
    nn::load_state_dict(net, given->weights);
    given->weights.clear();
  }

  length = std::min(length, config.max_position_embeddings);
  samples::Corpus corpus;
  if (from_file) corpus = data::TokenFile(token_file);
  else if (training) corpus = bpe->encode(text, data::Specials::as_text);
  const std::int64_t per_epoch = training ? samples::steps_per_epoch(corpus, o.batch * length) : 1;
  samples::Run run(o, {.steps_per_epoch = per_epoch, .items_per_step = o.batch * length, .items = "tokens"});
  run.keep("model", net);
  const Tensor example = samples::some_tokens(config.vocab_size, length);
  run.onnx(net, {example}, {.input_names = {"tokens"}, .output_names = {"logits"}},
           [&](const Tensor& x) { return net.logits(net(x)); });
  if (!training) {
    run.save_onnx();
    nn::to(net, run.dtype);  // halves the bytes read per token
  }
  const int code = training ? samples::train(net, corpus, length, o, run) : 0;
  if (code == 0 && !exported.empty()) samples::write_llama(exported, {config, nn::state_dict(net), *bpe});
  if (code == 0 && writing.tokens > 0 && bpe)
    samples::write(net, *bpe, writing, o, run, config.max_position_embeddings, config.bos_token_id,
                   config.eos_token_id);
  return code;
}

int main(int argc, char** argv) { return samples::run_guarded(run, argc, argv); }
