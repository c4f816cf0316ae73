/** What activities are made of; a worker's composition root fills it in. */
import type { HistoryLimit, Placement } from './contract.ts';
import type { AttemptRegistry } from './attempt-registry.ts';
import type { PumpDisk } from './output-pump.ts';
import type { Leases } from './ports/leases.ts';
import type { ArtifactStore } from './ports/artifacts.ts';
import type { EventLog } from './ports/event-log.ts';
import type { WritableMounts } from './ports/mounts.ts';
import type { HostMarks } from './ports/host-marks.ts';
import type { HostVariables } from './ports/host-variables.ts';
import type { RunReader } from './ports/run-reader.ts';
import type { RunRecords } from './ports/run-records.ts';
import type { SandboxBackend } from './ports/sandbox.ts';
import type { Plan, SandboxPlan } from '../domain/plan/plan.ts';
import type { VmPool } from './vm-pool.ts';

export interface ActivityDeps {
  readonly events: EventLog;
  readonly reader: RunReader;
  readonly artifacts: ArtifactStore;
  readonly records: RunRecords;
  readonly marks: HostMarks;
  readonly hostVariables: HostVariables;
  readonly mounts: WritableMounts;
  /** @throws CodedError `host/not-ready` or `host/isolation` when the host can't give what the plan demands */
  readonly backendFor: (sandbox: Pick<SandboxPlan, 'mode' | 'isolation'>) => SandboxBackend;
  readonly leases: Leases;
  /** The disk that events, artifacts and VMs of this host are on. */
  readonly disk: PumpDisk;
  readonly attempts: AttemptRegistry;
  readonly vms: VmPool;
  /** What admission gives the runs that it admits: this host is their owner. */
  readonly placement: Placement;
  /** Names the Temporal server whose runs these are; kept with each run. */
  readonly serverId: string;
  /** Search attributes of ours that the server knows. */
  readonly searchAttributes: readonly string[];
  readonly mountPolicy: MountPolicy;
  /** For servers that allow less than Temporal's defaults; absent is what fits those. */
  readonly historyLimit?: HistoryLimit;
  readonly compileSpec: CompileSpec;
  readonly checkPlan: CheckPlan;
  readonly now: () => number;
}

export interface MountPolicy {
  /** Host folders that any run may mount from. */
  readonly allowedRoots: readonly string[];
  /** True on one's own machine: the folder of the spec, which the client left as a mark of the run, is allowed too. */
  readonly specFolder: boolean;
}

/** Compiles a spec's text. Exactly one of the two is set; problems are readable lines with positions. */
export type CompileSpec = (
  text: string,
  options: { readonly baseDir: string; readonly params: Readonly<Record<string, string>> },
) => Checked;
/** Checks a plan that a client compiled. */
export type CheckPlan = (plan: unknown) => Checked;
export type Checked = { readonly plan: Plan } | { readonly problems: readonly string[] };
