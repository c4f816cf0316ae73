/** What activities work with: made in `read-requests.ts` of what they were called with and what was admitted. */
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

/** A scope with its mounts on this host. */
export interface AdmittedScope extends Omit<ScopePlan, 'sandbox'> {
  readonly sandbox: LaunchSpec;
}

export interface ScopeRequest {
  readonly runId: string;
  readonly scope: AdmittedScope;
  /** Raised by the run machine each time that the scope's VM is lost. */
  readonly generation: number;
  /** Of the item whose VM it is; empty: of the run itself. */
  readonly instance: InstancePath;
}

/** A stage that runs a command, its own or those of an agent. */
export interface VmStage extends StagePlan {
  readonly work: CommandWork | AgentWork | StepMachineWork;
}

export interface StageItem {
  /** From 0. */
  readonly index: number;
  /** The item as JSON. */
  readonly text: string;
}

export interface StageRequest extends ScopeRequest {
  readonly stage: VmStage;
  /** Null: this stage's activity owns the VM, whose scope is not shared. */
  readonly lease: VmLease | null;
  /** What the command is done for, of a stage with items. */
  readonly item: StageItem | null;
  /** Of the attempt's first command: the same key never runs twice. */
  readonly execKey: string;
  readonly attempt: number;
  readonly input: InlineOrRef | null;
  /** Finished stages whose outputs this one takes, by id: stdin, input, inputs. */
  readonly upstream: Readonly<Record<string, UpstreamOutputs>>;
  /** Names of the host variables that stages of the run read: what one prints may have been another's. */
  readonly hostVariables: readonly string[];
  /** What all agents of the run together may take; absent: as much as they like. */
  readonly runBudget?: BudgetPlan | undefined;
  /** The save of an earlier run that its agent continues from; absent: the agent does not continue one. */
  readonly continued?: ContinuedAgent | undefined;
  /** Events of the workflow that no activity has written yet. */
  readonly events: readonly NewRunEvent[];
}
