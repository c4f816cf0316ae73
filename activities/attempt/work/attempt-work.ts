/** The interfaces that each kind of work implements. `kinds.ts` lists the kinds. */
import type { StageResult } from '../../../domain/run/stage-result.ts';
import type { VmStage } from '../../calls/requests.ts';
import type { Exec } from '../../ports/sandbox.ts';
import type { StageEnvironment } from '../host-variables.ts';
import type { Attempt, AttemptVm } from '../stage-attempt.ts';

export interface WorkEnd {
  readonly result: StageResult;
  /** The ended commands of the attempt in its VM. */
  readonly execs: readonly Exec[];
}

/**
 * The work of one attempt in its VM. A worker that takes the attempt over calls each method again, so each method must
 * find its earlier results by key.
 */
export interface AttemptWork<Prepared, Ran> {
  /** Records that the attempt begins, and puts the files of the work into the VM. */
  prepare(vm: AttemptVm): Promise<Prepared>;
  /** Does the work until its last command has ended. A cancel request ends the command. */
  run(vm: AttemptVm, prepared: Prepared): Promise<Ran>;
  /** Makes the result. Outputs, the workspace and writable mounts are durable when the promise resolves. */
  collect(vm: AttemptVm, ran: Ran): Promise<WorkEnd>;
}

/** A kind of work, by its part of the plan. */
export interface WorkKind<Work extends VmStage['work']> {
  /**
   * Opens the work before the attempt has a VM.
   * @throws StartFailure if the work cannot start, CodedError if it cannot start on this host now
   */
  open(attempt: Attempt, environment: StageEnvironment, work: Work): Promise<AttemptWork<unknown, unknown>>;
  /**
   * Ends the resources of the attempt outside of its VM, which another attempt does not use. Absent: there are no such
   * resources.
   */
  abandon?(attempt: Pick<Attempt, 'deps' | 'request' | 'life'>): Promise<void>;
}

export async function performWork<Prepared, Ran>(work: AttemptWork<Prepared, Ran>, vm: AttemptVm): Promise<WorkEnd> {
  const prepared = await work.prepare(vm);
  const ran = await work.run(vm, prepared);
  return await work.collect(vm, ran);
}
