"""The experiments of the paper, on real data, by one command.

Ibragimov and Gusev, "Minimal Variance Sampling in Stochastic Gradient Boosting", 2019.
A *cell* is the smallest piece of an experiment: one model, or a few that belong
together, trained and judged under settings that determine the result. Cells are kept
in a `Store` as they are done, so a run that was interrupted goes on where it stopped.
"""
