#!/usr/bin/env bash
# Test accuracy of the convolutional network after three epochs in f32, bf16 and f16 with a loss scale, three seeds
# each, and how far the means lie apart. Needs the MNIST files; the data folder is looked for as by samples/mnist.
#   scripts/accuracy.sh [build folder] [dataset] [data folder]
set -euo pipefail
cd "$(dirname "$0")/.."
program=${1:-build/release}/mnist
dataset=${2:-mnist}
data=${3:-}

results=
for amp in off bf16 f16; do
  for seed in 1 2 3; do
    accuracy=$("$program" --dataset "$dataset" ${data:+--data "$data"} --epochs 3 --amp "$amp" --seed "$seed" --json |
      sed -n 's/.*"event":"end".*"test_accuracy":\([0-9.]*\).*/\1/p')
    echo "${amp/off/f32} seed $seed: $accuracy"
    results+="$amp $accuracy"$'\n'
  done
done
awk 'NF { sum[$1] += 100 * $2 / 3; if (!least || 100 * $2 < least) least = 100 * $2 }
     END { printf "means: f32 %.3f %%, bf16 %.3f %%, f16 %.3f %%; lowest single run %.2f %%\n", sum["off"], sum["bf16"], sum["f16"], least }' <<<"$results"
