/** Finds the VMs that a command line means: VMs that failed stages of a run left for inspection. */
import { listRetainedVms, type RetainedVmHere } from '../../client/vms/retained-vms.ts';
import { stageOfRetained } from '../../domain/run/retained-vm.ts';
import { resolveStackPieces } from '../../setup/resolve.ts';
import { createUsageError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import { findRunHere } from './run-elsewhere.ts';
import { quoteRunId } from '../../domain/run/run-id.ts';
import { formatRunId, quoteStageName } from './run-id.ts';

export function keeperOf({ env }: Pick<Machine, 'env'>): () => Promise<string> {
  return async () => (await resolveStackPieces(env, { install: false })).keeper;
}

export interface RetainedOfRun {
  readonly runId: string;
  /** At least one, oldest first. */
  readonly vms: readonly [LabelledVm, ...LabelledVm[]];
}

export interface LabelledVm extends RetainedVmHere {
  /** The stage or item that left it. */
  readonly label: string;
}

/** Lists the VMs of a run; the list may be empty. @throws AppError if there is no such run */
export async function listRetainedOf(
  command: 'exec' | 'release',
  text: string,
  context: Machine,
): Promise<{ readonly runId: string; readonly all: readonly LabelledVm[] }> {
  const vms = await listRetainedVms(context.env.stateDir, keeperOf(context));
  // `prune` may have removed the run itself.
  const runId = vms.some((vm) => vm.runId === text) ? text : await findRunHere(command, text, context);
  return { runId, all: vms.filter((vm) => vm.runId === runId).map((vm) => ({ ...vm, label: nameOf(vm) })) };
}

/**
 * @param stage  the stage or item whose VM to find; undefined: all VMs of the run.
 * @throws AppError if there is no such VM
 */
export async function findRetained(
  command: 'exec' | 'release',
  text: string,
  stage: string | undefined,
  context: Machine,
): Promise<RetainedOfRun> {
  const { runId, all } = await listRetainedOf(command, text, context);
  return { runId, vms: chooseRetained(runId, all, stage) };
}

/**
 * Chooses the VMs of one stage or item, or all of them.
 * @param ofRun  the VMs of the run
 * @throws AppError if no VM was left
 */
export function chooseRetained<T extends { readonly label: string }>(
  runId: string,
  ofRun: readonly T[],
  stage: string | undefined,
): readonly [T, ...T[]] {
  const [first, ...others] = stage === undefined ? ofRun : ofRun.filter(({ label }) => label === stage);
  if (first !== undefined) return [first, ...others];
  if (ofRun.length > 0)
    throw createUsageError(
      `the stage \`${stage}\` of run ${formatRunId(runId)} kept no VM`,
      `Stages that have: ${ofRun.map(({ label }) => label).join(', ')}`,
    );
  throw createUsageError(
    `run ${formatRunId(runId)} has no VM that a failed stage kept`,
    'Set `keep: on-failure` in `sandbox` to keep VMs of failed stages. Voidbox ends them after `keep_secs`, or earlier if a new VM needs their memory. List all VMs: voidbox ps',
  );
}

export function nameOf({ retention }: RetainedVmHere): string {
  return stageOfRetained(retention);
}

/** @throws AppError if the run has several VMs */
export function theOnly({ runId, vms }: RetainedOfRun): RetainedVmHere {
  if (vms.length === 1) return vms[0];
  throw createUsageError(
    `${vms.length} stages of run ${formatRunId(runId)} kept a VM: name one of them`,
    vms.map((vm) => `voidbox exec ${quoteRunId(runId)} ${quoteStageName(nameOf(vm))} -- COMMAND`).join('\n'),
  );
}
