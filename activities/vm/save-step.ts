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
 * that was cancelled or whose step the condition passed. While another step runs in the VM, nothing is saved: the last
 * of them saves the work of all.
 * @throws CodedError if the VM is lost, or the attempt was overtaken
 */
export async function saveAfterStep(vm: AttemptVm, { outcome }: Pick<StageResult, 'outcome'>): Promise<void> {
  const { deps, request, life, sandbox, vmKey } = vm;
  const { checkpoints, marks } = deps;
  if (!isSavedEachStep(request.scope) || checkpoints === undefined) return;
  if (outcome !== 'succeeded' && outcome !== 'failed') return;
  life.phase('saving the disk');
  await deps.vms.exclusively(`checkpoint/${formatVmKey(vmKey)}`, life.detached, async () => {
    const held = await readHeldAttempts(marks, vmKey, sandbox.facts);
    const own = { stage: request.stage.id, attempt: request.attempt };
    // A worker that takes the attempt over finds it saved.
    if (held.some((each) => isSame(each, own))) return;
    const holds = [...held, own];
    const other = await findOtherCommand(sandbox, holds);
    if (other === null) await tryToSave(vm, checkpoints, holds);
    else if (parseExecKey(other) === null) await writeFailure(vm, `the command ${other} of a person runs in the VM`);
    await markHeldAttempts(marks, vmKey, sandbox.facts, holds);
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

async function tryToSave(vm: AttemptVm, checkpoints: StepCheckpoints, holds: readonly HeldAttempt[]): Promise<void> {
  try {
    const body = await save(vm, checkpoints, holds);
    if (body !== null) await appendEvent(vm, 'checkpoint', body);
  } catch (error) {
    vm.life.detached.throwIfAborted();
    if (!isCodedError(error) || error.code === 'fence/stale' || (endsVm(error.code) && error.code !== 'host/disk-full'))
      throw error;
    // A command has started, whose step saves the disk at its end.
    if (error.code !== 'vm/busy') await writeFailure(vm, error.message);
  }
}

async function save(
  vm: AttemptVm,
  checkpoints: StepCheckpoints,
  holds: readonly HeldAttempt[],
): Promise<RunEventBody | null> {
  const { request, vmKey, sandbox, life, deps } = vm;
  const obstacle = checkpoints.findObstacle((await sandbox.usage()).diskBytes);
  if (obstacle !== null) {
    await writeFailure(vm, obstacle);
    return null;
  }
  const { number, dir } = await checkpoints.prepare(vmKey);
  const beganAtMs = deps.now();
  const { id, usedBytes } = await sandbox.checkpoint(
    {
      dir,
      withSecrets: request.hostVariables.length > 0 || vm.inputs.credentials.length > 0,
      madeBy: { run: request.runId, stage: request.stage.id },
    },
    life.detached,
  );
  // A command that began during the copy may have left half of its work in it.
  if ((await findOtherCommand(sandbox, holds)) !== null) {
    await checkpoints.delete(vmKey, number);
    return null;
  }
  const after = request.stage.id;
  await checkpoints.keep(vmKey, { number, id, usedBytes, after, generations: [vmKey.generation], holds });
  return { type: 'checkpoint-made', ...describeSave(vm), checkpoint: id, usedBytes, tookMs: deps.now() - beganAtMs };
}

function describeSave({ request, vmKey }: AttemptVm) {
  const { scope, generation } = vmKey;
  return { vmKey: formatVmKey(vmKey), scope, generation, stage: request.stage.id, execKey: request.execKey };
}

async function writeFailure(vm: AttemptVm, reason: string): Promise<void> {
  await appendEvent(vm, 'no-checkpoint', {
    type: 'checkpoint-failed',
    ...describeSave(vm),
    reason: sanitizeLine(vm.redactor.text(reason)),
  });
}

async function appendEvent(vm: AttemptVm, what: 'checkpoint' | 'no-checkpoint', body: RunEventBody): Promise<void> {
  const { deps, request, sandbox } = vm;
  const writer = { execKey: request.execKey, fence: sandbox.facts.fence };
  await deps.events.append(request.runId, [attemptEvent(vm, EVENT_ID.attempt(request.execKey, what), body)], writer);
}
