/**
 * Saves the disk of a shared VM after a step, before the result of the step is recorded. A checkpoint that cannot be
 * made is an event, and never fails the step.
 */
import { isCodedError } from '../../domain/errors/coded-error.ts';
import { endsVm } from '../../domain/errors/error-code.ts';
import { isSavedEachStep } from '../../domain/plan/scope.ts';
import { parseExecKey } from '../../domain/run/attempt.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { RunEventBody } from '../../domain/run/event.ts';
import { formatInstance } from '../../domain/run/instance.ts';
import type { StageResult } from '../../domain/run/stage-result.ts';
import type { HeldAttempt } from '../../domain/run/vm-lease.ts';
import { formatVmKey } from '../../domain/run/vm-key.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import type { HostMarks } from '../ports/host-marks.ts';
import type { Sandbox, SandboxFacts, VmKey } from '../ports/sandbox.ts';
import type { StepCheckpoints } from '../ports/step-checkpoints.ts';
import { type AttemptVm, attemptEvent } from '../attempt/stage-attempt.ts';

interface HeldMark {
  readonly v: 1;
  readonly vmLife: string;
  readonly holds: readonly HeldAttempt[];
}

function nameHeldMark({ scope, instance, generation }: VmKey): string {
  return `vm-held-${scope}/${instance.length === 0 ? '' : `${formatInstance(instance)}/`}${generation}`;
}

/** Returns the attempts whose work the VM's disk holds, in the order of their ends. */
export async function readHeldAttempts(
  marks: HostMarks,
  key: VmKey,
  facts: Pick<SandboxFacts, 'vmLife'>,
): Promise<readonly HeldAttempt[]> {
  const mark = (await marks.getOfVm(key.runId, nameHeldMark(key))) as HeldMark | null | undefined;
  // A key can be launched again after the host has forgotten the end of its VM.
  return mark?.vmLife === facts.vmLife ? mark.holds : [];
}

export function markHeldAttempts(
  marks: HostMarks,
  key: VmKey,
  { vmLife }: Pick<SandboxFacts, 'vmLife'>,
  holds: readonly HeldAttempt[],
): Promise<void> {
  return marks.putOfVm(key.runId, nameHeldMark(key), { v: 1, vmLife, holds } satisfies HeldMark);
}

/**
 * Saves the disk, and notes that it holds the attempt. It does nothing for a VM that is not shared, and for an attempt
 * whose step the condition passed. A cancelled attempt is only noted: no later run begins with half of its work. While
 * another step runs in the VM, nothing is saved: the last of them saves the work of all.
 * @throws CodedError if the VM is lost, or the attempt was overtaken
 */
export async function saveAfterStep(vm: AttemptVm, { outcome }: Pick<StageResult, 'outcome'>): Promise<void> {
  const { deps, request, life, sandbox, vmKey } = vm;
  const { checkpoints, marks } = deps;
  if (!isSavedEachStep(request.scope) || checkpoints === undefined) return;
  if (outcome === 'passed') return;
  const isCancelled = outcome === 'cancelled' || life.cancelRequested.aborted;
  life.phase('saving the disk');
  await deps.vms.exclusively(`checkpoint/${formatVmKey(vmKey)}`, life.detached, async () => {
    const held = await readHeldAttempts(marks, vmKey, sandbox.facts);
    const own = { stage: request.stage.id, attempt: request.attempt };
    // A worker that takes the attempt over finds it saved.
    if (held.some((each) => isSame(each, own))) return;
    const holds = [...held, own];
    const event = isCancelled ? null : await tryToSave(vm, checkpoints, holds);
    await Promise.all([
      markHeldAttempts(marks, vmKey, sandbox.facts, holds),
      event === null ? undefined : appendEvent(vm, event),
    ]);
  });
}

function isSame(one: HeldAttempt, other: HeldAttempt): boolean {
  return one.stage === other.stage && one.attempt === other.attempt;
}

/** Returns a command that runs, or whose attempt has not ended; null: there is no such command. */
async function findOtherCommand(sandbox: Sandbox, holds: readonly HeldAttempt[]): Promise<string | null> {
  const execs = await sandbox.execs();
  const other = execs.find(({ key, isRunning }) => {
    if (isRunning) return true;
    const name = parseExecKey(key);
    return name !== null && !holds.some((each) => isSame(each, name));
  });
  return other?.key ?? null;
}

/** Returns the event about it; null: another step runs in the VM. */
async function tryToSave(
  vm: AttemptVm,
  checkpoints: StepCheckpoints,
  holds: readonly HeldAttempt[],
): Promise<SaveEvent | null> {
  try {
    return await save(vm, checkpoints, holds);
  } catch (error) {
    vm.life.detached.throwIfAborted();
    if (!isCodedError(error) || error.code === 'fence/stale' || (endsVm(error.code) && error.code !== 'host/disk-full'))
      throw error;
    if (error.code !== 'vm/busy') return describeFailure(vm, error.message);
    // A step saves the disk at its end.
    const other = await findOtherCommand(vm.sandbox, holds);
    return other !== null && parseExecKey(other) === null
      ? describeFailure(vm, `the command ${other} of a person runs in the VM`)
      : null;
  }
}

async function save(
  vm: AttemptVm,
  checkpoints: StepCheckpoints,
  holds: readonly HeldAttempt[],
): Promise<SaveEvent | null> {
  const { request, vmKey, sandbox, life, deps } = vm;
  const [{ diskBytes }, { number, dir }] = await Promise.all([sandbox.usage(), checkpoints.prepare(vmKey)]);
  const obstacle = checkpoints.findObstacle(diskBytes);
  if (obstacle !== null) return describeFailure(vm, obstacle);
  const beganAtMs = deps.now();
  const { id, usedBytes } = await sandbox.checkpoint(
    {
      dir,
      withSecrets: request.hostVariables.length > 0 || vm.inputs.credentials.length > 0,
      madeBy: { run: request.runId, stage: request.stage.id },
    },
    life.detached,
  );
  const tookMs = deps.now() - beganAtMs;
  // The disk may hold half of the work of a command that began before or during the copy.
  if ((await findOtherCommand(sandbox, holds)) !== null) {
    await checkpoints.delete(vmKey, number);
    return null;
  }
  const after = request.stage.id;
  await checkpoints.keep(vmKey, { number, id, usedBytes, after, generations: [vmKey.generation], holds });
  return { type: 'checkpoint-made', ...describeSave(vm), checkpoint: id, usedBytes, tookMs };
}

type SaveEvent = Extract<RunEventBody, { type: 'checkpoint-made' | 'checkpoint-failed' }>;

function describeSave({ request, vmKey }: AttemptVm) {
  const { scope, generation } = vmKey;
  return { vmKey: formatVmKey(vmKey), scope, generation, stage: request.stage.id, execKey: request.execKey };
}

function describeFailure(vm: AttemptVm, reason: string): SaveEvent {
  return { type: 'checkpoint-failed', ...describeSave(vm), reason: sanitizeLine(vm.redactor.text(reason)) };
}

async function appendEvent(vm: AttemptVm, body: SaveEvent): Promise<void> {
  const { deps, request, sandbox } = vm;
  const { execKey } = request;
  const id = EVENT_ID.attempt(execKey, body.type === 'checkpoint-made' ? 'checkpoint' : 'no-checkpoint');
  await deps.events.append(request.runId, [attemptEvent(vm, id, body)], { execKey, fence: sandbox.facts.fence });
}
