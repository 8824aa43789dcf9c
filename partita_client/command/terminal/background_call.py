"""A call on a thread of its own, for which a terminal waits beside its keys."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

_Result = TypeVar("_Result")
_WAKE: Final = b"!"


class BackgroundCall(Generic[_Result]):
    """Begins a call that may block, as the look-up of a host does; `fileno` is readable at its end.

    `undo` takes the result of a call that was given up, on the thread of that call. Nobody waits
    for the thread, not even the end of the process.
    """

    has_more: Final = False  # waited for as a WebSocket is
    wants_write: Final = False

    def __init__(
        self,
        call: Callable[[], _Result],
        *,
        undo: Callable[[_Result], object] = lambda _result: None,
    ) -> None:
        self._call, self._undo = call, undo
        self._woken, self._wake = os.pipe()
        self._lock = threading.Lock()  # of all that follows
        self._is_given_up = False
        self._results: Sequence[_Result] = ()
        self._error: BaseException | None = None
        threading.Thread(target=self._run, daemon=True).start()

    def fileno(self) -> int:
        return self._woken

    @property
    def has_ended(self) -> bool:
        with self._lock:
            return bool(self._results) or self._error is not None

    def take_result(self) -> _Result:
        """Return what an ended call returned, once; raise what it raised."""
        with self._lock:
            if self._error is not None:
                raise self._error
            (result,), self._results = self._results, ()
            return result

    def close(self) -> None:
        """Give the call up if it goes on; undo a result that was not taken."""
        with self._lock:
            self._is_given_up = True
            left, self._results = self._results, ()
            os.close(self._woken)
            os.close(self._wake)
        for result in left:
            self._undo(result)

    def _run(self) -> None:
        results, error = list[_Result](), None
        try:
            results.append(self._call())
        except BaseException as raised:  # noqa: BLE001 - it is raised where the result is taken
            error = raised
        with self._lock:
            is_wanted = not self._is_given_up
            if is_wanted:
                self._results, self._error = results, error
                os.write(self._wake, _WAKE)
        if not is_wanted and results:
            self._undo(results[0])
