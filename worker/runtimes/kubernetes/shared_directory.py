"""What the steps of a suite share: a directory on a claim, or changes that travel between pods.

Without a claim, each pod has a shared directory of its own, filled at its start. What a step wrote
there is kept in a Secret of the run when the step has ended, and fills the directories of the pods
that start later.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from typing import Final

from worker.domain import ownership
from worker.domain.ownership import UnitOwner
from worker.domain.runtime import Launch, RuntimeFailure
from worker.runtimes.kubernetes import keeper
from worker.runtimes.kubernetes.client import ClusterClient, Exists, Gone, RequestDenied
from worker.runtimes.kubernetes.objects import KEEPER, AnyList, AnyObject, Pod, Secret, SecretList
from worker.runtimes.kubernetes.pod_keepers import Keepers
from worker.runtimes.kubernetes.pod_spec import (
    CHANGES,
    CHANGES_KEY,
    DIRECTORY,
    ROLE,
    SECRET_LIMIT,
    WORKSPACE_NAME,
    PodRules,
    changes_secret,
    cleaner,
    directory_note,
    select,
)

_CLEANED_WITHIN_TRIES: Final = 150
_PAUSE_S: Final = 0.2
_KEPT: Final = 1_000  # names that are remembered, so as not to ask again


class SharedDirectories:
    """Keeps and finds the changes; for the runs of one installation."""

    def __init__(
        self, client: ClusterClient, keepers: Keepers, installation_id: str, rules: PodRules
    ) -> None:
        self._client = client
        self._keepers = keepers
        self._rules = rules
        self._ours = {ownership.MANAGED: "true", ownership.INSTALLATION: installation_id}
        self._kept: dict[str, None] = {}
        self._noted: dict[str, None] = {}

    async def changes(self, run_id: str, workspace: str) -> list[bytes]:
        """Return the changes of ended steps (tar+gzip), the oldest first; none with a claim."""
        if self._rules.claim:
            return []
        wanted = {ownership.RUN_ID: run_id, ROLE: CHANGES, WORKSPACE_NAME: workspace}
        found: list[Secret] = []
        async for page in self._client.pages(
            "secrets", SecretList, select({**self._ours, **wanted})
        ):
            found += page.items
        found.sort(key=lambda each: int(each.metadata.resource_version or 0))
        return [base64.b64decode(each.data.get(CHANGES_KEY, "")) for each in found]

    async def note(self, launch: Launch) -> None:
        """Leave a note of the directory that the launch will have on the claim, if there is one."""
        if self._rules.claim and launch.workspace.name not in self._noted:
            with contextlib.suppress(Exists):
                await self._client.create("secrets", directory_note(launch), AnyObject)
            self._noted[launch.workspace.name] = None
            while len(self._noted) > _KEPT:
                del self._noted[next(iter(self._noted))]

    async def remove(self, run_id: str, owner: UnitOwner) -> str:
        """Remove the directories of a run from the claim; return why they are left, if so."""
        of_run = {**self._ours, ownership.RUN_ID: run_id}
        if problem := await self._clean(run_id, owner):
            return problem
        notes = select({**of_run, ROLE: DIRECTORY})
        async for page in self._client.pages("secrets", AnyList, notes):
            for each in page.items or ():
                self._noted.pop(each.metadata.name, None)
                with contextlib.suppress(Gone, Exists):
                    await self._client.delete("secrets", each.metadata.name, uid=each.metadata.uid)
        return ""

    async def _clean(self, run_id: str, owner: UnitOwner) -> str:
        if not self._rules.claim:
            return ""
        labels = {**self._ours, ownership.RUN_ID: run_id}
        labels[ownership.ORCHESTRATOR] = owner.orchestrator_id  # who finds it after a kill
        body = cleaner(run_id, labels, self._rules)
        try:
            made = await self._client.create("pods", body, Pod)
        except (Exists, RequestDenied) as error:
            return f"the shared directories of {run_id} are left on the claim: {error}"
        for _ in range(_CLEANED_WITHIN_TRIES):
            made = await self._client.get("pods", made.name, Pod)
            if made.state_of(KEEPER).terminated:
                break
            await asyncio.sleep(_PAUSE_S)
        await self._client.delete("pods", made.name)
        ended = made.state_of(KEEPER).terminated
        return "" if ended and not ended.exit_code else f"the directories of {run_id} are left"

    async def keep(self, pod: Pod) -> None:
        """Keep what an ended step wrote. Raises RuntimeFailure if it is too much."""
        if self._rules.claim or pod.metadata.uid in self._kept:
            return
        try:
            written = await keeper.changes(self._keepers, pod.name, limit=SECRET_LIMIT)
        except keeper.TooLarge:
            raise RuntimeFailure(
                f"the step wrote more than {SECRET_LIMIT // 1000} kB (compressed) to the shared "
                "directory, which is too much to take to other steps without a volume: write it to "
                "$PARTITA_ARTIFACTS_DIR, or give the backend a claim that all nodes can mount"
            ) from None
        if written:
            about = pod.metadata
            body = changes_secret(
                about.annotations, pod.name, about.annotations[WORKSPACE_NAME], written
            )
            with contextlib.suppress(Exists):  # kept before this process started
                await self._client.create("secrets", body, AnyObject)
        self._kept[pod.metadata.uid] = None
        while len(self._kept) > _KEPT:
            del self._kept[next(iter(self._kept))]
