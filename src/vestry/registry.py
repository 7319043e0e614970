"""Models, losses and ways in to records by name: tables of strings, each loaded when it is used.

A new model, family, loss or way in is one line here.

A model's class knows how its releases are read (`reader`), and a conjugate one which family it is (`family_type`).
"""

from __future__ import annotations

import importlib
from collections import UserDict
from typing import Any


class LazyTable(UserDict[str, Any]):
    """Names, each with the thing itself or where it is found, written module:attribute."""

    def __getitem__(self, name: str) -> Any:
        home = super().__getitem__(name)
        if not isinstance(home, str):
            return home
        module, _, attribute = home.partition(":")
        return getattr(importlib.import_module(module), attribute)


MODELS = LazyTable(
    {
        "beta-bernoulli": "vestry.conjugate.beta_bernoulli:BetaBernoulli",
        "dirichlet-categorical": "vestry.conjugate.dirichlet_categorical:DirichletCategorical",
        "normal-mean": "vestry.conjugate.normal_mean:NormalMean",
        "gamma-poisson": "vestry.conjugate.gamma_poisson:GammaPoisson",
        "gamma-exponential": "vestry.conjugate.gamma_exponential:GammaExponential",
        "normal-inverse-gamma": "vestry.conjugate.normal_inverse_gamma:NormalInverseGamma",
        "statistical-query": "vestry.conjugate.statistical_query:StatisticalQuery",
        "logistic": "vestry.regression.logistic_model:LogisticRegression",
        "poisson": "vestry.regression.poisson_model:PoissonRegression",
        "linear": "vestry.regression.linear_model:LinearRegression",
        "naive-bayes": "vestry.naive_bayes.naive_bayes_model:NaiveBayes",
        "hmm": "vestry.hmm.hmm_model:HiddenMarkovModel",
        "quality": "vestry.data_quality.quality_model:Quality",
        "count": "vestry.tables.record_count:RecordCount",
        "table": "vestry.tables.contingency_table:ContingencyTable",
        "histogram": "vestry.tables.histogram:Histogram",
        "quantile": "vestry.tables.quantiles:Quantiles",
        "levels": "vestry.levels.level_discovery:LevelDiscovery",
    }
)

# What may be averaged over instead of rows: a model of the question, made of the model of the rows.
AVERAGES = LazyTable({"person": "vestry.persons.person_average:PersonAverage"})

# Where records may be: an address (FILE marks a path), how a file's name ends, or a package and a class. What stands
# there takes what was given and a `Selection`, and returns a `Source`: see `vestry.data.source`.
SOURCES = LazyTable(
    {
        ".parquet": "vestry.data.parquet_files:open_parquet",
        ".csv": "vestry.data.csv_reader:open_csv",
        ".tsv": "vestry.data.csv_reader:open_csv",
        ".csv.gz": "vestry.data.csv_reader:open_csv",
        ".tsv.gz": "vestry.data.csv_reader:open_csv",
        ".arrow": "vestry.data.dataframes:open_arrow_file",
        ".feather": "vestry.data.dataframes:open_arrow_file",
        ".ipc": "vestry.data.dataframes:open_arrow_file",
        "pandas.DataFrame": "vestry.data.dataframes:open_pandas",
        "polars.DataFrame": "vestry.data.dataframes:open_polars",
        "polars.LazyFrame": "vestry.data.dataframes:open_polars_lazy",
        "pyarrow.Table": "vestry.data.dataframes:open_arrow_table",
        "pyarrow.RecordBatch": "vestry.data.dataframes:open_arrow_table",
        "pyarrow.RecordBatchReader": "vestry.data.dataframes:open_arrow_reader",
        "pyarrow.Dataset": "vestry.data.dataframes:open_arrow_dataset",
        "deltalake.DeltaTable": "vestry.data.dataframes:open_delta",
        "duckdb.DuckDBPyRelation": "vestry.data.dataframes:open_relation",
        "ibis.Table": "vestry.data.databases:open_ibis",
        "duckdb://FILE/TABLE": "vestry.data.databases:open_duckdb",
        "postgresql://USER:${VARIABLE}@HOST/DATABASE/TABLE": "vestry.data.databases:open_postgresql",
        "pyspark://TABLE": "vestry.data.databases:open_pyspark",
    }
)

# Losses of linear models: a new one is its class and one line here.
LOSSES = LazyTable(
    {
        "logistic": "vestry.regression.losses:Logistic",
        "huber": "vestry.regression.losses:Huber",
        "pseudo-huber": "vestry.regression.losses:PseudoHuber",
        "log-cosh": "vestry.regression.losses:LogCosh",
        "smooth-hinge": "vestry.regression.losses:SmoothHinge",
        "softplus-hinge": "vestry.regression.losses:SoftplusHinge",
        "smooth-quantile": "vestry.regression.losses:SmoothQuantile",
        "multinomial": "vestry.regression.losses:Multinomial",
        "probit": "vestry.regression.losses:Probit",
        "complementary-log-log": "vestry.regression.losses:ComplementaryLogLog",
    }
)

# What a release becomes, and how a posterior is shown, without importing upward.
FACADE = LazyTable(
    {
        "posterior": "vestry.posterior.posterior:Posterior",
        "likelihood": "vestry.likelihood.release_likelihood:likelihood_of",
        "arviz_tree": "vestry.posterior.arviz_tree:tree_of",
        "plot": "vestry.display.plotting:plot",
        "posterior_html": "vestry.display.plotting:posterior_html",
    }
)
