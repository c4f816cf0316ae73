/** Chooses the checkpoint with which a VM begins that replaces a lost one, or whose scope has given stages. */
import { isCodedError } from '../../domain/errors/coded-error.ts';
import { isLostVm } from '../../domain/errors/error-code.ts';
import { formatAttempt } from '../../domain/run/attempt.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import { formatInstance } from '../../domain/run/instance.ts';
import type { HeldAttempt } from '../../domain/run/vm-lease.ts';
import { formatVmKey } from '../../domain/run/vm-key.ts';
import type { ActivityDeps } from '../deps.ts';
import type { LaunchSpec, Sandbox, SandboxBackend, VmKey } from '../ports/sandbox.ts';
import { isTakenOver, type StepCheckpoint } from '../../domain/run/step-checkpoint.ts';
import { readResult } from '../attempt/record.ts';
import { markHeldAttempts, readHeldAttempts } from './save-step.ts';

/** The disk with which a VM begins. */
export interface VmStart {
  /** Null: an empty disk. */
  readonly checkpoint: { readonly number: number; readonly dir: string; readonly after: string } | null;
  readonly holds: readonly HeldAttempt[];
  /** The reason for an empty disk, or the checkpoints that were not used. */
  readonly note: string | null;
}

type Deps = Pick<ActivityDeps, 'checkpoints' | 'events' | 'marks'>;

interface StartMark extends VmStart {
  readonly v: 1;
}

function nameStart({ scope, instance, generation }: VmKey): string {
  return `vm-start-${scope}/${instance.length === 0 ? '' : `${formatInstance(instance)}/`}${generation}`;
}

/** The choice is kept before the launch: another try of the activity finds the VM, and must answer with the same. */
async function keepStart(deps: Deps, key: VmKey, start: VmStart): Promise<VmStart> {
  await deps.marks.putOfVm(key.runId, nameStart(key), { v: 1, ...start } satisfies StartMark);
  return start;
}

/**
 * Chooses the newest checkpoint that continues the lost VM and whose attempts all have recorded results. The checkpoint
 * that admission took over from an earlier run continues no VM of this run.
 */
export async function chooseStart(deps: Deps, key: VmKey): Promise<VmStart> {
  const earlier = (await deps.marks.getOfVm(key.runId, nameStart(key))) as StartMark | null | undefined;
  return earlier ?? (await chooseAmong(deps, key, []));
}

/** @param before  why checkpoints of the scope were deleted since the loss */
async function chooseAmong(deps: Deps, key: VmKey, before: readonly string[]): Promise<VmStart> {
  const { checkpoints } = deps;
  if (checkpoints === undefined) return await keepStart(deps, key, makeEmptyStart('this worker keeps no checkpoints'));
  const { whole, problems } = await checkpoints.list(key);
  const notes = [...before, ...problems];
  const usable: (StepCheckpoint & { readonly dir: string })[] = [];
  for (const each of whole) {
    if (!isTakenOver(each) && !each.generations.includes(key.generation - 1)) continue;
    const open = await findUnrecorded(deps, key, each.holds);
    if (open === null) usable.push(each);
    else notes.push(`the checkpoint after ${each.after} holds ${open}, whose result was not recorded`);
  }
  const [newest] = usable;
  if (newest === undefined) {
    const why = key.generation === 0 ? 'no checkpoint of the earlier run is' : 'the lost VM has no checkpoint';
    const start = makeEmptyStart(notes.length === 0 ? `${why} on this host` : notes.join('; '));
    await keepStart(deps, key, start);
    await checkpoints.dropScope(key);
    return start;
  }
  // The older ones are of the same disk: if no VM starts with the newest, the next VM may begin with them.
  for (const { dir: _dir, ...each } of usable)
    await checkpoints.update(key, { ...each, generations: [...new Set([...each.generations, key.generation])] });
  const { number, dir, after, holds } = newest;
  const note = notes.length === 0 ? null : notes.join('; ');
  return await keepStart(deps, key, { checkpoint: { number, dir, after }, holds, note });
}

function makeEmptyStart(note: string): VmStart {
  return { checkpoint: null, holds: [], note };
}

/** Returns an attempt without a result; null: all have one. */
async function findUnrecorded(
  { events }: Pick<Deps, 'events'>,
  { runId, instance }: VmKey,
  holds: readonly HeldAttempt[],
): Promise<string | null> {
  for (const { stage, attempt } of holds.toReversed()) {
    const recorded =
      attempt === 0
        ? await events.find(runId, EVENT_ID.given(stage))
        : await readResult(events, runId, formatAttempt({ stage, instance, attempt }));
    if (recorded === null) return stage;
  }
  return null;
}

export interface StartedVm {
  readonly sandbox: Sandbox;
  readonly start: VmStart;
}

/**
 * Launches the VM with the chosen disk. A checkpoint that does not fit is deleted, and the VM begins with the one before.
 * A checkpoint with which no VM starts is deleted, and the next VM begins with the one before.
 */
export async function launchWith(
  deps: Deps,
  { backend, key, spec, signal }: LaunchOf,
  start: VmStart,
  isFirst = true,
): Promise<StartedVm> {
  const { checkpoint, holds } = start;
  if (checkpoint === null) return { sandbox: await backend.launch(key, spec, signal), start };
  try {
    const sandbox = await backend.launch(key, { ...spec, from: checkpoint.dir }, signal);
    // After a reset of the run, the VM may hold later attempts too.
    if ((await readHeldAttempts(deps.marks, key, sandbox.facts)).length === 0)
      await markHeldAttempts(deps.marks, key, sandbox.facts, holds);
    return { sandbox, start };
  } catch (error) {
    if (!isCodedError(error)) throw error;
    if (error.code === 'vm/checkpoint-unfit') {
      await deps.checkpoints?.delete(key, checkpoint.number);
      const next = await chooseAmong(deps, key, [error.message]);
      return await launchWith(deps, { backend, key, spec, signal }, next, false);
    }
    // A VM that was ready has its loss from something else, and a launch that did not fit may have used the key up.
    const ready = EVENT_ID.vm(formatVmKey(key), 'ready');
    if (isFirst && isLostVm(error.code) && (await deps.events.find(key.runId, ready)) === null)
      await deps.checkpoints?.delete(key, checkpoint.number);
    throw error;
  }
}

export interface LaunchOf {
  readonly backend: SandboxBackend;
  readonly key: VmKey;
  readonly spec: LaunchSpec;
  readonly signal: AbortSignal;
}
