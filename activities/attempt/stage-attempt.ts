/** The context of an attempt of a stage, and a helper for its events. */
import type { NewRunEvent, RunEventBody } from '../../domain/run/event.ts';
import type { Redactor } from '../../domain/security/redactor.ts';
import type { ActivityDeps } from '../deps.ts';
import type { AttemptLife } from '../heartbeat.ts';
import type { StageEnvironment } from './host-variables.ts';
import type { Sandbox, SandboxBackend, VmKey } from '../ports/sandbox.ts';
import type { StageRequest } from '../calls/requests.ts';
import type { NetworkFollower } from '../vm/network-log.ts';
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
  /** True if the scope is not shared, so that the VM ends with this attempt. */
  readonly ownsVm: boolean;
}

/** The inputs that the commands of a stage find in its VM. */
export interface StageInputs {
  readonly env: Readonly<Record<string, string>>;
  readonly credentials: StageEnvironment['credentials'];
  /** Null if the stage has no workspace. */
  readonly workspace: StageWorkspace | null;
}

/** An attempt whose VM is ready. */
export interface AttemptVm extends Attempt {
  readonly sandbox: Sandbox;
  readonly inputs: StageInputs;
  readonly redactor: Redactor;
  /** The notices of the VM's door. */
  readonly network: Pick<NetworkFollower, 'listen' | 'catchUp'>;
}

export function attemptEvent(context: Attempt, id: string, body: RunEventBody): NewRunEvent {
  return { id, atMs: context.deps.now(), body };
}
