/**
 * Retains the VM of a failed stage for inspection, if its plan requests it and the worker allows it. From then on, its
 * keeper ends the VM at its time. A VM that waits for room ends a retained VM earlier.
 */
import { CodedError, isCodedError } from '../../domain/errors/coded-error.ts';
import { endsVm } from '../../domain/errors/error-code.ts';
import { RETENTION, type SandboxPlan } from '../../domain/plan/plan.ts';
import { isWorthRetrying } from '../../domain/plan/retry.ts';
import { formatAttempt, parseExecKey } from '../../domain/run/attempt.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import { describeSharedVm, describeRetainedVm, stageOfRetained } from '../../domain/run/retained-vm.ts';
import { formatInstance } from '../../domain/run/instance.ts';
import type { StageResult } from '../../domain/run/stage-result.ts';
import { formatVmKey } from '../../domain/run/vm-key.ts';
import { quoteRunId } from '../../domain/run/run-id.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import type { ActivityDeps } from '../deps.ts';
import type { Sandbox, VmKey } from '../ports/sandbox.ts';
import type { ScopeRequest, StageRequest } from '../calls/requests.ts';
import { readResult } from '../attempt/record.ts';

/** @throws CodedError `admit/keep-refused` */
export function refuseRetention(
  scopes: readonly { readonly id: string; readonly sandbox: Pick<SandboxPlan, 'keepOnFailureMs'> }[],
  allowed: boolean | undefined,
): void {
  if (allowed === true) return;
  for (const { id, sandbox } of scopes)
    if (sandbox.keepOnFailureMs !== undefined)
      throw new CodedError(
        'admit/keep-refused',
        `\`keep: on-failure\` of scope ${id} is refused: this worker does not allow runs to keep VMs of failed stages`,
      );
}

type Deps = Pick<
  ActivityDeps,
  'allowsRetention' | 'events' | 'leases' | 'marks' | 'now' | 'retainedVms' | 'vms' | 'backendFor'
>;

interface RetainContext {
  readonly deps: Deps;
  readonly request: StageRequest;
  readonly vmKey: VmKey;
}

/** Returns true if no further attempt of the stage follows by its author's `retry`. */
async function isFinal({ deps, request }: RetainContext, { failure, command }: StageResult): Promise<boolean> {
  const { retry } = request.stage;
  if (failure === null || !isWorthRetrying(retry, failure, command?.exitCode ?? null)) return true;
  const name = parseExecKey(request.execKey);
  let failures = 1;
  // Attempts whose VM was lost have no result. They do not count, as in the run machine.
  for (let attempt = (name?.attempt ?? 1) - 1; attempt >= 1 && failures < retry.maxAttempts; attempt -= 1) {
    const earlier = await readResult(deps.events, request.runId, formatAttempt({ ...name!, attempt }));
    // In a loop, this attempt belongs to the previous visit.
    if (earlier !== null && earlier.outcome !== 'failed') break;
    if (earlier !== null) failures += 1;
  }
  return failures >= retry.maxAttempts;
}

/** The result of a stage, with a note in its failure if its VM is or will be retained. */
export interface LeftVm {
  readonly result: StageResult;
  /** True if the VM lives on, so that the attempt must not stop it. */
  readonly isRetained: boolean;
}

/**
 * Decides about the VM of a stage that has just ended. A shared VM is only marked; it is retained when it would be
 * released.
 */
export async function retainAfter(
  failed: RetainContext & { readonly ownsVm: boolean },
  sandbox: Sandbox,
  result: StageResult,
  signal: AbortSignal,
): Promise<LeftVm> {
  const { deps, request, vmKey, ownsVm } = failed;
  const forMs = request.scope.sandbox.keepOnFailureMs;
  const { failure } = result;
  const ends = { result, isRetained: false };
  if (forMs === undefined || result.outcome !== 'failed' || failure === null) return ends;
  if (!(await isFinal(failed, result))) return ends;
  const of = { stage: request.stage.id, execKey: request.execKey };
  const addToFailure = (text: string): StageResult => ({
    ...result,
    failure: { ...failure, message: `${failure.message}; ${text}` },
  });
  if (!ownsVm) {
    await deps.marks.putOfVm(request.runId, markName(vmKey), { v: 1, ...of } satisfies Mark);
    return { result: addToFailure(describeSharedVm(request.runId, of, forMs)), isRetained: false };
  }
  const untilMs = await retain(deps, vmKey, sandbox, of, forMs, signal);
  if (untilMs === null) return ends;
  return { result: addToFailure(describeRetainedVm(request.runId, of, untilMs)), isRetained: true };
}

interface Mark {
  readonly v: 1;
  readonly stage: string;
  readonly execKey: string;
}

function markName({ scope, instance, generation }: VmKey): string {
  return `vm-left-${scope}/${instance.length === 0 ? '' : `${formatInstance(instance)}/`}${generation}`;
}

/**
 * Retains a shared VM instead of releasing it. Returns true if the VM lives on, because one of its stages failed, or
 * because an earlier call has retained it.
 */
export async function retainAtRelease(
  deps: Deps,
  request: ScopeRequest,
  key: VmKey,
  signal: AbortSignal,
): Promise<boolean> {
  const forMs = request.scope.sandbox.keepOnFailureMs;
  if (forMs === undefined) return false;
  if (await isRetained(deps, key)) return true;
  const mark = (await deps.marks.getOfVm(key.runId, markName(key))) as Mark | null | undefined;
  if (mark === null || mark === undefined) return false;
  try {
    const backend = deps.backendFor(request.scope.sandbox);
    const vm = await deps.vms.use(key, () => backend.launch(key, request.scope.sandbox, signal));
    try {
      const of = { stage: mark.stage, execKey: mark.execKey };
      const untilMs = await retain(deps, key, vm.sandbox, of, forMs, signal);
      if (untilMs === null) return false;
      // The failure could not contain this note, because the stage had ended before.
      await recordNotice(
        deps,
        key,
        'retained',
        `stage ${stageOfRetained(of)}: ${describeRetainedVm(key.runId, of, untilMs)}`,
      );
      return true;
    } finally {
      vm.leave();
      deps.vms.drop(key);
    }
  } catch (error) {
    // The VM has ended in the meantime.
    if (isCodedError(error) && endsVm(error.code)) return false;
    throw error;
  }
}

export async function isRetained({ retainedVms }: Pick<Deps, 'retainedVms'>, key: VmKey): Promise<boolean> {
  const name = formatVmKey(key);
  return (await retainedVms?.list())?.some((vm) => formatVmKey(vm.key) === name) === true;
}

/**
 * @returns the end of the VM's time, by the clock of this host. Null if the VM ends as usual; an event then gives the
 * reason
 */
async function retain(
  deps: Deps,
  key: VmKey,
  sandbox: Sandbox,
  of: Omit<Mark, 'v'>,
  forMs: number,
  signal: AbortSignal,
): Promise<number | null> {
  const { runId } = key;
  const name = formatVmKey(key);
  const stage = stageOfRetained(of);
  const refuse = async (why: string): Promise<null> => {
    await recordNotice(deps, key, 'not-retained', `stage ${stage}: its VM is not kept: ${why}`);
    return null;
  };
  const { retainedVms } = deps;
  if (deps.allowsRetention !== true || retainedVms === undefined)
    return await refuse('this worker does not allow runs to keep VMs of failed stages (`voidbox worker --allow-keep`)');
  // Count and retain under a lock, so that stages that fail at once do not exceed the limit.
  const leftMs = await deps.vms.exclusively(`retained/${runId}`, signal, async () => {
    const others = (await retainedVms.list()).filter((vm) => vm.key.runId === runId && formatVmKey(vm.key) !== name);
    if (others.length >= RETENTION.vmsOfRun) return 'too-many' as const;
    return await sandbox.retain(forMs, { ...of, retainedAtMs: deps.now() });
  });
  if (leftMs === 'too-many')
    return await refuse(
      `${RETENTION.vmsOfRun} VMs of the run are already kept: end one with \`voidbox release ${quoteRunId(runId)} STAGE\``,
    );
  if (leftMs === null) return await refuse('its sandbox is simulated');
  return deps.now() + leftMs;
}

async function recordNotice(
  { events, now }: Deps,
  key: VmKey,
  what: 'retained' | 'not-retained',
  message: string,
): Promise<void> {
  const body = { type: 'notice', level: what === 'retained' ? 'info' : 'warning', message } as const;
  await events.append(key.runId, [{ id: EVENT_ID.vm(formatVmKey(key), what), atMs: now(), body }]);
}

/** Makes room for a VM: ends the oldest retained VM. Returns false if there is no such VM. */
export async function endOldestRetained(deps: Deps, wanted: VmKey): Promise<boolean> {
  const oldest = (await deps.retainedVms?.recent())?.[0];
  if (oldest === undefined) return false;
  const { key } = oldest;
  await deps.retainedVms!.end(key);
  deps.vms.drop(key);
  await deps.leases.release(key);
  const message = `the VM that the failed stage ${stageOfRetained(oldest)} of run ${sanitizeLine(key.runId)} had left was ended: scope ${wanted.scope} needed its room`;
  await deps.events.append(wanted.runId, [
    {
      id: EVENT_ID.madeRoom(formatVmKey(wanted), formatVmKey(key)),
      atMs: deps.now(),
      body: { type: 'notice', level: 'warning', message },
    },
  ]);
  return true;
}
