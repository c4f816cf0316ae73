/** The dependencies of activities; a worker's composition root provides them. */
import type { HistoryLimit, Placement } from './contract.ts';
import type { AttemptRegistry } from './attempt/registry.ts';
import type { PumpDisk } from './ports/pump-disk.ts';
import type { IsPortClosed } from './ports/model-servers.ts';
import type { Leases } from './ports/leases.ts';
import type { ArtifactStore } from './ports/artifacts.ts';
import type { EvaluateCondition, EvaluateTexts } from './ports/conditions.ts';
import type { CheckOutput } from './ports/output-check.ts';
import type { EventLog } from './ports/event-log.ts';
import type { WritableMounts } from './ports/mounts.ts';
import type { HostMarks } from './ports/host-marks.ts';
import type { HostVariables } from './ports/host-variables.ts';
import type { LentVariables } from './ports/lent-variables.ts';
import type { FetchAgentSkill } from './ports/remote-skills.ts';
import type { PreparedSandboxes } from './ports/prepared-sandboxes.ts';
import type { Repositories } from './ports/repositories.ts';
import type { RetainedVms } from './ports/retained-vms.ts';
import type { RunReader } from './ports/run-reader.ts';
import type { RunRecords } from './ports/run-records.ts';
import type { SandboxBackend } from './ports/sandbox.ts';
import type { Starters } from './ports/starters.ts';
import type { StepCheckpoints } from './ports/step-checkpoints.ts';
import type { StageSessions } from './ports/stage-sessions.ts';
import type { Plan, SandboxPlan } from '../domain/plan/plan.ts';
import type { VmPool } from './vm/pool.ts';
import type { ServicePolicy } from './admission/service-policy.ts';

export interface ActivityDeps {
  readonly events: EventLog;
  readonly reader: RunReader;
  readonly artifacts: ArtifactStore;
  readonly records: RunRecords;
  readonly marks: HostMarks;
  readonly hostVariables: HostVariables;
  readonly lentVariables: LentVariables;
  /** Absent: this worker has no prepared sandboxes. */
  readonly prepared?: PreparedSandboxes;
  readonly mounts: WritableMounts;
  readonly repositories: Repositories;
  /** Absent: this worker saves no disks of shared VMs. */
  readonly checkpoints?: StepCheckpoints;
  /** @throws CodedError `host/not-ready` or `host/isolation` when the host can't give what the plan demands */
  readonly backendFor: (sandbox: Pick<SandboxPlan, 'mode' | 'isolation'>) => SandboxBackend;
  readonly leases: Leases;
  /** The disk that holds the events, artifacts and VMs of this host. */
  readonly disk: PumpDisk;
  readonly attempts: AttemptRegistry;
  readonly vms: VmPool;
  /** The placement of the runs that this host admits and owns. */
  readonly placement: Placement;
  /** Names the Temporal server of these runs. The records of each run contain it. */
  readonly serverId: string;
  /** Voidbox's search attributes that are registered on the server. */
  readonly searchAttributes: readonly string[];
  readonly mountPolicy: MountPolicy;
  readonly starters: Starters;
  /** Absent: this worker allows no services. */
  readonly servicePolicy?: ServicePolicy;
  /** True if runs may keep VMs of failed stages for inspection; absent: they may not. */
  readonly allowsRetention?: boolean;
  /** Absent: this worker keeps no VMs of failed stages. */
  readonly retainedVms?: RetainedVms;
  /** Absent: this worker fetches no skills. */
  readonly fetchSkill?: FetchAgentSkill;
  /** Absent: the worker does not probe model servers before a VM boots. */
  readonly isPortClosed?: IsPortClosed;
  /** For servers whose limits are lower than Temporal's defaults. Absent: the limit for those defaults. */
  readonly historyLimit?: HistoryLimit;
  /** Absent: this worker has no skills. */
  readonly stageSessions?: StageSessions;
  readonly evaluate: EvaluateCondition;
  readonly evaluateTexts: EvaluateTexts;
  readonly checkOutput: CheckOutput;
  readonly parentOf: ParentOf;
  readonly compileSpec: CompileSpec;
  readonly checkPlan: CheckPlan;
  readonly now: () => number;
}

export interface ParentExecution {
  readonly workflowId: string;
  readonly executionId: string;
}

/** Returns the execution that started this one as its child, from the server; null: no execution did. */
export type ParentOf = (workflowId: string, executionId: string) => Promise<ParentExecution | null>;

export interface MountPolicy {
  /** Host folders that runs may mount from. */
  readonly allowedRoots: readonly string[];
  /**
   * Repositories of the network, as HOST/PATH. Runs of any client may fetch them with the credentials of the worker's
   * user. Absent: no repositories.
   */
  readonly allowedGit?: readonly string[];
}

/** Compiles a spec's text. The result has exactly one of its two fields; problems are readable lines with positions. */
export type CompileSpec = (
  text: string,
  options: { readonly baseDir: string; readonly params: Readonly<Record<string, string>> },
) => PlanCheck;
/** Checks a plan that a client compiled. */
export type CheckPlan = (plan: unknown) => PlanCheck;
export type PlanCheck = { readonly plan: Plan } | { readonly problems: readonly string[] };
