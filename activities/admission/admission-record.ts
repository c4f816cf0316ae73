/** The records that a host keeps of a run that it admitted. */
import type { RunTrigger } from '../../domain/run/run-trigger.ts';
import type { UploadHashes } from '../../domain/plan/name-uploads.ts';
import type { PlanWire } from '../../domain/plan/wire.ts';
import type { ChangedLimits } from '../../domain/plan-rules/agent-limits.ts';
import type { ContinuedAgent } from '../../domain/run/agent-saves.ts';
import type { Admission } from '../contract.ts';
import type { FetchedAgentSkill } from './remote-skills.ts';

/** Record `admission`: a second admission of the same execution returns it. */
export interface AdmissionRecord extends Omit<Admission, 'searchAttributes' | 'machine' | 'deployment'> {
  readonly plan: PlanWire;
  readonly serverId: string;
  /** The execution that was admitted. It stays the same after a reset. */
  readonly executionId: string;
  /** The start of the run's workflow, in milliseconds since the epoch; absent: the workflow did not report it. */
  readonly startedAtMs?: number;
  /** The resolved folder at admission, by host path of the plan. */
  readonly mounts: Readonly<Record<string, string>>;
  /** The uploads of the start, and of the run that it retries, by their folders; absent: none. */
  readonly uploads?: UploadHashes;
  /** The folder of each prepared sandbox at admission, by its text in the plan; absent: the plan names none. */
  readonly prepared?: Readonly<Record<string, string>>;
  /** Why no checkpoint of the earlier run is used, by scope whose given stages run again for that; absent: no such scope. */
  readonly unsaved?: Readonly<Record<string, string>>;
  /** Skills whose texts the plan contains; absent: no such skill. */
  readonly fetchedSkills?: readonly FetchedAgentSkill[];
  /** The saves that agents of a retry with `continue` resume, by series of attempts (`seriesOf`). Absent: no save. */
  readonly continued?: Readonly<Record<string, ContinuedAgent>>;
  /** Limits that a retry with `continue` changed, in this run or an earlier run of its chain. Absent: no changes. */
  readonly limits?: ChangedLimits;
  /** The delivery of a deployment that started the run; absent: no delivery did. */
  readonly trigger?: RunTrigger;
  /** The hash of the key of the start on this host whose request this run has; absent: it proved no start. */
  readonly provenKey?: string;
  /** For a run of one command: the activity that drives it. No workflow has the run's id. */
  readonly command?: CommandCaller;
}

/** A call of `runCommand`. */
export interface CommandCaller {
  readonly workflowId: string;
  /** The run id of the workflow's execution. */
  readonly runId: string;
  readonly activityId: string;
}
