"""Rows on the workers of a cluster, seen as one backend."""

from __future__ import annotations

from typing import Any

from mvsboost.backends.composite import MergedBackend
from mvsboost.backends.messages import GrownNodes, TreeRequest
from mvsboost.dask.session import Session
from mvsboost.dask.worker import Call

__all__ = ["DaskBackend"]


class DaskBackend(MergedBackend):
    """Rows that a session's workers hold.

    Verbs without an answer wait for the next one that has one, and travel with it.

    Parameters
    ----------
    session : Session
    n_rows, n_outputs : int
    """

    is_far = True
    """Whether a question takes long, so that several are better asked at once."""

    def __init__(self, session: Session, n_rows: int, n_outputs: int) -> None:
        self.session, self.n_rows, self.n_outputs = session, n_rows, n_outputs
        self._untold: list[Call] = []

    def _tell(self, verb: str, *arguments: Any) -> None:
        self._untold.append(Call(verb, arguments))

    def _ask(self, verb: str, *arguments: Any) -> Any:
        calls, self._untold = [*self._untold, Call(verb, arguments)], []
        return self.session.ask(calls)

    def grow_whole_tree(self, request: TreeRequest) -> GrownNodes | None:
        """The tree that workers grow among themselves; None where they cannot."""
        nodes = self.session.grow(self._untold, request)
        if nodes is not None:
            self._untold = []
        return nodes
