/** What an attempt of a stage works with, and how its events are made. */
import type { NetworkFollower } from '../vm/network-log.ts';
import type { NewRunEvent, RunEventBody } from '../../domain/run/event.ts';
import type { ActivityDeps } from '../deps.ts';
import type { AttemptLife } from '../heartbeat.ts';
import type { StageEnvironment } from './host-variables.ts';
import type { RunLedger } from '../agent/shared/ledger.ts';
import type { SandboxBackend, VmKey } from '../ports/sandbox.ts';
import type { StageRequest } from '../calls/requests.ts';
import type { StageWorkspace } from '../workspace/stage-workspace.ts';

export function attemptName({ runId, execKey }: StageRequest): string {
  return `${runId}/${execKey}`;
}

export interface Attempt {
  readonly deps: ActivityDeps;
  readonly request: StageRequest;
  readonly life: AttemptLife;
  readonly vmKey: VmKey;
  readonly backend: SandboxBackend;
  /** The scope is not shared: the VM lives and ends with this attempt. */
  readonly ownsVm: boolean;
}

export interface Worked extends Attempt {
  readonly ledger: RunLedger | null;
  readonly workspace: StageWorkspace | null;
  readonly credentials: StageEnvironment['credentials'];
  readonly network: Pick<NetworkFollower, 'listen'>;
}

export function attemptEvent(context: Attempt, id: string, body: RunEventBody): NewRunEvent {
  return { id, atMs: context.deps.now(), body };
}
