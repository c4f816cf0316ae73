/** What an attempt of an agent works with. */
import type { Redactor } from '../../domain/security/redactor.ts';
import type { AgentOfStage } from './command.ts';
import type { AgentProgress } from './progress.ts';
import type { ActivityDeps } from '../deps.ts';
import type { AttemptLife } from '../heartbeat.ts';
import type { NetworkFollower } from '../vm/network-log.ts';
import type { Sandbox, SandboxBackend } from '../ports/sandbox.ts';
import type { ServiceOutput } from '../attempt/service-output.ts';
import type { StageRequest } from '../calls/requests.ts';
import type { RunLedger } from './shared/ledger.ts';
import type { OutcomeFailure } from '../attempt/outputs.ts';
import type { LeftWorkspace } from '../workspace/stage-workspace.ts';

export interface AgentContext {
  readonly deps: ActivityDeps;
  readonly request: StageRequest;
  readonly life: AttemptLife;
  readonly backend: SandboxBackend;
  readonly agent: AgentOfStage;
  readonly sandbox: Sandbox;
  /** Of the stage. */
  readonly env: Readonly<Record<string, string>>;
  readonly redactor: Redactor;
  /** Everything before the first command; `prepare` puts the agent's files there. */
  readonly begin: (preparation: Preparation) => Promise<void>;
  /** Null: it is no service. */
  readonly published: ServiceOutput | null;
  /** Null: its work is not saved. */
  readonly progress: AgentProgress | null;
  /** What the agents of the run have used; null: the run has no budget. */
  readonly ledger: RunLedger | null;
  /** What it left in its workspace; of a stage without one nothing. */
  readonly takeWorkspace: () => Promise<LeftWorkspace>;
  /** The notices of the VM's door. */
  readonly network: Pick<NetworkFollower, 'listen'>;
  readonly copyBack: () => Promise<OutcomeFailure | null>;
}

export interface Preparation {
  readonly prepare: () => Promise<void>;
  /** False: `prepare` brings it. */
  readonly unpacksWorkspace: boolean;
}
