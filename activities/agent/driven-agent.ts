/** An agent whose command line works in the VM of its attempt. */
import type { ServiceOutput } from '../attempt/service-output.ts';
import type { AttemptVm } from '../attempt/stage-attempt.ts';
import type { AgentOfStage } from './command.ts';
import type { AgentProgress } from './progress.ts';
import type { AgentAccount } from './shared/account.ts';

export interface DrivenAgent {
  readonly vm: AttemptVm;
  readonly agent: AgentOfStage;
  readonly account: AgentAccount;
  /** Null: it is no service. */
  readonly published: ServiceOutput | null;
  /** Null: its work is not saved. */
  readonly progress: AgentProgress | null;
}
