/** An agent whose command line runs in the VM of its attempt. */
import type { ServiceOutput } from '../attempt/service-output.ts';
import type { AttemptVm } from '../attempt/stage-attempt.ts';
import type { AgentOfStage } from './command.ts';
import type { AgentProgress } from './progress.ts';
import type { AgentAccount } from './shared/account.ts';

export interface DrivenAgent {
  readonly vm: AttemptVm;
  readonly agent: AgentOfStage;
  readonly account: AgentAccount;
  /** Null if the agent is not a service. */
  readonly published: ServiceOutput | null;
  /** Null if the agent's work is not saved. */
  readonly progress: AgentProgress | null;
}
