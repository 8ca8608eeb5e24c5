"""Choosing rows: samplers, their threshold µ, and their λ."""

from mvsboost.sampling.base import Sampler
from mvsboost.sampling.context import (
    GradientMoments,
    LeafSummary,
    Sample,
    SampledRows,
    SamplingContext,
)
from mvsboost.sampling.custom import CustomSampler, WrappedSampler
from mvsboost.sampling.mvs import MVS, ImportanceSampling
from mvsboost.sampling.rank import cut_largest, cut_smallest
from mvsboost.sampling.regularisation import (
    LAMBDA_FLOOR,
    LAMBDA_RULES,
    gradient_moments,
    regularisation,
)
from mvsboost.sampling.samplers import (
    GOSS,
    SAMPLERS,
    SGB,
    BayesianBootstrap,
    Bernoulli,
    NoSampling,
    PoissonBootstrap,
    make_sampler,
)
from mvsboost.sampling.threshold import (
    Threshold,
    inclusion_probabilities,
    threshold_by_newton,
    threshold_by_quickselect,
    threshold_by_sorting,
)

__all__ = [
    "GOSS",
    "LAMBDA_FLOOR",
    "LAMBDA_RULES",
    "GradientMoments",
    "MVS",
    "SAMPLERS",
    "SGB",
    "BayesianBootstrap",
    "Bernoulli",
    "CustomSampler",
    "ImportanceSampling",
    "LeafSummary",
    "NoSampling",
    "PoissonBootstrap",
    "Sample",
    "SampledRows",
    "Sampler",
    "SamplingContext",
    "Threshold",
    "WrappedSampler",
    "cut_largest",
    "cut_smallest",
    "inclusion_probabilities",
    "make_sampler",
    "gradient_moments",
    "regularisation",
    "threshold_by_newton",
    "threshold_by_quickselect",
    "threshold_by_sorting",
]
