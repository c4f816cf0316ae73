/**
 * The requests that activities work with. `read-requests.ts` builds them from the arguments of calls and the records of
 * admission.
 */
import type {
  AgentWork,
  BudgetPlan,
  CommandWork,
  ScopePlan,
  StepMachineWork,
  StagePlan,
} from '../../domain/plan/plan.ts';
import type { ContinuedAgent } from '../../domain/run/agent-saves.ts';
import type { NewRunEvent } from '../../domain/run/event.ts';
import type { InstancePath } from '../../domain/run/instance.ts';
import type { VmLease } from '../../domain/run/vm-lease.ts';
import type { InlineOrRef, UpstreamOutputs } from '../contract.ts';
import type { LaunchSpec } from '../ports/sandbox.ts';

/** A scope with its mounts resolved on this host. */
export interface AdmittedScope extends Omit<ScopePlan, 'sandbox'> {
  readonly sandbox: LaunchSpec;
}

export interface ScopeRequest {
  readonly runId: string;
  readonly scope: AdmittedScope;
  /** The number of lost VMs of the scope: the run machine raises it after each loss. */
  readonly generation: number;
  /** The item that owns the VM; empty: the run itself. */
  readonly instance: InstancePath;
  /** As in a `ScopeCall`. */
  readonly resumes?: true;
}

/** A stage that runs commands in a VM, its own or the commands of an agent. */
export interface VmStage extends StagePlan {
  readonly work: CommandWork | AgentWork | StepMachineWork;
}

export interface StageItem {
  /** The position in the list, from 0. */
  readonly index: number;
  /** The item as JSON. */
  readonly text: string;
}

export interface StageRequest extends ScopeRequest {
  readonly stage: VmStage;
  /** Null if this stage's activity owns the VM, because the scope is not shared. */
  readonly lease: VmLease | null;
  /** The item that the command runs for; null for a stage without items. */
  readonly item: StageItem | null;
  /** The key of the attempt's first command: the same key never runs twice. */
  readonly execKey: string;
  readonly attempt: number;
  readonly input: InlineOrRef | null;
  /** The outputs of finished stages that this stage uses, by stage id: for stdin, input and inputs. */
  readonly upstream: Readonly<Record<string, UpstreamOutputs>>;
  /**
   * Names of the host variables that any stage of the run reads, because a stage may print the value of another stage.
   */
  readonly hostVariables: readonly string[];
  /** The budget of all agents of the run together; absent: no limit. */
  readonly runBudget?: BudgetPlan | undefined;
  /** The save of an earlier run from which the agent continues; absent: the agent does not continue a save. */
  readonly continued?: ContinuedAgent | undefined;
  /** Events of the workflow that no activity has written yet. */
  readonly events: readonly NewRunEvent[];
}
