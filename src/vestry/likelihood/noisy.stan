  // Log-likelihoods of a release's noisy numbers, true counts summed out, for Stan 2.33 or later. Each function adds up
  // all groups, and is a term of the target. Formulas (1) and (3) are those of vestry.likelihood.count_terms.

  // A cubic between points centre + width sinh(x), x evenly spaced up to +-reach.
  real vestry_cubic(real t, real centre, real width, real reach, matrix cubic) {
    int intervals = rows(cubic);
    real place = (asinh((t - centre) / width) + reach) * intervals / (2 * reach);
    place = fmin(fmax(place, 0.0), intervals - 1e-9);
    int low = 0;
    int high = intervals;
    while (high - low > 1) { // the whole number below place
      int middle = (low + high) %/% 2;
      if (place >= middle) low = middle; else high = middle;
    }
    real s = place - low;
    return cubic[low + 1, 1] + s * (cubic[low + 1, 2] + s * (cubic[low + 1, 3] + s * cubic[low + 1, 4]));
  }

  // (3): log sum over nodes of weight times the product over counts.
  real vestry_mixture(vector shifts, vector log_nodes, vector log_weights, vector centres, vector widths,
                      vector reaches, array[] int places, array[] matrix cubics) {
    vector[size(log_nodes)] terms = log_weights;
    for (j in 1:size(log_nodes)) {
      for (k in 1:size(shifts)) {
        terms[j] += vestry_cubic(log_nodes[j] + shifts[k], centres[k], widths[k], reaches[k], cubics[places[k]]);
      }
    }
    return log_sum_exp(terms);
  }

  // The log density of the total's mean at the nodes: a negative binomial number of records.
  vector vestry_total(vector log_nodes, real total_mean, real total_shape) {
    real rate = total_shape / total_mean;
    return total_shape * log(rate) - lgamma(total_shape) + (total_shape - 1) * log_nodes - rate * exp(log_nodes);
  }

  // Successes of a public number of records.
  real noisy_binomial(vector logits, array[] vector counts, array[] vector log_weights, vector records) {
    real found = 0;
    for (g in 1:size(counts)) {
      found += log_sum_exp(log_weights[g] + counts[g] * logits[g]) - records[g] * log1p_exp(logits[g]);
    }
    return found;
  }

  // Sums of counts of a public number of records; or numbers of records, of 1 each.
  real noisy_poisson(vector log_rate, array[] vector counts, array[] vector log_weights, vector records) {
    real found = 0;
    for (g in 1:size(counts)) {
      real t = log_rate[g] + log(records[g]);
      found += log_sum_exp(log_weights[g] + counts[g] * t) - exp(t);
    }
    return found;
  }

  // Sums of counts of a noisy number of records.
  real noisy_poisson_private(vector log_rate, array[] vector log_nodes, array[] vector log_weights,
                             array[] vector centres, array[] vector widths, array[] vector reaches,
                             array[,] int places, array[] matrix cubics) {
    real found = 0;
    for (g in 1:size(places)) {
      found += vestry_mixture([log_rate[g]]', log_nodes[g], log_weights[g], centres[g], widths[g], reaches[g],
                              places[g], cubics);
    }
    return found;
  }

  // Counts of levels, by log probability.
  real vestry_levels(array[] vector log_p, array[] vector log_nodes, array[] vector log_weights,
                     array[] vector centres, array[] vector widths, array[] vector reaches,
                     array[,] int places, array[] matrix cubics) {
    real found = 0;
    for (g in 1:size(places)) {
      found += vestry_mixture(log_p[g], log_nodes[g], log_weights[g], centres[g], widths[g], reaches[g], places[g],
                              cubics);
    }
    return found;
  }

  array[] vector vestry_weighted(array[] vector log_nodes, array[] vector log_weights, real total_mean,
                                 real total_shape) {
    array[size(log_nodes)] vector[size(log_nodes[1])] found;
    for (g in 1:size(log_nodes)) found[g] = log_weights[g] + vestry_total(log_nodes[g], total_mean, total_shape);
    return found;
  }

  array[] vector vestry_two(vector logits) {
    array[size(logits)] vector[2] log_p;
    for (g in 1:size(logits)) log_p[g] = [-log1p_exp(-logits[g]), -log1p_exp(logits[g])]';
    return log_p;
  }

  array[] vector vestry_several(array[] vector logits) {
    array[size(logits)] vector[size(logits[1])] log_p;
    for (g in 1:size(logits)) log_p[g] = log_softmax(logits[g]);
    return log_p;
  }

  // Successes beside failures, every number of records equally likely.
  real noisy_binomial_private(vector logits, array[] vector log_nodes, array[] vector log_weights,
                              array[] vector centres, array[] vector widths, array[] vector reaches,
                              array[,] int places, array[] matrix cubics) {
    return vestry_levels(vestry_two(logits), log_nodes, log_weights, centres, widths, reaches, places, cubics);
  }

  // The same, the number of records negative binomial.
  real noisy_binomial_private_total(vector logits, real total_mean, real total_shape, array[] vector log_nodes,
                                    array[] vector log_weights, array[] vector centres, array[] vector widths,
                                    array[] vector reaches, array[,] int places, array[] matrix cubics) {
    return vestry_levels(vestry_two(logits), log_nodes,
                         vestry_weighted(log_nodes, log_weights, total_mean, total_shape), centres, widths, reaches,
                         places, cubics);
  }

  // Counts of levels, every number of records equally likely.
  real noisy_multinomial_private(array[] vector logits, array[] vector log_nodes, array[] vector log_weights,
                                 array[] vector centres, array[] vector widths, array[] vector reaches,
                                 array[,] int places, array[] matrix cubics) {
    return vestry_levels(vestry_several(logits), log_nodes, log_weights, centres, widths, reaches, places, cubics);
  }

  // The same, the number of records negative binomial.
  real noisy_multinomial_private_total(array[] vector logits, real total_mean, real total_shape,
                                       array[] vector log_nodes, array[] vector log_weights, array[] vector centres,
                                       array[] vector widths, array[] vector reaches, array[,] int places,
                                       array[] matrix cubics) {
    return vestry_levels(vestry_several(logits), log_nodes,
                         vestry_weighted(log_nodes, log_weights, total_mean, total_shape), centres, widths, reaches,
                         places, cubics);
  }

  // Counts of levels that add up to a public number: found[j + 1] is the log weight of j records beyond the least.
  real noisy_multinomial(array[] vector logits, vector least, array[] vector log_weights, int missing, real records) {
    vector[size(least)] log_p = log_softmax(logits[1]);
    vector[missing + 1] found = rep_vector(-1e100, missing + 1);
    found[1] = 0;
    for (k in 1:size(least)) {
      int most = size(log_weights[k]);
      vector[most] own = log_weights[k] + log_p[k] * (least[k] + linspaced_vector(most, 0, most - 1));
      vector[missing + 1] sums;
      for (j in 0:missing) {
        int many = min(j + 1, most);
        sums[j + 1] = log_sum_exp(own[1:many] + reverse(found[(j - many + 2):(j + 1)]));
      }
      found = sums;
    }
    return found[missing + 1] + lgamma(records + 1);
  }

  // The log probability of normal noise that was rounded: from the lower tail, or from a scale of 10,000 on the density.
  real vestry_rounded(vector gap, real scale, real log_top) {
    if (scale >= 10000) return log_top - 0.5 * dot_self(gap / scale);
    real found = 0;
    for (i in 1:size(gap)) {
      real middle = -abs(gap[i]) / scale;
      found += log_diff_exp(normal_lcdf(middle + 0.5 / scale | 0, 1), normal_lcdf(middle - 0.5 / scale | 0, 1));
    }
    return found;
  }

  // True numbers, by group; noise 0 is Laplace, 1 discrete Gaussian, 2 on a cube, 3 rounded normal.
  real noisy_sums(array[] vector statistic, array[] vector values, vector units, int noise, real scale, real log_top) {
    real found = 0;
    for (g in 1:size(values)) {
      vector[size(units)] gap = (statistic[g] - values[g]) ./ units;
      if (noise == 0) found += log_top - sum(abs(gap)) / scale;
      else if (noise == 1) found += log_top - 0.5 * dot_self(gap / scale);
      else if (noise == 2) found += log_top - max(abs(gap)) / scale;
      else found += vestry_rounded(gap, scale, log_top);
    }
    return found;
  }

  // Gram matrices, by group.
  real noisy_gram(array[] matrix gram, array[] int row, array[] int column, array[] vector values, vector units,
                  int noise, real scale, real log_top) {
    array[size(gram)] vector[size(row)] statistic;
    for (g in 1:size(gram)) for (i in 1:size(row)) statistic[g][i] = gram[g][row[i], column[i]];
    return noisy_sums(statistic, values, units, noise, scale, log_top);
  }
