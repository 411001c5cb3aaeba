// Probability distributions, as torch.distributions, for policies, variational autoencoders and generative models. Each
// is a plain value holding its parameters, which broadcast against each other.
//
//   const distributions::Categorical policy({.logits = net(state)});
//   Tensor action = policy.sample(), score = policy.log_prob(action), bonus = policy.entropy();
//   const distributions::Normal z(mean, std);
//   Tensor loss = reconstruction(z.rsample()) + kl_divergence(z, distributions::Normal(0, 1)).sum();
//
// sample(shape) returns [shape..., batch...] without a gradient; rsample, where it exists, lets gradients flow through
// the sample to the parameters. Random numbers come from the default generator (core/random.h). log_prob is the log of
// the density, or of the probability mass; cdf(x) is P(X <= x), and icdf its inverse. Each distribution has those of
// mean(), mode(), variance(), stddev(), entropy() (in nats) and perplexity() that have a closed form. Values and
// probabilities broadcast with the batch.
//
// f16 and bf16 parameters, as layers return them under autocast, are converted to f32: log-probabilities need the
// precision. On the CPU parameters are checked for their valid range; on a GPU that would need a synchronisation.
// Values are not checked: outside the support log_prob is -infinity or NaN.
//
// For events of several dimensions (a robot's actions, an image's pixels): Independent(Normal(m, s), 1).
#pragma once

#include "nn/distributions_circle.h"       // VonMises
#include "nn/distributions_classes.h"      // Bernoulli, Categorical, OneHotCategorical, RelaxedOneHotCategorical
#include "nn/distributions_combined.h"     // Independent, MixtureSameFamily
#include "nn/distributions_counts.h"       // Poisson, Geometric, Binomial, NegativeBinomial, Multinomial
#include "nn/distributions_gamma.h"        // Gamma, Chi2, InverseGamma, FisherSnedecor, Beta, Dirichlet
#include "nn/distributions_interval.h"     // Uniform, Kumaraswamy, ContinuousBernoulli, RelaxedBernoulli
#include "nn/distributions_kl.h"           // kl_divergence
#include "nn/distributions_location.h"     // Laplace, Cauchy, HalfCauchy, Gumbel, StudentT
#include "nn/distributions_matrices.h"     // Wishart, LKJCholesky
#include "nn/distributions_normal.h"       // Normal, LogNormal, HalfNormal, TanhNormal
#include "nn/distributions_positive.h"     // Exponential, Weibull, Pareto, GeneralizedPareto
#include "nn/distributions_transformed.h"  // TransformedDistribution and its transforms, LogisticNormal
#include "nn/distributions_vectors.h"      // MultivariateNormal, LowRankMultivariateNormal
