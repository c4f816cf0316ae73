/**
 * The owner of a run: the server of its workflow, and the host that admitted it. Readable records do not prove
 * ownership, because several hosts may read the same ones.
 */
import type { CommandCaller } from '../../activities/admission/admission-record.ts';
import type { RunRecords } from '../../activities/ports/run-records.ts';

export interface RunOwner {
  readonly serverId: string;
  readonly hostId: string;
  /** For a run of one command: the activity that takes the role of its workflow. */
  readonly command?: CommandCaller;
}

/** Returns the owner of a run; null if these records contain no admission. */
export async function ownerOf(records: Pick<RunRecords, 'get'>, runId: string): Promise<RunOwner | null> {
  const admission = (await records.get(runId, 'admission')) as RunOwner | null | undefined;
  if (admission === null || admission === undefined) return null;
  const { serverId, hostId, command } = admission;
  return { serverId, hostId, ...(command === undefined ? {} : { command }) };
}

/** Whether `host` is responsible for the run until its last event. */
export function isOwner(host: Pick<RunOwner, 'serverId' | 'hostId'>, owner: RunOwner): boolean {
  return owner.serverId === host.serverId && owner.hostId === host.hostId;
}
